# Bare Debian trees to try things in: sourced by clean_room.sh and try_release.sh. Needs root and debootstrap.
# Source it with `set -euo pipefail`; `name` is what messages begin with.

default_mirror() {
  grep -hE '^(deb|URIs:) ' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]+' | head -n 1 || true
}

# make_room ROOM RELEASE MIRROR PACKAGES: a minimal Debian with these packages (a,b), unless it is there already.
make_room() {
  local room=$1 release=$2 mirror=$3 packages=$4
  [ "$(id -u)" = 0 ] || { echo "$name: debootstrap and chroot need root" >&2; exit 2; }
  [ -e "$room/etc/debian_version" ] && return 0
  command -v debootstrap >/dev/null || { echo "$name: install debootstrap first" >&2; exit 2; }
  echo "$name: a minimal Debian ($release) in $room"
  debootstrap --variant=minbase --include="$packages" "$release" "$room" "$mirror" >"$room.log" 2>&1 || { tail -n 5 "$room.log" >&2; exit 1; }
}

# furnish_room ROOM RELEASE MIRROR: the same sources, certificates and resolver as outside, so that packages come from where
# this machine gets them.
furnish_room() {
  local room=$1 release=$2 mirror=$3 file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/keyrings \
              /etc/ssl/certs /usr/local/share/ca-certificates /etc/resolv.conf /etc/hosts /etc/npmrc; do
    [ -e "$file" ] && mkdir -p "$room$(dirname "$file")" && cp -rL "$file" "$room$(dirname "$file")/" 2>/dev/null || true
  done
  if [ "$release" = "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" ]; then
    [ -e /etc/apt/sources.list ] || rm -f "$room/etc/apt/sources.list"  # debootstrap's own would name the mirror twice
  else
    rm -rf "$room/etc/apt/sources.list.d"
    echo "deb $mirror $release main" >"$room/etc/apt/sources.list"
  fi
  [ -e "$HOME/.npmrc" ] && cp "$HOME/.npmrc" "$room/root/.npmrc" || true
}

# enter_room ROOM / leave_room ROOM: what programs inside need of the kernel.
enter_room() { mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev"; }
leave_room() { umount "$1/proc" "$1/dev"; }

# inside ROOM COMMAND: in a clean environment.
inside() {
  chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} LANG=C.UTF-8 CI=true DEBIAN_FRONTEND=noninteractive bash -c "$2"
}
