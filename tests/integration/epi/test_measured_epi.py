"""Measured EPI of a phantom through the TCP server: the ghost that is left. Bounds are a little above what numpy leaves
with a straight line through the phase of the same three navigator lines, and with the phase of least entropy."""

import h5py
import numpy as np
import pytest

import ghosts
import scans
from programs import measured, plain_variant

FOLDER = "epi_pulseq_pe_polarity"
REFINED = {
    "ro1200_forward": 0.031, "ro1200_reversed": 0.020, "ro240_forward": 0.024, "ro240_reversed": 0.027,
    "ramp96_forward": 0.031, "ramp96_reversed": 0.033,
}  # fmt: skip
BOUNDS = {
    "ro1200_forward": 0.031, "ro1200_reversed": 0.020, "ro240_forward": 0.058, "ro240_reversed": 0.062,
    "ramp96_forward": 0.035, "ramp96_reversed": 0.039,
}  # fmt: skip


def magnitude(server, name, folder, backend, *changes, scan=None):
    """The image [y, x] of a measured scan by epi_2d, and what the server said."""
    config = folder / "epi.yaml"
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}"), *changes))
    result = server.send(scan or measured(f"{FOLDER}/{name}.h5"), config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    _, pixels = scans.read_images(folder / "images.h5")
    assert len(pixels) == 1
    return np.asarray(pixels[0], np.float64).squeeze(), result.stderr


@pytest.mark.parametrize("name", BOUNDS)
def test_three_navigator_lines_leave_little_ghost(server, backend, tmp_path, name):
    image, said = magnitude(server, name, tmp_path, backend)
    ghost = ghosts.ghost_level(image)
    assert ghost <= BOUNDS[name], f"{name}: {ghost:.4f}"
    assert "warning" not in said.lower(), said
    changes = ("method: linear ", "method: none   "), ("delay: navigators", "delay: given")
    turned, _ = magnitude(server, name, tmp_path, backend, *changes)
    assert ghosts.ghost_level(turned, ghosts.object_mask(image)) > 5 * ghost


@pytest.mark.parametrize("name", REFINED)
def test_the_image_itself_tells_more(server, backend, tmp_path, name):
    image, said = magnitude(server, name, tmp_path, backend, ("refine: none ", "refine: entropy "))
    ghost = ghosts.ghost_level(image)
    assert ghost <= REFINED[name], f"{name}: {ghost:.4f}"
    assert "asks for" in said, said


@pytest.mark.parametrize("name", BOUNDS)
def test_a_separate_scan_tells_each_lines_phase(server, backend, tmp_path, name):
    """The whole scan without phase encoding in place of the three lines before the image: the phase of each line by itself
    leaves no more than that of all, or of the three lines."""
    kind = name.split("_")[0]
    scan, config = tmp_path / "scan.h5", ("lines: each ", "lines: alike")
    with h5py.File(measured(f"{FOLDER}/{name}.h5")) as source, h5py.File(measured(f"{FOLDER}/{kind}_navigator.h5")) as navs:
        lines, navigators = source["dataset/data"][:], navs["dataset/data"][:]
        with h5py.File(scan, "w") as target:
            group = target.create_group("dataset")
            group.create_dataset("xml", data=source["dataset/xml"][:], dtype=h5py.string_dtype())
            image = [row for row in lines if not int(row["head"]["flags"]) >> 23 & 1]
            rows = np.array([*navigators, *image], dtype=lines.dtype)
            group.create_dataset("data", data=rows, dtype=lines.dtype, maxshape=(None,))
    three, _ = magnitude(server, name, tmp_path, backend)
    mask = ghosts.object_mask(three)
    each, said = magnitude(server, name, tmp_path, backend, scan=scan)
    alike, _ = magnitude(server, name, tmp_path, backend, config, scan=scan)
    levels = [ghosts.ghost_level(image, mask) for image in (three, alike, each)]
    print(f"{name}: three lines {levels[0]:.4f}, all alike {levels[1]:.4f}, each {levels[2]:.4f}")
    assert "each line of slice 0 is corrected by" in said, said
    assert levels[2] <= 1.01 * min(levels[:2])
