#!/usr/bin/env bash
# A bare Debian in a folder, from the network the first time and from an archive of it afterwards:
#   tests/packages/base.sh FOLDER [MIRROR]       (as root; ECHOTRAIN_BASE_ARCHIVE names the archive: build/base.tar)
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"
folder=$1 mirror=${2:-http://deb.debian.org/debian}
archive=${ECHOTRAIN_BASE_ARCHIVE:-$build/base.tar}
suite=bookworm
[ "$(id -u)" -eq 0 ] || die "this must run as root: it makes a system in a folder"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

if [ ! -f "$archive" ]; then
  say "making a bare $suite from $mirror"
  fresh=$(mktemp -d "$build/base.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  quietly "$build/debootstrap.log" debootstrap debootstrap --variant=minbase "$suite" "$fresh" "$mirror"
  # With the security fixes that an image or a host of today has.
  printf 'deb %s %s main\ndeb %s %s-updates main\ndeb %s-security %s-security main\n' \
    "$mirror" "$suite" "$mirror" "$suite" "$mirror" "$suite" >"$fresh/etc/apt/sources.list"
  quietly "$build/debootstrap.log" "apt-get upgrade" chroot "$fresh" sh -c \
    'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get upgrade -qq -y && apt-get clean && rm -rf /var/lib/apt/lists/*'
  tar -C "$fresh" -cf "$archive.partial" --one-file-system .
  mv "$archive.partial" "$archive"
fi
mkdir -p "$folder"
tar -C "$folder" -xf "$archive"
