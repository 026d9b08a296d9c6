"""Simulated scans through the server: the data is what the formulas say, and the image is the phantom."""

import math

import numpy as np
import pytest

import reference
import scans
import wire
from programs import run_client, simulated_scan, variant

PIPELINE = {
    "cartesian": "cartesian_plain",
    "radial": "radial_2d",
    "golden_radial": "radial_2d",
    "spiral": "spiral_2d",
    "kooshball": "kooshball_3d",
}
SIGMA = 2.0  # of the blob [pixels]
# Toft's Shepp-Logan table: amplitude, half axes, centre (y up), all in halves of the field of view, and degrees.
ELLIPSES = [
    (1.0, 0.69, 0.92, 0, 0, 0), (-0.8, 0.6624, 0.874, 0, -0.0184, 0), (-0.2, 0.11, 0.31, 0.22, 0, -18),
    (-0.2, 0.16, 0.41, -0.22, 0, 18), (0.1, 0.21, 0.25, 0, 0.35, 0), (0.1, 0.046, 0.046, 0, 0.1, 0),
    (0.1, 0.046, 0.046, 0, -0.1, 0), (0.1, 0.046, 0.023, -0.08, -0.605, 0), (0.1, 0.023, 0.023, 0, -0.606, 0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0),
]  # fmt: skip


def simulate(path, trajectory, *options):
    return simulated_scan(path, "--trajectory", trajectory, *options)


def positions(trajectory, heads, points, matrix):
    """[readout, sample, dimension] in cycles/pixel."""
    if trajectory != "cartesian":
        dims = 3 if trajectory == "kooshball" else 2
        return np.stack(points)[..., :dims].astype(np.float64)
    samples = int(heads[0]["number_of_samples"])
    kx = (np.arange(samples) - int(heads[0]["center_sample"])) / samples
    ky = (heads["idx"]["kspace_encode_step_1"].astype(np.float64) - matrix // 2) / matrix
    return np.stack(np.broadcast_arrays(kx[None, :], ky[:, None]), axis=-1)


@pytest.mark.parametrize("trajectory", PIPELINE)
def test_blob_data_is_its_fourier_transform(tmp_path, trajectory):
    """exp(-r^2 / 2 sigma^2) has the transform (2 pi sigma^2)^(n/2) exp(-2 pi^2 sigma^2 k^2), everywhere."""
    matrix = 16
    options = ("--phantom", "blob", "--matrix", matrix, "--coils", 1)
    _, heads, points, data = scans.read_acquisitions(simulate(tmp_path / "scan.h5", trajectory, *options))
    k = positions(trajectory, heads, points, matrix)
    truth = (2 * np.pi * SIGMA**2) ** (k.shape[-1] / 2) * np.exp(-2 * np.pi**2 * SIGMA**2 * np.sum(k**2, axis=-1))
    measured = np.stack([line[0] for line in data])
    # Positions are stored as float32: relative changes of 4 pi^2 sigma^2 k dk < 1e-5.
    np.testing.assert_allclose(measured, truth, rtol=1e-5, atol=1e-6 * truth.max())
    assert np.abs(k).max() <= 0.5


@pytest.mark.parametrize("trajectory", ["cartesian", "radial", "golden_radial", "spiral"])
def test_shepp_logan_data_is_its_fourier_transform(tmp_path, trajectory):
    """An ellipse a, b at r0 has the transform a b J1(2 pi q) / q exp(-2 pi i k.r0) with q = |(a ku, b kv)| along its
    axes; at k = 0 that is its area."""
    matrix = 32
    options = ("--phantom", "shepp_logan", "--matrix", matrix, "--coils", 1)
    _, heads, points, data = scans.read_acquisitions(simulate(tmp_path / "scan.h5", trajectory, *options))
    measured = np.stack([line[0] for line in data])
    k = positions(trajectory, heads, points, matrix)
    at_zero = measured[np.all(k == 0, axis=-1)]
    assert len(at_zero) == {"cartesian": 1, "spiral": 0}.get(trajectory, len(data))
    area = sum(row[0] * math.pi * row[1] * row[2] for row in ELLIPSES) * (matrix / 2) ** 2
    np.testing.assert_allclose(at_zero, area, rtol=1e-6)

    j1 = pytest.importorskip("scipy.special").j1
    kx, ky = k[..., 0], -k[..., 1]  # rows of an image run downwards
    truth = np.zeros(kx.shape, complex)
    for amplitude, *lengths, degrees in ELLIPSES:
        a, b, x, y = (value * matrix / 2 for value in lengths)
        cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        q = np.maximum(np.hypot(a * (kx * cosine + ky * sine), b * (ky * cosine - kx * sine)), 1e-12)
        truth += amplitude * a * b * j1(2 * np.pi * q) / q * np.exp(-2j * np.pi * (kx * x + ky * y))
    np.testing.assert_allclose(measured, truth, atol=2e-6 * area)


def test_noise_has_the_strength_asked_for(tmp_path):
    """Independent Gaussians of 24576 samples: their standard deviation is known to 0.5 %; 5 sigma is 2.5 %."""
    options = ("--phantom", "blob", "--matrix", 64, "--coils", 6, "--seed", 9)
    clean = scans.read_acquisitions(simulate(tmp_path / "clean.h5", "cartesian", *options))[3]
    noisy = scans.read_acquisitions(simulate(tmp_path / "noisy.h5", "cartesian", *options, "--noise", 3))[3]
    again = scans.read_acquisitions(simulate(tmp_path / "again.h5", "cartesian", *options, "--noise", 3))[3]
    np.testing.assert_array_equal(noisy, again)
    noise = np.stack(noisy) - np.stack(clean)
    assert noise.real.std() == pytest.approx(3, rel=0.025)
    assert noise.imag.std() == pytest.approx(3, rel=0.025)
    assert abs(np.mean(noise.real * noise.imag)) < 0.025 * 9


# Sampling at which the weights are a good quadrature: spokes at Fibonacci numbers lie evenly, a koosh-ball needs
# pi n^2 spokes from the centre, and a sum over radii wants small steps.
SAMPLING = {
    "cartesian": ("--matrix", 48),
    "radial": ("--matrix", 48),
    "golden_radial": ("--matrix", 48, "--readouts", 144),
    "spiral": ("--matrix", 48, "--samples", 400),
    "kooshball": ("--matrix", 24, "--readouts", 1810, "--samples", 72),
}
# The radial sum with ring areas as weights is high by d(0) pi/12 step^2 in every voxel, with d(0) = 2 pi sigma^2 and
# step = 1/96: 7e-4 of the blob's peak, or 1 % of its norm spread over 48^2 voxels. The head's k-space reaches the edge,
# where neighbouring samples are a whole Nyquist step apart and the edge itself is known to half a step: a few percent.
# Cartesian: the truth is the exact inverse, so float32 rounding alone.
TOLERANCE = {"blob": 1.5e-2, "shepp_logan": 4e-2}


@pytest.mark.parametrize("phantom", ["blob", "shepp_logan"])
@pytest.mark.parametrize("trajectory", PIPELINE)
def test_image_is_the_phantom(server, tmp_path, trajectory, phantom):
    scan, output = tmp_path / "scan.h5", tmp_path / "images.h5"
    simulate(scan, trajectory, "--phantom", phantom, "--coils", 4, "--frames", 2, *SAMPLING[trajectory])
    result = server.send(scan, PIPELINE[trajectory], output)
    assert result.returncode == 0, result.stderr
    truth = scans.read_array(scan, "truth")
    truth = truth.reshape(-1, *truth.shape[-2:])
    heads, images = scans.read_images(output)
    assert images.shape == (2, 1, *truth.shape)
    for frame, image in enumerate(images):
        assert (int(heads[frame]["repetition"]), int(heads[frame]["image_index"])) == (frame, frame + 1)
        error = reference.nrmse(image[0], truth)
        assert error <= (1e-5 if trajectory == "cartesian" else TOLERANCE[phantom]), f"frame {frame}: NRMSE {error:.3g}"


@pytest.mark.parametrize("trajectory", PIPELINE)
def test_blob_peaks_at_one(server, tmp_path, trajectory):
    """Amplitude 1 gives value 1 whatever the sampling: one coil is 1 everywhere. At a matrix of 64 the radial sum (see
    above) is off by 4e-4."""
    options = SAMPLING[trajectory] if trajectory == "kooshball" else ("--matrix", 64)
    scan = simulate(tmp_path / "scan.h5", trajectory, "--phantom", "blob", "--coils", 1, *options)
    result = server.send(scan, PIPELINE[trajectory], tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    check_peak(tmp_path / "images.h5")


@pytest.mark.parametrize("kernel_width, oversampling", [(4, 2.0), (5, 1.25), (6, 1.5), (8, 1.25), (8, 2.0)])
@pytest.mark.parametrize("matrix", [64, 81])
def test_scale_does_not_depend_on_the_kernel(tmp_path, kernel_width, oversampling, matrix):
    scan = simulate(tmp_path / "scan.h5", "radial", "--phantom", "blob", "--coils", 1, "--matrix", matrix)
    new = f"kernel_width: {kernel_width}, oversampling: {oversampling}"
    (tmp_path / "p.yaml").write_text(variant("radial_2d", ("kernel_width: 5, oversampling: 1.5", new)))
    result = run_client("recon", scan, "-c", tmp_path / "p.yaml", "-o", tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    check_peak(tmp_path / "images.h5")


def check_peak(path):
    _, images = scans.read_images(path)
    centre = tuple(n // 2 for n in images.shape[2:])
    assert images[0, 0][centre] == pytest.approx(1, abs=1e-3)
    assert images[0, 0].max() == images[0, 0][centre]


def test_truth_is_the_phantom(tmp_path):
    """The blob's truth agrees with its formula: the part beyond k = 0.5 is below exp(-2 pi^2 sigma^2 / 4) = 3e-9."""
    matrix = 33
    path = simulate(tmp_path / "scan.h5", "radial", "--phantom", "blob", "--matrix", matrix, "--coils", 1)
    r = np.arange(matrix) - matrix // 2
    truth = np.exp(-(r[:, None] ** 2 + r[None, :] ** 2) / (2 * SIGMA**2))
    np.testing.assert_allclose(scans.read_array(path, "truth"), truth, atol=1e-6)


def test_slices_and_oversampling(server, tmp_path):
    scan, output = tmp_path / "scan.h5", tmp_path / "images.h5"
    simulate(scan, "cartesian", "--matrix", 32, "--coils", 2, "--oversampling", 2, "--slices", 3, "--frames", 2)
    assert server.send(scan, "cartesian_plain", output).returncode == 0
    heads, images = scans.read_images(output)
    truth = scans.read_array(scan, "truth")
    assert [(int(h["repetition"]), int(h["slice"])) for h in heads] == [(f, s) for f in range(2) for s in range(3)]
    assert sorted({float(h["position"][2]) for h in heads}) == [-5.0, 0.0, 5.0]
    for image in images:
        assert reference.nrmse(image[0, 0], truth) <= 1e-5


@pytest.mark.parametrize("trajectory", ["cartesian", "golden_radial", "spiral"])
def test_recon_equals_send_bit_for_bit(server, tmp_path, trajectory):
    """The server adds nothing, and batching never changes frames that are gridded at their end."""
    scan, config = tmp_path / "scan.h5", tmp_path / "cpu.yaml"
    simulate(scan, trajectory, "--matrix", 40, "--coils", 3, "--frames", 2, "--noise", 4, "--noise-scan")
    changes = [("backend: auto", "backend: cpu")]
    if trajectory != "cartesian":
        changes.append(("incremental: true", "incremental: false"))
    config.write_text(variant(PIPELINE[trajectory], *changes))
    assert server.send(scan, config, tmp_path / "sent.h5").returncode == 0
    heads, images = scans.read_images(tmp_path / "sent.h5")
    assert len(images) == 2 and np.all(np.isfinite(images))
    for batch in (1, 7, 1000):
        result = run_client("recon", scan, "-c", config, "-o", tmp_path / "recon.h5", "--batch", batch)
        assert result.returncode == 0, result.stderr
        other_heads, other_images = scans.read_images(tmp_path / "recon.h5")
        np.testing.assert_array_equal(images, other_images)
        # The server's images say how long they took, so their attributes are longer.
        for name in set(heads.dtype.names) - {"attribute_string_len"}:
            np.testing.assert_array_equal(heads[name], other_heads[name])


@pytest.mark.parametrize("trajectory", ["radial", "golden_radial", "spiral"])
def test_gridding_on_arrival_shows_in_rounding_only(server, tmp_path, trajectory):
    """Batches of any size, and a trajectory that the server has met before or not: the order of fp32 sums differs."""
    scan, config = tmp_path / "scan.h5", tmp_path / "cpu.yaml"
    simulate(scan, trajectory, "--matrix", 40, "--coils", 3, "--frames", 3, "--noise", 4, "--noise-scan")
    config.write_text(variant(PIPELINE[trajectory], ("backend: auto", "backend: cpu")))
    assert server.send(scan, config, tmp_path / "sent.h5").returncode == 0
    images = scans.read_images(tmp_path / "sent.h5")[1]
    for batch in (1, 7, 1000):
        result = run_client("recon", scan, "-c", config, "-o", tmp_path / "recon.h5", "--batch", batch)
        assert result.returncode == 0, result.stderr
        for image, other in zip(images, scans.read_images(tmp_path / "recon.h5")[1], strict=True):
            assert reference.nrmse(other, image) <= 1e-5
    # The log says of the second scan that no plan had to be made.
    assert server.send(scan, config, tmp_path / "sent.h5").returncode == 0
    server.wait_for(r"summary: complete .* after_last_readout_ms=\S+ .* plans_made=0 \S+ ms\) plans_reused=3 ")


def test_passthrough_returns_images_unchanged(server, tmp_path):
    scan, images = simulate(tmp_path / "scan.h5", "cartesian", "--matrix", 16, "--coils", 2), tmp_path / "images.h5"
    assert server.send(scan, "cartesian_plain", images).returncode == 0
    assert server.send(images, "passthrough", tmp_path / "back.h5").returncode == 0
    np.testing.assert_array_equal(scans.read_images(images)[1], scans.read_images(tmp_path / "back.h5")[1])
    xml, _, _, data = scans.read_acquisitions(scan)
    lines = [wire.acquisition(line, step1=i) for i, line in enumerate(data)]
    reply = wire.exchange(server.address, [wire.config_file("passthrough"), wire.header(xml), *lines, wire.close()])
    assert not reply.images and any("16 readouts" in text for text in reply.texts), reply.texts
