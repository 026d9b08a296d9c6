#!/usr/bin/env bash
# Builds the image `cpu` without a Docker engine and runs it: its entry point, its health check, a scan through it and its
# end, as an engine would with --read-only --cap-drop ALL --security-opt no-new-privileges.
#   docker/test.sh [--prebuilt | --cuda]     (as root, on Debian or Ubuntu)
# --prebuilt: with build/packages/echotrain_*.deb; without it the sources are compiled inside the image. --cuda: the image
# `cuda`, compiled for one architecture on a bare Debian with a copy of this machine's CUDA toolkit in place of NVIDIA's
# images; the scan runs on the CPU. Needs buildah and debootstrap (both are installed if missing) and a network.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/common.sh"
cd "$root"
if [ "${ECHOTRAIN_OWN_MOUNTS:-}" != yes ]; then
  [ "$(id -u)" -eq 0 ] || die "this must run as root: it sets up systems in folders"
  ECHOTRAIN_OWN_MOUNTS=yes exec unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$@"
fi
packages=compiled target=cpu
case ${1:-} in
  '') ;;
  --prebuilt) packages=prebuilt ;;
  --cuda)
    target=cuda
    toolkit=$(readlink -f "$(dirname "$(find_nvcc)")/..")
    [ -x "$toolkit/bin/nvcc" ] || die "--cuda needs a CUDA toolkit, and no nvcc was found"
    ;;
  *) die "'$1' is neither --prebuilt nor --cuda" ;;
esac
"$root/.ci/setup.sh" package image
image=localhost/echotrain:$target
base=localhost/echotrain-base
work=$(mktemp -d /tmp/echotrain-image.XXXXXX)
container='' server=''
b() { buildah --storage-driver vfs --root "$build/images" --runroot "$work/run" "$@"; }

clean_up() {
  local status=$?
  if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
  umount -Rl "$work/root" "$work/network" 2>/dev/null || true
  if [ -n "$container" ]; then b rm "$container" >/dev/null || true; fi
  b rmi --prune >/dev/null 2>&1 || true
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap clean_up EXIT

# make_base NAME [FILE OF THE TOOLKIT...]: an image of a bare Debian, with these files where builds look for CUDA.
make_base() {
  local made name=$1 file
  shift
  tests/packages/base.sh "$work/base"
  for file in "$@"; do
    mkdir -p "$work/base/usr/local/cuda/$(dirname "$file")"
    cp -a "$toolkit/$file" "$work/base/usr/local/cuda/$file"
  done
  if [ $# -gt 0 ]; then
    echo /usr/local/cuda/lib >"$work/base/etc/ld.so.conf.d/cuda.conf"
    chroot "$work/base" ldconfig
  fi
  made=$(b from scratch)
  b add -q "$made" "$work/base" / >/dev/null
  b commit -q "$made" "$name" >/dev/null
  b rm "$made" >/dev/null
  rm -rf "$work/base"
}

say "the base: a bare Debian"
mkdir -p "$build/images"
make_base "$base"
arguments=(--build-arg "BASE=$base" --build-arg "PACKAGES=$packages")
if [ "$target" = cuda ]; then
  say "the bases with CUDA from $toolkit"
  needed=$(cd "$toolkit" && find lib/ -name 'libcufft.so*' -o -name 'libnccl.so*' -o -name 'libcudart.so*')
  mapfile -t libraries <<<"$needed"
  make_base "$base-cuda" "${libraries[@]}"
  make_base "$base-cuda-build" "${libraries[@]}" bin include nvvm lib64 lib/libcudart_static.a lib/libcudadevrt.a
  arguments+=(--build-arg "CUDA_BASE=$base-cuda" --build-arg "CUDA_BUILD_BASE=$base-cuda-build" --build-arg CUDA_ARCHITECTURES=90)
fi

say "the image $target, $packages"
begun=$SECONDS
quietly "$build/image.log" "buildah build" b build --isolation chroot --format docker --pull=never --layers=false \
  "${arguments[@]}" --target "$target" -t "$image" -f docker/Dockerfile .
say "built in $((SECONDS - begun)) s"

container=$(b from --pull=never "$image")
lower=$(b mount "$container")
config() { b inspect --type image --format "$1" "$image"; }
expect() { [ "$2" = "$3" ] || die "$1 is '$2' and not '$3'"; }
expect "the user" "$(config '{{.Docker.Config.User}}')" 10001:10001
expect "the entry point" "$(config '{{.Docker.Config.Entrypoint}}')" "[/usr/bin/tini -- /usr/bin/echotrain-server]"
expect "the command" "$(config '{{.Docker.Config.Cmd}}')" "[--options /etc/echotrain/echotrain.yaml]"
expect "the health check" "$(config '{{.Docker.Config.Healthcheck.Test}}')" "[CMD /usr/bin/echotrain health]"
# shellcheck disable=SC2016  # dpkg-query expands it
version=$(chroot "$lower" dpkg-query -W -f '${Version}' echotrain)
expect "the label of the version" "$(config '{{index .Docker.Config.Labels "org.opencontainers.image.version"}}')" "$version"
for program in gcc cc g++ c++ clang ld as make cmake ninja ccache curl wget; do
  if chroot "$lower" sh -c "command -v $program" >/dev/null; then die "$program is in the image"; fi
done
privileged=$(find "$lower" -xdev -perm /6000 -type f)
[ -z "$privileged" ] || die "files that change the user who runs them: $privileged"
writable=$(find "$lower" -xdev \( -user 10001 -o -group 10001 \) -printf '/%P ')
expect "what the user owns" "$(tr ' ' '\n' <<<"$writable" | sort | xargs)" "/var/cache/echotrain /var/lib/echotrain"
python3 - "$lower" <<'END'
import json, subprocess, sys
with open(sys.argv[1] + "/usr/share/echotrain/sbom.cdx.json") as file:
    parts = json.load(file)["components"]
listed = {(part["name"], part["version"]) for part in parts}
there = subprocess.run(["chroot", sys.argv[1], "dpkg-query", "-W", "-f", "${Package} ${Version}\\n"],
                       capture_output=True, text=True, check=True).stdout.split("\n")
assert listed == {tuple(line.split()) for line in there if line}, "the SBOM and the packages differ"
print(f"== SBOM: {len(parts)} packages")
END
say "size: $(($(du -sxk "$lower" | cut -f1) / 1024)) MB unpacked, $(($(tar -C "$lower" -c . | gzip -6 | wc -c) >> 20)) MB compressed; the base: $(($(tar -xOf "$build/base.tar" 2>/dev/null | wc -c) >> 20)) MB unpacked"

# A network of its own, and a read-only root with the mounts of an engine and the tmpfs of compose.yaml.
touch "$work/network"
unshare --net="$work/network" ip link set lo up
mkdir "$work/root"
mount --bind "$lower" "$work/root"
mount -t proc proc "$work/root/proc"
mount -t tmpfs -o mode=1777,size=256m tmpfs "$work/root/tmp"
mount -t tmpfs -o uid=10001,gid=10001,mode=0700,size=64m tmpfs "$work/root/var/cache/echotrain"
mount -o remount,bind,ro "$work/root"

# enter COMMAND...: replaces this shell by a command in the image, as an engine runs it; inside: runs one beside it.
enter() {
  exec nsenter --net="$work/network" chroot "$work/root" \
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/ ECHOTRAIN_CACHE_DIR=/var/cache/echotrain \
    setpriv --reuid 10001 --regid 10001 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
}
inside() { (enter "$@"); }
mapfile -t entry < <(b inspect --type image "$image" | python3 -c '
import json, sys
config = json.load(sys.stdin)["Docker"]["config"]
print(*config["Entrypoint"], *config["Cmd"], sep="\n")')
mapfile -t check < <(b inspect --type image "$image" | python3 -c '
import json, sys
print(*json.load(sys.stdin)["Docker"]["config"]["Healthcheck"]["Test"][1:], sep="\n")')

if inside touch /usr/x 2>/dev/null; then die "the root file system can be written to"; fi
if inside "${check[@]}" >/dev/null 2>&1; then die "the health check does not notice that there is no server"; fi
enter "${entry[@]}" >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
  if inside "${check[@]}" >/dev/null 2>&1 || ! kill -0 "$server" 2>/dev/null; then break; fi
  sleep 0.1
done
inside "${check[@]}" || { cat "$work/server.log" >&2; die "the health check fails"; }
grep -qE '^CapEff:\s0+$' "/proc/$server/status" || die "the server has capabilities: $(grep CapEff "/proc/$server/status")"
inside echotrain simulate -o /tmp/scan.h5 --trajectory golden_radial --matrix 64 --coils 4 --frames 3 --noise 1
inside echotrain send /tmp/scan.h5 -c radial_2d -o /tmp/images.h5
inside env echotrain recon /tmp/scan.h5 -c radial_2d -o /tmp/expected.h5
inside echotrain compare /tmp/images.h5 /tmp/expected.h5 --scale none --max-nrmse 1e-5
kill -TERM "$server"
sleep 1
if inside "${check[@]}"; then die "a server that was asked to stop still says that it is ready"; fi
status=0
wait "$server" || status=$?
server=
expect "the exit status" "$status" 0

if [ "$target" = cuda ]; then
  say "image: built, healthy without a GPU, reconstructed a scan on a read-only root without capabilities, and stopped"
  exit 0
fi
say "the package for OpenRecon"
engine="buildah --storage-driver vfs --root $build/images --runroot $work/run"
plain=$(b from --pull=never "$image")
docker/openrecon/package.py --image "$image" --engine "$engine" --server "chroot $(b mount "$plain") /usr/bin/echotrain-server" \
  -o "$work/openrecon" >"$build/openrecon.log" 2>&1 ||
  { tail -n 20 "$build/openrecon.log" >&2; die "docker/openrecon/package.py failed"; }
tail -n 1 "$build/openrecon.log"
b rm "$plain" >/dev/null
python3 - "$work/openrecon" "$version" <<'END'
import base64, io, json, pathlib, sys, tarfile, zipfile
(package,), version = pathlib.Path(sys.argv[1]).iterdir(), sys.argv[2]
name = f"OpenRecon_echotrain_Echotrain_V{version}"
assert package.name == name + ".zip", package
with zipfile.ZipFile(package) as archive:
    assert sorted(archive.namelist()) == [name + ".pdf", name + ".tar"], archive.namelist()
    assert archive.read(name + ".pdf").startswith(b"%PDF-1.4")
    with archive.open(name + ".tar") as file, tarfile.open(fileobj=io.BytesIO(file.read())) as image:
        manifest, = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(manifest["Config"]))["config"]
label = json.loads(base64.b64decode(config["Labels"]["com.siemens-healthineers.magneticresonance.openrecon.metadata:1.1.0"]))
assert label["general"]["version"] == version and label["parameters"][0]["default"] == "cartesian_display", label
assert label["reconstruction"]["port"] == 9002 and config["User"] == "10001:10001"
assert manifest["RepoTags"][0].endswith(f"openrecon_echotrain_echotrain:v{version}"), manifest
END
packed=$(b from --pull=never "localhost/openrecon_echotrain_echotrain:v$version")
chroot "$(b mount "$packed")" /usr/bin/echotrain-server --pipelines /usr/share/echotrain/openrecon --list-pipelines |
  grep -q '^openrecon ' || die "the image for OpenRecon has no pipeline called openrecon"
b rm "$packed" >/dev/null
say "image: built, healthy, reconstructed a scan on a read-only root without capabilities, and stopped"
