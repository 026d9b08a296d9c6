"""docs/measured_mri.png, docs/measured_ultrasound.png and docs/edges.png: measured data, as shipped pipelines show them.

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/measured_pictures.py build/bin/echotrain docs

Only of data whose licence allows it (docs/data.md). MRI: the gradient-echo phantom and the 16-channel head coil's
slice (cartesian_plain with `resize` to 256 x 256), and the middle of the lung's volume (kooshball_3d, likewise).
Ultrasound: a frame of the disc (ultrasound_plane_wave, 30 dB), and beside it the B-mode of another program that comes
with the data. Edges: the simulated phantom and the gradient-echo one, before (cartesian_plain) and after Sobel's operator
(cartesian_edges). Needs scipy.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
from scipy.io import loadmat

for folder in ("integration", "integration/support"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import scans  # noqa: E402
from pictures import write_png  # noqa: E402
from programs import measured, variant  # noqa: E402
from test_ultrasound import disc_messages  # noqa: E402

SIZE = 256


def reconstruct(program, scan, config, folder):
    output = folder / "images.h5"
    output.unlink(missing_ok=True)
    subprocess.run([program, "recon", scan, "-c", config, "-o", output], check=True, stdout=subprocess.DEVNULL)
    return scans.read_images(output)[1]


def enlarged(name, folder, axes="xy", before="image"):
    """A shipped pipeline with a zero-filled interpolation to SIZE before a gadget of it."""
    config = folder / f"{name}.yaml"
    sizes = ", ".join(f"matrix_{axis}: {SIZE}" for axis in axes)
    config.write_text(variant(name, (f"  - {before}:", f"  - resize: {{{sizes}}}\n  - {before}:")))
    return config


def panel(image):
    return np.clip(image / np.percentile(image, 99.7), 0, 1)


def lung(folder):
    with h5py.File(measured("radial3d_lung1/radial3d_lung.h5")) as file:
        trajectory, data = 2 * file["trajectory"][:], file["data"][:]  # +-0.25 of its own matrix: +-0.5 of one of 64
    scans.non_cartesian("radial", (64, 64, 64), trajectory, data[:, None, :]).save(folder / "lung.h5")
    return folder / "lung.h5"


def main():
    program, docs = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flat = enlarged("cartesian_plain", folder)
        panels = [panel(reconstruct(program, measured(scan), flat, folder)[0, 0, 0])
                  for scan in ("cartesian_gre_phantom2/gre2.h5", "cartesian_flash_phantom/headcoil16.h5")]  # fmt: skip
        volume = reconstruct(program, lung(folder), enlarged("kooshball_3d", folder), folder)[0, 0]
        panels.append(panel(volume[volume.shape[0] // 2]))
        write_png(docs / "measured_mri.png", np.hstack(panels))

        subprocess.run([program, "simulate", "-o", folder / "phantom.h5", "--trajectory", "cartesian", "--coils", "1",
                        "--matrix", str(SIZE)], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        configs = (flat, enlarged("cartesian_edges", folder, before="sobel"))
        panels = [panel(reconstruct(program, scan, config, folder)[0, 0, 0])
                  for scan in (folder / "phantom.h5", measured("cartesian_gre_phantom2/gre2.h5"))
                  for config in configs]  # fmt: skip
        write_png(docs / "edges.png", np.hstack(panels))

        data = loadmat(measured("ultrasound_disk/PWI_disk.mat"), squeeze_me=True)
        theirs = loadmat(measured("ultrasound_disk/bmode_PWI_disk.mat"), squeeze_me=True)["I"][:, :, 0].astype(float)
        disc_messages(data["RF"][:, :, :1].astype(float), data["param"]).save(folder / "disc.h5")
        config = folder / "disc.yaml"
        config.write_text(variant("ultrasound_plane_wave", ("range_db: 60", "range_db: 30"),
                                  ("max_angle_deg: 90", "max_angle_deg: 25")))  # fmt: skip
        ours = reconstruct(program, folder / "disc.h5", config, folder)[0, 0, 0]
        write_png(docs / "measured_ultrasound.png", np.hstack([ours / ours.max(), theirs / theirs.max()]))


if __name__ == "__main__":
    main()
