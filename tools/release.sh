#!/usr/bin/env bash
# Makes what a release consists of, in a folder: the Debian package, the archive that brings its libraries along, a list of
# all parts (SPDX), and SHA256SUMS over them. Then tries both on bare Debian trees (tools/try_release.sh), where they can be
# made.
#
# usage: tools/release.sh OUT [--build FOLDER] [--rooms FOLDER] [--releases "bookworm trixie"] [--most-mib N]
#   --build      a configured build folder; default: build/release, which is configured where it is not
#   --rooms      where the bare trees are kept; without it nothing is tried
#   --releases   both are tried on each; default: that of this machine, then trixie
#   --most-mib   the most that the archive may have; default 32, with CUDA 64
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$here"
usage() { sed -n '5,9p' "$0" | cut -c3- >&2; exit 2; }
[ $# -gt 0 ] && [ "${1#-}" = "$1" ] || usage
out=$(mkdir -p "$1" && cd "$1" && pwd); shift
build=build/release rooms="" most=""
own=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
releases=$own; [ "$own" = trixie ] || releases="$own trixie"
while [ $# -gt 1 ]; do
  case "$1" in
    --build) build=$2 ;; --rooms) rooms=$2 ;; --releases) releases=$2 ;; --most-mib) most=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ $# = 0 ] || usage

if [ "$(git status --porcelain --untracked-files=no)" ]; then
  echo "release: the working tree differs from its commit; --version of what is made says '-dirty'" >&2
fi
if [ ! -e "$build/build.ninja" ]; then mkdir -p build; ./dev build; fi
cmake --build "$build" --target fulmar
rm -f "$build"/fulmar*.deb "$build"/fulmar*.tar.gz "$build"/fulmar*.sha256
(cd "$build" && cpack -G "DEB;TGZ" >cpack.log 2>&1) || { tail -n 20 "$build/cpack.log" >&2; exit 1; }
rm -f "$out"/fulmar*.deb "$out"/fulmar*.tar.gz "$out"/fulmar*.spdx.json "$out/SHA256SUMS"
cp "$build"/fulmar*.deb "$build"/fulmar*.tar.gz "$out/"
archive=$(cd "$out" && echo fulmar*.tar.gz)
python3 tools/parts.py sbom "$build" "$out/$archive" >"$out/${archive%.tar.gz}.spdx.json"
(cd "$out" && sha256sum fulmar* >SHA256SUMS && sha256sum --check --quiet SHA256SUMS)

case "$archive" in *-cuda.tar.gz) most=${most:-64} ;; *) most=${most:-32} ;; esac
size=$(($(stat -c %s "$out/$archive") >> 20))
[ "$size" -le "$most" ] || { echo "release: $archive has $size MiB; wanted at most $most" >&2; exit 1; }
ls -l "$out"
if [ -z "$rooms" ]; then echo "release: made, but not tried (--rooms FOLDER tries it)"; exit 0; fi
for release in $releases; do
  for kind in deb archive; do tools/try_release.sh "$out" "$rooms" "$release" "$kind"; done
done
