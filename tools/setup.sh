#!/bin/sh
# Makes a clone ready to run and to test, without any right on the machine. Quick when nothing changed; safe to run twice at once.
set -eu
cd "$(dirname "$0")/.."

mkdir -p .cache
if [ -z "${ITERATE_SETUP_LOCKED:-}" ] && command -v flock >/dev/null 2>&1; then
  export ITERATE_SETUP_LOCKED=1
  exec flock .cache/setup.lock sh "$PWD/tools/setup.sh"
fi

. tools/node.sh
ensure_node

if ! node tools/packages-installed.mjs; then
  if ! command -v npm >/dev/null 2>&1; then
    echo "setup: npm is needed to install packages. Install it beside Node: https://nodejs.org" >&2
    exit 1
  fi
  echo "setup: installing packages" >&2
  npm ci --ignore-scripts --no-audit --no-fund >&2
fi

exec node --conditions=iterate-source --import tsx deploy/local/src/setup-main.ts
