#!/bin/sh
# Removes what setup, tests and the stack made, state included; packages and the pinned Node stay.
set -eu
cd "$(dirname "$0")/.."
state="${ITERATE_STATE_DIR:-.iterate}"

if [ -f "$state/stack.json" ]; then
  pid=$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$state/stack.json")
  if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
    echo "clean: a stack runs on $state (process $pid). Stop it first." >&2
    exit 1
  fi
fi

# As root, Postgres may keep its files where its own account can reach them.
if [ -L "$state/postgres-data" ]; then rm -rf "$(readlink "$state/postgres-data")"; fi
rm -rf "$state" .cache coverage tools/nats
find libs services deploy test -name node_modules -prune -o \( -name dist -o -name '*.tsbuildinfo' \) -print | while read -r path; do
  rm -rf "$path"
done
