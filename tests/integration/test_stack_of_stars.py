"""Stacks of stars and spirals through the server: the data is what the formulas say, and the image is the phantom."""

import numpy as np
import pytest

import reference
import scans
from programs import run_client, simulated_scan, variant

SIGMA = 2.0  # of the blob [pixels]


def simulate(path, trajectory, *options):
    return simulated_scan(path, "--trajectory", trajectory, *options)


def spirals():
    return variant("stack_of_stars", ("third_component: z", "third_component: weight"),
                   ("method: ramp", "method: from_data"))


@pytest.mark.parametrize("trajectory", ["stack_of_stars", "stack_of_spirals"])
def test_blob_data_is_its_fourier_transform(tmp_path, trajectory):
    """exp(-r^2 / 2 sigma^2) has the transform (2 pi sigma^2)^(3/2) exp(-2 pi^2 sigma^2 k^2), r in voxels."""
    options = ("--phantom", "blob", "--matrix", 16, "--coils", 1, "--partitions", 5, "--readouts", 6)
    _, heads, points, data = scans.read_acquisitions(simulate(tmp_path / "scan.h5", trajectory, *options))
    assert len(heads) == 30
    k = np.stack(points).astype(np.float64)
    kz = np.repeat((heads["idx"]["kspace_encode_step_2"][:, None].astype(np.float64) - 2) / 5, k.shape[1], axis=1)
    if trajectory == "stack_of_stars":
        np.testing.assert_allclose(k[..., 2], kz, atol=1e-7)
    else:  # the third component is the weight; each partition has the disc's
        assert k[..., 2].sum() == pytest.approx(5 * np.pi / 4, rel=1e-5)
    k[..., 2] = kz
    truth = (2 * np.pi * SIGMA**2) ** 1.5 * np.exp(-2 * np.pi**2 * SIGMA**2 * np.sum(k**2, axis=-1))
    # Positions are stored as float32: relative changes of 4 pi^2 sigma^2 k dk < 1e-5.
    np.testing.assert_allclose(np.stack(data)[:, 0], truth, rtol=1e-5, atol=1e-6 * truth.max())


# As in test_end_to_end: Fibonacci numbers of spokes lie evenly, a sum over radii wants small steps; the blob is summed
# finely over the disc, while the head's k-space reaches the edge. Along z the truth is exact.
CASES = {
    "stars": ("stack_of_stars", ("--readouts", 89), "stack_of_stars"),
    "stars, partitions outermost": ("stack_of_stars", ("--readouts", 89, "--partitions-outermost"), "stack_of_stars"),
    "stars, odd": ("stack_of_stars", ("--readouts", 89, "--partitions", 7), "stack_of_stars"),
    "spirals": ("stack_of_spirals", ("--samples", 400), None),
}
TOLERANCE = {"blob": 1.5e-2, "shepp_logan": 4e-2}


@pytest.mark.parametrize("phantom", TOLERANCE)
@pytest.mark.parametrize("case", CASES)
def test_image_is_the_phantom(server, tmp_path, case, phantom):
    trajectory, options, config = CASES[case]
    if config is None:
        config = tmp_path / "spirals.yaml"
        config.write_text(spirals())
    scan, output = tmp_path / "scan.h5", tmp_path / "images.h5"
    simulate(scan, trajectory, "--phantom", phantom, "--matrix", 32, "--coils", 3, "--frames", 2, *options)
    result = server.send(scan, config, output)
    assert result.returncode == 0, result.stderr
    truth = scans.read_array(scan, "truth")
    assert truth.shape == (7 if "odd" in case else 8, 32, 32)
    heads, images = scans.read_images(output)
    assert images.shape == (2, 1, *truth.shape)
    assert [int(head["repetition"]) for head in heads] == [0, 1]
    for image in images:
        error = reference.nrmse(image[0], truth)
        assert error <= TOLERANCE[phantom], f"NRMSE {error:.3g}"


def test_blob_peaks_at_one(server, tmp_path):
    """Amplitude 1 gives value 1: one coil is 1 everywhere. The radial sum is off by 4e-4 at a matrix of 64."""
    options = ("--phantom", "blob", "--matrix", 64, "--coils", 1, "--readouts", 144, "--partitions", 16)
    scan = simulate(tmp_path / "scan.h5", "stack_of_stars", *options)
    result = server.send(scan, "stack_of_stars", tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    _, images = scans.read_images(tmp_path / "images.h5")
    assert images.shape == (1, 1, 16, 64, 64)
    assert images[0, 0, 8, 32, 32] == pytest.approx(1, abs=1e-3)
    assert images[0, 0].max() == images[0, 0, 8, 32, 32]


def test_whitening_comes_first_and_batches_never_show(server, tmp_path):
    scan, config = tmp_path / "scan.h5", tmp_path / "cpu.yaml"
    options = ("--matrix", 24, "--coils", 3, "--noise", 4, "--noise-scan", "--readouts", 34, "--partitions", 5)
    simulate(scan, "stack_of_stars", *options)
    config.write_text(variant("stack_of_stars", ("backend: auto", "backend: cpu")))
    assert server.send(scan, config, tmp_path / "sent.h5").returncode == 0
    _, sent = scans.read_images(tmp_path / "sent.h5")
    assert sent.shape == (1, 1, 5, 24, 24) and np.all(np.isfinite(sent))
    for batch in (1, 7, 1000):
        result = run_client("recon", scan, "-c", config, "-o", tmp_path / "recon.h5", "--batch", batch)
        assert result.returncode == 0, result.stderr
        # Readouts gridded as they come are summed in another order.
        assert reference.nrmse(scans.read_images(tmp_path / "recon.h5")[1], sent) < 1e-5


def test_spokes_without_a_trajectory(tmp_path):
    """radial_trajectory makes the simulator's own golden angles again, to float32."""
    import h5py

    scan = tmp_path / "scan.h5"
    simulate(scan, "stack_of_stars", "--matrix", 24, "--coils", 2, "--readouts", 34, "--partitions", 4)
    config = tmp_path / "own.yaml"
    config.write_text(variant("stack_of_stars", ("  # - radial_trajectory", "  - radial_trajectory")))
    plain = tmp_path / "plain.h5"
    assert run_client("recon", scan, "-c", "stack_of_stars", "-o", plain).returncode == 0
    with h5py.File(scan, "r+") as file:
        rows = file["dataset/data"][:]
        rows["head"]["trajectory_dimensions"] = 0
        for row in rows:
            row["traj"] = np.empty(0, np.float32)
        file["dataset/data"][:] = rows
    made = tmp_path / "made.h5"
    result = run_client("recon", scan, "-c", config, "-o", made)
    assert result.returncode == 0, result.stderr
    # The simulator's angle has nine digits: spoke 33 is off by 1e-8 degrees; float32 rounding of positions is more.
    assert reference.nrmse(scans.read_images(made)[1], scans.read_images(plain)[1]) < 1e-5
    refused = run_client("recon", scan, "-c", "stack_of_stars", "-o", tmp_path / "none.h5")
    assert refused.returncode != 0 and "trajectory" in refused.stderr


def test_a_flat_scan_is_refused(server, tmp_path):
    scan = simulate(tmp_path / "scan.h5", "radial", "--matrix", 16, "--coils", 1)
    result = server.send(scan, "stack_of_stars", tmp_path / "images.h5")
    assert result.returncode != 0
    assert "no partitions along z" in result.stderr, result.stderr
