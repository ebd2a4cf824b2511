#!/usr/bin/env bash
# Starts a server and points the client tests at it: run.sh <path of fulmar> [further flags of `fulmar serve`]
# Exits 77, which ctest takes for skipped, where node or the npm packages are missing.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
program="$1"
shift

if ! command -v node >/dev/null; then
  echo "SKIPPED: node is not installed"
  exit 77
fi
if [ ! -d "$here/node_modules/openai" ] || [ ! -d "$here/node_modules/ajv" ]; then
  echo "SKIPPED: $here/node_modules is missing; run 'npm ci' in $here"
  exit 77
fi

out="$(mktemp)"
"$program" serve --port 0 --state-db-path none "$@" >"$out" 2>&1 &
server=$!
finish() {
  kill -TERM "$server" 2>/dev/null || true
  rm -f "$out"
}
trap finish EXIT

address=""
for _ in $(seq 600); do
  address="$(grep -oE 'http://[^/ ]+' "$out" | head -n 1 || true)"
  [ -n "$address" ] && break
  if ! kill -0 "$server" 2>/dev/null; then
    echo "the server ended early:"
    cat "$out"
    exit 1
  fi
  sleep 0.1
done
if [ -z "$address" ]; then
  echo "the server printed no address within a minute:"
  cat "$out"
  exit 1
fi

cd "$here"
BASE_URL="$address" node --test openai.test.mjs structured.test.mjs

kill -TERM "$server"
code=0
wait "$server" || code=$?
if [ "$code" -ne 0 ]; then
  echo "the server ended with exit code $code after SIGTERM; wanted 0"
  cat "$out"
  exit 1
fi
