#!/usr/bin/env bash
# Starts a server and points the tests of clients at it: run.sh <path of fulmar> [client ...]; without names all.
# Exits 77, which ctest takes for skipped, where nothing could be run; a client that is not installed is named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
program="$1"
shift

# client | packages of npm that it needs. Codex has a folder of its own, whose packages are fetched when somebody wants them:
# they unpack to 400 MB.
clients() {
  cat <<'LIST'
openai|openai
structured|openai ajv
openapi|ajv @seriousme/openapi-schema-validator
anthropic|@anthropic-ai/sdk
ollama|ollama
ai-sdk|ai @ai-sdk/openai @ai-sdk/openai-compatible zod
langchain|@langchain/openai @langchain/core zod
agents|@openai/agents openai zod
llamaindex|llamaindex @llamaindex/openai zod
codex|@openai/codex
LIST
}

# The clients want a newer node than distributions have; npm brings one.
node="$here/node_modules/.bin/node"
if ! "$node" --version >/dev/null 2>&1; then node="$(command -v node || true)"; fi
if [ -z "$node" ]; then
  echo "SKIPPED: node is not installed"
  exit 77
fi

tests=()
while IFS='|' read -r client packages; do
  if [ $# -gt 0 ] && [[ " $* " != *" $client "* ]]; then continue; fi
  folder=""
  [ -d "$here/$client" ] && folder="$client/"
  missing=""
  for package in $packages; do
    [ -d "$here/${folder}node_modules/$package" ] || missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    echo "SKIPPED $client: not installed:$missing; run 'npm ci' in $here/$folder"
  else
    tests+=("$folder$client.test.mjs")
  fi
done < <(clients)
if [ "${#tests[@]}" -eq 0 ]; then exit 77; fi

out="$(mktemp)"
"$program" serve --port 0 --state-db-path none --password sesame >"$out" 2>&1 &
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
BASE_URL="$address" API_KEY=sesame "$node" --test "${tests[@]}"

kill -TERM "$server"
code=0
wait "$server" || code=$?
if [ "$code" -ne 0 ]; then
  echo "the server ended with exit code $code after SIGTERM; wanted 0"
  cat "$out"
  exit 1
fi
