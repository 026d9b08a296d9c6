#!/usr/bin/env bash
# Installs the wheel that .ci/wheel.sh made into an empty virtual environment, and reconstructs a scan there:
#   tests/packages/wheel.sh [PACKAGES_FOLDER]     (default: build/packages)
# Needs a network for numpy and h5py. LD_LIBRARY_PATH, where CUDA's libraries are, goes on to a wheel that needs them.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"
packages=$(realpath "${1:-$build/packages}")
wheel=$(find "$packages" -maxdepth 1 -name 'echotrain-*.whl' -printf '%T@ %p\n' | sort -n | sed -n '$s/^[^ ]* //p')
[ -f "$wheel" ] || die "there is no echotrain-*.whl in $packages; make one with ./run package"
work=$(mktemp -d /tmp/echotrain-wheel.XXXXXX)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 "$wheel"
cat >"$work/use.py" <<'END'
import pathlib
import re

import numpy as np

import echotrain
from echotrain.link import local

package = pathlib.Path(echotrain.__file__).parent
images = echotrain.reconstruct("scan.h5", pipeline="radial_2d", local=True)
alone = echotrain.read_images("alone.h5")
assert len(images) == len(alone) == 3
for image, other in zip(images, alone):
    # The order of the sums depends on how readouts arrive.
    np.testing.assert_allclose(image.data, other.data, atol=1e-5 * other.data.max())
process = local.local_server().process.pid
assert pathlib.Path(f"/proc/{process}/exe").resolve() == package / "bin" / "echotrain-server"
mapped = set(re.findall(r"/\S*\.so[.\d]*$", pathlib.Path(f"/proc/{process}/maps").read_text(), re.MULTILINE))
hosts = r"/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|z|nss_[a-z]+|cuda[a-z]*|cu[a-z]+|nv[A-Za-z]+|nvidia[-a-z]*))\.so"
own = {each for each in mapped if each.startswith(str(package.parent / "echotrain.libs"))}
others = {each for each in mapped - own if not re.search(hosts, each)}
assert len(own) > 10 and not others, others
with echotrain.Client(local=True) as client:
    shipped = client.query("echotrain::pipelines")
assert len(list((package / "share" / "echotrain" / "pipelines").glob("*.yaml"))) > 40 and "radial_2d" in shipped
print(f"{len(images)} images, {len(own)} libraries of the wheel")
END
# Nothing of this shell's: neither the build's programs nor its packages.
clean() { (cd "$work" && env -i HOME="$work" PATH="$work/venv/bin:/usr/bin:/bin" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" "$@"); }
[ "$(clean sh -c 'command -v echotrain-server')" = "$work/venv/bin/echotrain-server" ] || die "the wheel brings no echotrain-server"
clean echotrain simulate -o scan.h5 --trajectory golden_radial --matrix 64 --coils 4 --frames 3 --noise 1
clean echotrain recon scan.h5 -c radial_2d -o alone.h5
clean echotrain-server --check "$work"/venv/lib/python3*/site-packages/echotrain/share/echotrain/pipelines/radial_2d.yaml >"$work/check"
clean python -I use.py
say "wheel: $(basename "$wheel") was installed, and reconstructed a scan by a server of its own"
