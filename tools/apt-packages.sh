#!/bin/sh
# As root, installs the programs of tools/apt-packages.txt that are missing. Otherwise does nothing: suites that miss a program say so.
set -eu
cd "$(dirname "$0")"
missing=""
while read -r package program; do
  case "$package" in "" | "#"*) continue ;; esac
  command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || missing="$missing $package"
done <apt-packages.txt
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "test: not installed, and not root to install them:$missing" >&2
  exit 0
fi
echo "test: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# Package lists may be absent or old; only then is updating worth its time.
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
  apt-get update >/dev/null
  apt-get install -y --no-install-recommends $missing >/dev/null
} || echo "test: could not install$missing" >&2
