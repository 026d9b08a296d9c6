"""Measured EPI of a phantom through the TCP server: the ghost that is left. Bounds are a little above what numpy leaves
with a straight line through the phase of the same three navigator lines, and with the phase of least entropy."""

import numpy as np
import pytest

import ghosts
import scans
from programs import measured, variant

FOLDER = "epi_pulseq_pe_polarity"
REFINED = {
    "ro1200_forward": 0.031, "ro1200_reversed": 0.020, "ro240_forward": 0.024, "ro240_reversed": 0.027,
    "ramp96_forward": 0.031, "ramp96_reversed": 0.033,
}  # fmt: skip
BOUNDS = {
    "ro1200_forward": 0.031, "ro1200_reversed": 0.020, "ro240_forward": 0.058, "ro240_reversed": 0.062,
    "ramp96_forward": 0.035, "ramp96_reversed": 0.039,
}  # fmt: skip


def magnitude(server, name, folder, backend, *changes):
    """The image [y, x] of a measured scan by epi_2d, and what the server said."""
    config = folder / "epi.yaml"
    config.write_text(variant("epi_2d", ("backend: auto", f"backend: {backend}"), *changes))
    result = server.send(measured(f"{FOLDER}/{name}.h5"), config, folder / "images.h5")
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
