#!/usr/bin/env bash
# Proves the two commands on a machine that has none of the packages: a minimal Debian in a folder, a clone of this
# repository inside, `./dev serve` with a question asked over HTTP, then `./dev test`. Needs root and debootstrap.
#
# usage: tools/clean_room.sh FOLDER [RELEASE [MIRROR]]     RELEASE: bookworm (Debian 12, the default), trixie (13), ...
#                                                          MIRROR: by default the first of this machine's apt sources
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
room=${1:?usage: tools/clean_room.sh FOLDER [RELEASE [MIRROR]]}
release=${2:-bookworm}
mirror=${3:-$(grep -hE '^(deb|URIs:) ' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+' | head -n 1 || true)}
[ "$(id -u)" = 0 ] || { echo "clean_room: debootstrap and chroot need root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "clean_room: install debootstrap first" >&2; exit 2; }

if [ ! -e "$room/etc/debian_version" ]; then
  echo "clean_room: a minimal Debian ($release) in $room"
  debootstrap --variant=minbase --include=ca-certificates,git "$release" "$room" "$mirror" >"$room.log" 2>&1 || { tail -n 5 "$room.log" >&2; exit 1; }
fi
# The same sources, certificates and resolver as outside, so that the packages come from where this machine gets them.
for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/keyrings \
            /etc/ssl/certs /usr/local/share/ca-certificates /etc/resolv.conf /etc/hosts /etc/npmrc; do
  [ -e "$file" ] && mkdir -p "$room$(dirname "$file")" && cp -rL "$file" "$room$(dirname "$file")/" 2>/dev/null || true
done
if [ "$release" != "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" ]; then
  rm -rf "$room/etc/apt/sources.list.d"
  echo "deb $mirror $release main" >"$room/etc/apt/sources.list"
fi
[ -e "$HOME/.npmrc" ] && cp "$HOME/.npmrc" "$room/root/.npmrc"
mount --bind /proc "$room/proc" && mount --bind /dev "$room/dev"
trap 'umount "$room/proc" "$room/dev"' EXIT

rm -rf "$room/root/fulmar"
git clone -q "$here" "$room/root/fulmar"
inside() { chroot "$room" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} LANG=C.UTF-8 CI=true bash -c "$1"; }

echo "clean_room: ./dev serve"
inside 'cd /root/fulmar && (./dev serve --port 8765 >/tmp/serve.log 2>&1 & echo $! >/tmp/serve.pid)
for _ in $(seq 2400); do grep -q "paste this" /tmp/serve.log && break; kill -0 "$(cat /tmp/serve.pid)" || break; sleep 0.5; done
tail -n 6 /tmp/serve.log
python3 - <<"PY"
import json, urllib.request
body = json.dumps({"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}).encode()
answer = json.load(urllib.request.urlopen("http://127.0.0.1:8765/v1/chat/completions", body))
text = answer["choices"][0]["message"]["content"]
print("clean_room: the answer is", text)
assert text == "42", text
page = urllib.request.urlopen("http://127.0.0.1:8765/").read()
assert b"Fulmar" in page
PY
kill -INT "$(cat /tmp/serve.pid)"; for _ in $(seq 100); do kill -0 "$(cat /tmp/serve.pid)" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$(cat /tmp/serve.pid)" 2>/dev/null'
echo "clean_room: ./dev test"
inside 'cd /root/fulmar && ./dev test'
echo "clean_room: both commands work on a bare machine"
