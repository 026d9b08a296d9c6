#!/usr/bin/env bash
# Installs what `cpack` made into bare Debians, runs the server and a scan there, and compiles the examples of docs/:
#   tests/packages/test.sh [PACKAGES_FOLDER]     (as root; default: build/packages)
# Needs debootstrap, and a network for it and for the packages that ours depends on.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"
packages=$(realpath "${1:-$build/packages}")
here=$root/tests/packages
# Mounts are made in a namespace of their own, and are gone with this script.
if [ "${ECHOTRAIN_OWN_MOUNTS:-}" != yes ]; then
  [ "$(id -u)" -eq 0 ] || die "this must run as root: it installs into a system in a folder"
  ECHOTRAIN_OWN_MOUNTS=yes exec unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$packages"
fi

newest() { find "$packages" -maxdepth 1 -name "$1" -printf '%T@ %p\n' | sort -n | sed -n '$s/^[^ ]* //p'; }
deb=$(newest 'echotrain_*.deb')
dev=$(newest 'echotrain-dev_*.deb')
archive=$(newest 'echotrain-*.tar.xz')
[ -f "$deb" ] || die "there is no echotrain_*.deb in $packages; make one with ./run package"
[ -f "$dev" ] || die "there is no echotrain-dev_*.deb in $packages; make one with ./run package"
[ -f "$archive" ] || die "there is no echotrain-*.tar.xz in $packages; make one with ./run package"

needs_cufft=$(dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/bin/echotrain-server | grep -c 'libcufft\.so' || true)
if [ "$needs_cufft" != 0 ]; then
  die "$(basename "$deb") was built for GPUs and needs cuFFT, which a bare Debian has not; test the packages of a build without them: ./run build -DECHOTRAIN_CUDA=OFF && ./run package --test"
fi

work=$(mktemp -d /tmp/echotrain-packages.XXXXXX)
server=
clean_up() {
  local status=$?
  if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
  umount -l "$work"/*/proc 2>/dev/null || true
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap clean_up EXIT

# system NAME: a bare Debian in $work/NAME.
system() {
  "$here/base.sh" "$work/$1"
  mount -t proc proc "$work/$1/proc"
}

# inside NAME COMMAND...: in that system, as nobody in particular. enter: the same in place of this shell.
inside() { (enter "$@"); }
enter() { exec chroot --userspec=nobody:nogroup "$work/$1" /usr/bin/env HOME=/tmp LC_ALL=C.UTF-8 "${@:2}"; }

# scan NAME BIN [SERVER OPTION...]: a server, a scan through it, and the same scan without one: equal bit by bit.
scan() {
  local name=$1 bin=$2 log=$work/$1.log port='' status=0
  shift 2
  inside "$name" "$bin/echotrain" simulate -o /tmp/scan.h5 --trajectory golden_radial --matrix 64 --coils 4 --frames 3 --noise 1
  enter "$name" "$bin/echotrain-server" "$@" --port 0 --admin-port 0 >"$log" 2>&1 &
  server=$!
  for _ in $(seq 200); do
    port=$(sed -nE 's/^listening on .*:([0-9]+)$/\1/p' "$log")
    if [ -n "$port" ] || ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  [ -n "$port" ] || { cat "$log" >&2; die "the server did not start in $name"; }
  inside "$name" "$bin/echotrain" send /tmp/scan.h5 -c radial_2d -p "$port" -o /tmp/images.h5
  inside "$name" "$bin/echotrain" recon /tmp/scan.h5 -c radial_2d -o /tmp/expected.h5
  inside "$name" "$bin/echotrain" compare /tmp/images.h5 /tmp/expected.h5 --scale none --max-nrmse 0
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  [ "$status" -eq 0 ] || { cat "$log" >&2; die "the server ended with status $status in $name"; }
}

# absent NAME PROGRAM...: programs that an installation must not bring.
absent() {
  local name=$1 program
  shift
  for program in "$@"; do
    if inside "$name" sh -c "command -v $program" >/dev/null; then die "the package brought $program into $name"; fi
  done
}

say "the Debian package, $(basename "$deb"), $(du -h "$deb" | cut -f1)"
system debian
before=$(du -sxm "$work/debian" | cut -f1)
cp "$deb" "$work/debian/tmp/echotrain.deb"
quietly "$work/apt.log" "apt-get install" chroot "$work/debian" sh -c \
  'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends /tmp/echotrain.deb && apt-get clean'
say "installed: $(($(du -sxm "$work/debian" --exclude=var/lib/apt/lists | cut -f1) - before)) MB with what it depends on"
absent debian gcc cc g++ ld
grep -q '^ExecStart=/usr/bin/echotrain-server ' "$work/debian/usr/lib/systemd/system/echotrain-server.service" ||
  die "the unit does not start the installed server"
for file in man/man1/echotrain.1 man/man1/echotrain-server.1 bash-completion/completions/echotrain zsh/vendor-completions/_echotrain-server; do
  [ -s "$work/debian/usr/share/$file" ] || die "the package has no /usr/share/$file"
done
scan debian /usr/bin --options /etc/echotrain/echotrain.yaml

say "the package for developers, $(basename "$dev"): a gadget and a client compiled against it"
cp "$dev" "$work/debian/tmp/echotrain-dev.deb"
cp -r "$root/docs/plugin" "$root/docs/client" "$work/debian/srv/"
quietly "$work/apt.log" "apt-get install" chroot "$work/debian" sh -c \
  'DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends /tmp/echotrain-dev.deb g++ cmake make && apt-get clean'
for example in plugin client; do
  quietly "$work/cmake.log" "compiling docs/$example" chroot "$work/debian" sh -c \
    "cmake -S /srv/$example -B /srv/$example/build && cmake --build /srv/$example/build"
done
inside debian /usr/bin/echotrain-server --plugins /srv/plugin/build --explain gain | grep -q 'Multiplies images' ||
  die "the server does not know the plugin's gadget"
quietly "$work/apt.log" "apt-get purge" chroot "$work/debian" apt-get purge -qq -y echotrain-dev

echo "# mine" >>"$work/debian/etc/echotrain/echotrain.yaml"
quietly "$work/apt.log" "apt-get remove" chroot "$work/debian" apt-get remove -qq -y echotrain
grep -q '^# mine$' "$work/debian/etc/echotrain/echotrain.yaml" || die "removing the package took the options file with it"
quietly "$work/apt.log" "apt-get purge" chroot "$work/debian" apt-get purge -qq -y echotrain
left=$(find "$work/debian" -xdev -path '*echotrain*' -not -path '*/tmp/*' -not -path '*/var/*' -not -path '*/srv/*' | head -n 5)
[ -z "$left" ] || die "left behind by purging the package: $left"

say "the archive, $(basename "$archive"), $(du -h "$archive" | cut -f1)"
system bare
mkdir -p "$work/bare/srv/some where"
tar -C "$work/bare/srv/some where" --strip-components=1 -xf "$archive"
strangers=$(inside bare ldd "/srv/some where/bin/echotrain-server" | awk '/not found/ {print $1}')
[ -z "$strangers" ] || die "not in the archive: $strangers"
absent bare gcc cc g++ ld
scan bare "/srv/some where/bin"
say "packages: both were installed, served a scan and stopped"
