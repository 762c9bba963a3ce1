#!/bin/sh
# Builds every image, starts each as its pod is allowed to, and probes it. As root, installs the builders that are missing first.
set -eu
cd "$(dirname "$0")/.."

missing=""
for program in buildah podman runc debootstrap; do
  command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || missing="$missing $program"
done
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "images: installing$missing" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update >/dev/null
  # Debian's packages are called as their programs are.
  # shellcheck disable=SC2086
  apt-get install -y --no-install-recommends $missing >/dev/null
elif [ -n "$missing" ]; then
  echo "images: not installed, and not root to install them:$missing" >&2
  exit 1
fi
LONG=1 REQUIRE_ALL=1 exec node tools/test.mjs test/charts/images.test.ts
