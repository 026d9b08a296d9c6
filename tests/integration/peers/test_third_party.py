"""Against libismrmrd's own phantom generator and reconstruction (Debian: ismrmrd-tools)."""

import shutil
import subprocess

import numpy as np
import pytest

import reference
import scans
import wire
from programs import variant

GENERATE, RECONSTRUCT = "ismrmrd_generate_cartesian_shepp_logan", "ismrmrd_recon_cartesian_2d"
pytestmark = pytest.mark.skipif(
    not (shutil.which(GENERATE) and shutil.which(RECONSTRUCT)), reason="needs the package ismrmrd-tools"
)
MATRIX, COILS, REPETITIONS = 96, 8, 3


def generate(folder, *options):
    path = folder / "phantom.h5"
    size = ("-m", str(MATRIX), "-c", str(COILS), "-O", "2", "-r", str(REPETITIONS))
    subprocess.run([GENERATE, *size, "-o", str(path), *options], check=True, capture_output=True, timeout=60)
    return path


def their_image(path):
    """Root sum of squares of the last repetition, as the tool leaves it in the file; its scale is its own."""
    subprocess.run([RECONSTRUCT, str(path)], check=True, capture_output=True, timeout=60)
    _, pixels = scans.read_images(path, "cpp")
    return pixels[0, 0, 0].astype(np.float64)


def kspaces(heads, data):
    """[repetition, coil, y, x] of the imaging readouts, and the noise readouts side by side [coil, sample]."""
    kspace = np.zeros((REPETITIONS, COILS, MATRIX, 2 * MATRIX), np.complex128)
    noise = []
    for head, line in zip(heads, data):
        if int(head["flags"]) & wire.NOISE:
            noise.append(line)
        else:
            kspace[head["idx"]["repetition"], :, head["idx"]["kspace_encode_step_1"]] = line
    return kspace, np.hstack(noise) if noise else None


@pytest.mark.parametrize("options", [(), ("-C",)], ids=["plain", "noise_scan_ignored"])
def test_same_image_as_libismrmrd(server, tmp_path, options):
    path = generate(tmp_path, *options)
    config = tmp_path / "pipeline.yaml"
    text = variant("cartesian_plain", ("backend: auto", "backend: cpu"))
    config.write_text("".join(line for line in text.splitlines(True) if "noise_adjust" not in line))
    result = server.send(path, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, images = scans.read_images(tmp_path / "images.h5")
    assert images.shape == (REPETITIONS, 1, 1, MATRIX, MATRIX)
    assert [int(h["repetition"]) for h in heads] == list(range(REPETITIONS))
    assert [int(h["image_index"]) for h in heads] == [1, 2, 3]

    # Float32 transforms on both sides: a few 1e-7 each.
    theirs = their_image(path)
    ours = images[-1, 0, 0].astype(np.float64)
    assert reference.nrmse(reference.real_scale(ours, theirs) * ours, theirs) <= 1e-5
    # The repetitions differ in their noise, so the test can tell which is which.
    first = images[0, 0, 0].astype(np.float64)
    assert reference.nrmse(reference.real_scale(first, theirs) * first, theirs) > 1e-3
    # And with no scale at all: against our own transform.
    _, acquisition_heads, _, data = scans.read_acquisitions(path)
    kspace, _ = kspaces(acquisition_heads, data)
    for repetition in range(REPETITIONS):
        truth = reference.rss(reference.centred_fft(kspace[repetition], MATRIX))
        assert reference.nrmse(images[repetition, 0, 0], truth) <= 1e-5


@pytest.mark.parametrize(
    "noise_dwell_us, bandwidth", [(5.0, None), (12.5, 0.79)], ids=["same_bandwidth", "scaled_bandwidth"]
)
def test_noise_scan_whitens(server, tmp_path, noise_dwell_us, bandwidth):
    """noise_adjust gives W d; then the root sum of squares, in units of the noise's standard deviation."""
    path = generate(tmp_path, "-C", "-n", "0.1")
    xml, heads, _, data = scans.read_acquisitions(path)
    kspace, noise = kspaces(heads, data)
    assert noise is not None
    # The tool's noise is white and equal in all coils; mixing them makes the covariance a full matrix.
    rng = np.random.default_rng(3)
    mix = np.eye(COILS) + 0.3 * (rng.standard_normal((COILS, COILS)) + 1j * rng.standard_normal((COILS, COILS)))
    noise = (mix @ noise).astype(np.complex64)
    kspace = np.einsum("ij,rjyx->riyx", mix, kspace).astype(np.complex64)

    system = "<acquisitionSystemInformation>"
    if bandwidth:
        tag = "relativeReceiverNoiseBandwidth"
        xml = xml.replace(system, f"{system}<{tag}>{bandwidth}</{tag}>")
        assert tag in xml
    scan = scans.cartesian(kspace, sample_time_us=5.0)
    noise_readout = wire.acquisition(noise, flags=wire.NOISE, center=0, sample_time_us=noise_dwell_us)
    config = wire.config_text(variant("cartesian_plain", ("backend: auto", "backend: cpu")))
    reply = wire.exchange(server.address, [config, wire.header(xml), noise_readout, *scan.messages, wire.close()])
    assert not reply.errors(), reply.errors()
    assert len(reply.images) == REPETITIONS

    matrix = reference.whitening(noise, noise_dwell_us / 5.0, bandwidth or 1.0)
    for repetition, image in enumerate(reply.images):
        white = np.einsum("ij,jyx->iyx", matrix, kspace[repetition])
        truth = reference.rss(reference.centred_fft(white, MATRIX))
        assert image.pixels.shape == (1, 1, MATRIX, MATRIX)
        assert reference.nrmse(image.pixels[0, 0], truth) <= 1e-5
