#!/usr/bin/env bash
# Has texts drawn under schemas of a public suite and judged by ajv: schema_suite.sh <path of fulmar_draw_documents> [ARGUMENTS]
# Without arguments a fixed sample, else those of schema_suite.mjs. Exits 77, which ctest takes for skipped, where node, the npm
# packages or the suite are missing.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
suite="$here/../../../shared/suites/maskbench-a.jsonl.xz"
if ! command -v node >/dev/null || [ ! -d "$here/node_modules/ajv-draft-04" ]; then
  echo "SKIPPED: node or $here/node_modules is missing; run 'npm ci' in $here"
  exit 77
fi
if [ $# -lt 2 ] && [ ! -f "$suite" ]; then
  echo "SKIPPED: there is no $suite"
  exit 77
fi
program="$1"
shift
[ $# -gt 0 ] || set -- "$suite" --sample 100
DRAW="$program" exec node "$here/schema_suite.mjs" "$@"
