"""Simulated EPI through the TCP server: what is wrong with a scan, and the header does not say, costs nothing.

The truth is the object's exact k-space, transformed. Errors without faults are those of ramps (a line is good to 1e-4),
of GRAPPA and of the lines that partial Fourier leaves out; with faults they may be a tenth more.
"""

import numpy as np
import pytest

import ghosts
import reference
import scans
from programs import plain_variant, run_client, simulated_scan

RAMPS = "--trajectory epi --matrix 64 --ramp-us 150 --flat-us 100"
FAULTS = "--gradient-delay-us 3.4 --ghost 0.2"


def images_of(server, folder, backend, options, *changes):
    """Magnitudes [y, x] of each frame, the truth, and what the server said."""
    scan, config = folder / "scan.h5", folder / "epi.yaml"
    simulated_scan(scan, *RAMPS.split(), *options.split())
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}"), *changes))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    pixels = [np.asarray(image, float).squeeze() for image in scans.read_images(folder / "images.h5")[1]]
    return pixels, scans.read_array(scan, "truth"), result.stderr


@pytest.mark.parametrize("options", [
    "--coils 4",
    "--coils 4 --shots 3",
    "--coils 8 --acceleration 2 --calibration 24 --calibration-mode separate",
    "--coils 32 --acceleration 2 --calibration 16 --partial-fourier 0.75",
])  # fmt: skip
def test_a_late_gradient_and_a_ghost_cost_nothing(server, backend, tmp_path, options):
    (clean,), truth, _ = images_of(server, tmp_path, backend, options)
    without = reference.nrmse(clean, truth)
    (image,), truth, said = images_of(server, tmp_path, backend, f"{options} {FAULTS}")
    error = reference.nrmse(image, truth)
    assert error <= 1.1 * without + 2e-4, f"{error:.4f}, without faults {without:.4f}"
    assert "the readout gradient comes 3.40 us late" in said, said
    assert "warning" not in said.lower(), said
    if "acceleration" in options:
        return
    assert without < 5e-4
    off, truth, _ = images_of(server, tmp_path, backend, f"{options} {FAULTS}",
                              ("method: linear ", "method: none "), ("delay: navigators", "delay: given"))  # fmt: skip
    assert reference.nrmse(off[0], truth) > 0.2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_coils_keep_no_more_ghost_than_after_the_true_phase(server, backend, tmp_path, seed):
    """32 coils whose noise is correlated, joined adaptively: the ghost, noise and all, is at most 1.05 times that of the
    same scan without faults, and half of what the root of the sum of squares keeps of the coils' noise."""
    options = f"--coils 32 --noise 0.3 --noise-scan --seed {seed}"
    adaptive, off = ("method: rss", "method: adaptive"), ("method: linear ", "method: none ")
    (true,), truth, _ = images_of(server, tmp_path, backend, options, adaptive, off, ("delay: navigators", "delay: given"))
    (image,), _, said = images_of(server, tmp_path, backend, f"{options} {FAULTS}", adaptive)
    (rss,), _, _ = images_of(server, tmp_path, backend, f"{options} {FAULTS}")
    mask = ghosts.object_mask(truth)
    levels = [ghosts.ghost_level(each, mask) for each in (true, image, rss)]
    print(f"after the true phase {levels[0]:.4f}, ours {levels[1]:.4f}, rss {levels[2]:.4f}")
    assert "warning" not in said.lower(), said
    assert levels[1] <= 1.05 * levels[0]
    assert levels[1] <= 0.6 * levels[2]


def test_a_drifting_field_moves_no_image(server, backend, tmp_path):
    options = "--coils 4 --frames 3 --b0-drift-hz 12"
    images, truth, _ = images_of(server, tmp_path, backend, options)
    assert len(images) == 3
    for image in images:
        assert reference.nrmse(image, truth) < 5e-3
    moved, truth, _ = images_of(server, tmp_path, backend, options, ("b0_drift: true ", "b0_drift: false"))
    assert reference.nrmse(moved[2], truth) > 0.1


def test_options_of_epi_are_for_epi(tmp_path):
    made = run_client("simulate", "-o", tmp_path / "scan.h5", "--trajectory", "cartesian", "--ghost", 0.2)
    assert made.returncode == 2 and "--ghost is for --trajectory epi" in made.stderr
