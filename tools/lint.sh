#!/bin/sh
# What a reviewer should not have to say: the contracts, the floors, the event vocabulary, unused code, the layout, the typed rules. Each
# says what it found.
set -eu
cd "$(dirname "$0")/.."

failed=""
check() {
  name=$1
  shift
  if ! "$@"; then failed="$failed $name"; fi
}

check contracts sh tools/proto.sh check
check floors depcruise --config .dependency-cruiser.mjs --output-type err libs services deploy test docs/examples
check vocabulary node --conditions=iterate-source --import tsx tools/vocabulary.mjs
check unused knip --no-progress
check layout prettier --check --log-level warn .
check rules eslint .

if [ -n "$failed" ]; then
  echo "lint: failed:$failed" >&2
  exit 1
fi
