#!/usr/bin/env bash
# Has documents drawn under schemas and judged by the validator of npm: schemas.sh <path of fulmar_draw_documents>
# Exits 77, which ctest takes for skipped, where node or the npm packages are missing.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if ! command -v node >/dev/null; then
  echo "SKIPPED: node is not installed"
  exit 77
fi
if [ ! -d "$here/node_modules/ajv" ] || [ ! -d "$here/node_modules/ajv-formats" ]; then
  echo "SKIPPED: $here/node_modules is missing; run 'npm ci' in $here"
  exit 77
fi
cd "$here"
DRAW="$1" exec node --test schemas.mjs
