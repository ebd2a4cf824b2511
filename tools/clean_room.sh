#!/usr/bin/env bash
# Proves the two commands on a machine that has none of the packages: a minimal Debian in a folder, a clone of this
# repository inside, `./dev serve` with a question asked over HTTP, then `./dev test`. Needs root and debootstrap.
#
# usage: tools/clean_room.sh FOLDER [RELEASE [MIRROR]]     RELEASE: bookworm (Debian 12, the default), trixie (13), ...
#                                                          MIRROR: by default the first of this machine's apt sources
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=clean_room
. "$here/tools/bare_room.sh"
room=${1:?usage: tools/clean_room.sh FOLDER [RELEASE [MIRROR]]}
release=${2:-bookworm}
mirror=${3:-$(default_mirror)}
make_room "$room" "$release" "$mirror" ca-certificates,git
furnish_room "$room" "$release" "$mirror"
enter_room "$room"
trap 'leave_room "$room"' EXIT

rm -rf "$room/root/fulmar"
git clone -q "$here" "$room/root/fulmar"
echo "clean_room: ./dev serve"
inside "$room" 'cd /root/fulmar && (./dev serve --port 8765 >/tmp/serve.log 2>&1 & echo $! >/tmp/serve.pid)
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
inside "$room" 'cd /root/fulmar && ./dev test'
echo "clean_room: both commands work on a bare machine"
