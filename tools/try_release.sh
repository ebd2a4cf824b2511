#!/usr/bin/env bash
# Tries a release as a person with a bare Debian would: installs the package, or unpacks the archive with nothing installed,
# starts the server, and chats. Says how long that took, without what is downloaded. Needs root; debootstrap where the tree
# is not there yet.
#
# usage: tools/try_release.sh OUT ROOMS RELEASE deb|archive     OUT: what tools/release.sh has made
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=try_release
. "$here/tools/bare_room.sh"
[ $# = 4 ] || { sed -n '6p' "$0" | cut -c3- >&2; exit 2; }
out=$1 rooms=$2 release=$3 kind=$4
mkdir -p "$rooms"
mirror=$(default_mirror)
make_room "$rooms/$release" "$release" "$mirror" ca-certificates

# A copy, so that the tree stays bare.
room="$rooms/$release.$kind"
rm -rf "$room"
cp -a --reflink=auto "$rooms/$release" "$room"
furnish_room "$room" "$release" "$mirror"
enter_room "$room"
trap 'leave_room "$room"; rm -rf "$room"' EXIT
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
cp "$out"/fulmar* "$room/root/"

# What is downloaded is fetched first and not counted.
if [ "$kind" = deb ]; then
  inside "$room" 'apt-get update -q >/root/apt.log 2>&1 && cd /root && apt-get install -y -q --download-only --no-install-recommends ./fulmar*.deb >>/root/apt.log 2>&1 || { tail -n 5 /root/apt.log >&2; exit 1; }'
  install='apt-get install -y -q --no-install-recommends ./fulmar*.deb >>/root/apt.log 2>&1 || { tail -n 5 /root/apt.log >&2; exit 1; }; program=/usr/bin/fulmar'
else
  install='tar xf fulmar*.tar.gz; program=$(echo /root/fulmar*/bin/fulmar)'
fi

# The answer is asked for without curl or Python, which a bare Debian lacks.
inside "$room" 'set -euo pipefail; cd /root; begun=$(date +%s%N); '"$install"'
installed=$(date +%s%N)
"$program" serve --port 8766 --device cpu --state-db-path none >/root/serve.log 2>&1 & server=$!
for _ in $(seq 600); do grep -q "paste this" /root/serve.log && break; kill -0 $server || { cat /root/serve.log; exit 1; }; sleep 0.1; done
body="{\"messages\":[{\"role\":\"user\",\"content\":\"What is 12 + 30?\"}],\"temperature\":0}"
exec 3<>/dev/tcp/127.0.0.1/8766
printf "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" ${#body} "$body" >&3
answer=$(cat <&3)
answered=$(date +%s%N)
case "$answer" in *"\"content\":\"42\""*) ;; *) echo "the answer is not 42: $answer" >&2; exit 1 ;; esac
exec 3<>/dev/tcp/127.0.0.1/8766
printf "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" >&3
case "$(tr -d "\0" <&3)" in *"<title>Fulmar"*) ;; *) echo "no page" >&2; exit 1 ;; esac
kill -TERM $server; wait $server
"$program" --version
"$program" doctor --port 8766 --state-db-path none
seconds() { printf "%d.%01d s" $(($1 / 1000000000)) $(($1 / 100000000 % 10)); }
echo "try_release: '"$release $kind"': installed in $(seconds $((installed - begun))), chatting $(seconds $((answered - begun))) after the start"
[ $(((answered - begun) / 1000000000)) -lt 120 ] || { echo "wanted: under two minutes" >&2; exit 1; }'

if [ "$kind" = deb ]; then
  inside "$room" 'set -e
for file in /usr/share/man/man1/fulmar.1 /usr/share/man/man1/fulmar-doctor.1 /usr/share/bash-completion/completions/fulmar /usr/share/zsh/site-functions/_fulmar \
  /usr/share/fish/vendor_completions.d/fulmar.fish /lib/systemd/system/fulmar-control.service /lib/systemd/system/fulmar-worker@.service /etc/fulmar/workers.yaml /usr/share/doc/fulmar/LICENSE /usr/share/fulmar/models/fulmar-demo.safetensors; do
  [ -e $file ] || [ -e $file.gz ] || { echo "the package lacks $file" >&2; exit 1; }
done
getent passwd fulmar >/dev/null || { echo "there is no user fulmar" >&2; exit 1; }
echo "# mine" >>/etc/fulmar/workers.yaml
cd /root && apt-get install -y -q --reinstall --no-install-recommends ./fulmar*.deb >>/root/apt.log 2>&1
grep -q "# mine" /etc/fulmar/workers.yaml || { echo "an upgrade has overwritten /etc/fulmar/workers.yaml" >&2; exit 1; }
# The form with CUDA and that without take each other'"'"'s place; what is left of one is no business of the other'"'"'s settings.
name=$(dpkg-deb -f fulmar*.deb Package) other=fulmar-cuda; [ "$name" = fulmar ] || other=fulmar
dpkg-deb --raw-extract fulmar*.deb /root/other
sed -i -e "s/^Package: .*/Package: $other/" -e "/^\(Conflicts\|Replaces\|Provides\): /d" -e "/^Version: /aConflicts: $name\nReplaces: $name" other/DEBIAN/control
dpkg-deb --build other other.deb >>/root/apt.log 2>&1
apt-get install -y -q --no-install-recommends ./other.deb >>/root/apt.log 2>&1
dpkg --purge "$name" >>/root/apt.log 2>&1
grep -q "# mine" /etc/fulmar/workers.yaml || { echo "a purge of $name has taken the settings of $other" >&2; exit 1; }
fulmar --version >/dev/null
dpkg --purge "$other" >>/root/apt.log 2>&1
[ ! -e /usr/bin/fulmar ] && [ ! -e /etc/fulmar/workers.yaml ] || { echo "a purge has left something behind" >&2; exit 1; }'
else
  inside "$room" 'set -e; cd /root
# Of the program: its search path holds for the libraries of its libraries, too.
foreign=$(ldd fulmar*/bin/fulmar | grep "=> /" | grep -v "/root/fulmar" | awk "{print \$1}" | sort -u | grep -vE "^lib(c|m|dl|rt|pthread|resolv)\.so" || true)
[ -z "$foreign" ] || { echo "the archive takes from the system: $foreign" >&2; exit 1; }
mv fulmar*-linux-*/ /srv/elsewhere
/srv/elsewhere/bin/fulmar --version >/dev/null
ls /srv/elsewhere/share/doc/fulmar/licences >/dev/null
echo "try_release: $(ls /srv/elsewhere/lib/fulmar | wc -l) libraries of its own, and none of the system but those of glibc"'
fi
