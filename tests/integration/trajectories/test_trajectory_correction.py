"""Delays of gradients through the TCP server, on measured scans whose delays are published and on simulated ones, and
impulse responses against numpy in float64."""

import re

import h5py
import numpy as np
import pytest

import scans
from programs import measured, run_client, simulated_scan, variant

# Order x, y, xy. The bounds are those that BART's correlation keeps on the same files (0.004 and 0.026), rounded up; for
# ring 0.03, as its spokes differ by phases and amplitudes that it does not model.
PUBLISHED = np.array([-0.651670, -0.614225, -0.000881])
METHOD = "method: ring, spokes: 64"


def corrected(server, scan, folder, backend, parameters):
    """Images [y, x], and what the client was told."""
    config = folder / "corrected.yaml"
    config.write_text(variant("radial_corrected", ("backend: auto", f"backend: {backend}"), (METHOD, parameters)))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    return [np.asarray(i, float).squeeze() for i in scans.read_images(folder / "images.h5")[1]], result.stderr


def told(text):
    found = re.search(r"lie (\S+) \(x\), (\S+) \(y\), (\S+) \(xy\)", text)
    assert found, text
    return np.array([float(value) for value in found.groups()])


@pytest.mark.parametrize(("scan", "method", "within"), [
    ("SP69", "cross_correlation", 0.01), ("SP29", "cross_correlation", 0.03),
    ("SP69", "ring", 0.03), ("SP29", "ring", 0.03),
])  # fmt: skip
def test_measured_delays_are_those_published(server, backend, tmp_path, scan, method, within):
    path = measured(f"sms_radial16/kMB1_top_{scan}.h5")
    images, said = corrected(server, path, tmp_path, backend, f"method: {method}, spokes: 69")
    assert len(images) == 1
    assert np.abs(told(said) - PUBLISHED).max() <= within, said
    assert "warning: trajectory_correction" not in said


@pytest.mark.parametrize("method", ["ring", "cross_correlation"])
def test_simulated_delays_are_found_and_cost_little(server, backend, tmp_path, method):
    truth, scan = np.array([-0.6, -0.65, 0.1]), tmp_path / "scan.h5"
    simulated_scan(scan, "--trajectory", "golden_radial", "--matrix", 64, "--coils", 4, "--readouts", 144, "--frames",
                   2, "--noise", 0.2, "--gradient-delays=-0.6:-0.65:0.1")  # fmt: skip
    image = scans.read_array(scan, "truth").squeeze()
    images, said = corrected(server, scan, tmp_path, backend, f"method: {method}")
    assert np.abs(told(said) - truth).max() <= 0.02, said
    plain, _ = corrected(server, scan, tmp_path, backend, "method: given")
    given, _ = corrected(server, scan, tmp_path, backend, "method: given, x: -0.6, y: -0.65, xy: 0.1")
    for found, without, known in zip(images, plain, given, strict=True):
        error, worst, best = (np.linalg.norm(i - image) for i in (found, without, known))
        assert error < 1.02 * best and error < 0.5 * worst  # 0.24 of the truth's norm without, 0.03 with (docs)


def test_impulse_responses_are_those_of_numpy(tmp_path):
    """A spiral by the measured responses: H G in float64, on a circle of 82 ms."""
    pytest.importorskip("echotrain")
    from echotrain.commands.girf import convert_girf, read_girf

    source = measured("girf/brainto.h5")
    (tmp_path / "assets").mkdir()
    convert_girf(source, tmp_path / "assets" / "girf.h5", 50)
    table = read_girf(source)
    dwell, samples = 5e-6, 512
    t = np.arange(samples) / samples
    k = 0.45 * t[:, None] * np.stack([np.cos(12 * t), np.sin(12 * t)], 1)
    scan = scans.non_cartesian("spiral", (32, 32, 1), k[None], np.ones((1, 1, samples), "c8"))
    scan.save(tmp_path / "scan.h5")
    with h5py.File(tmp_path / "scan.h5", "r+") as file:
        rows = file["dataset/data"][:]
        rows["head"]["sample_time_us"] = 5
        for name, direction in (("read_dir", (1, 0, 0)), ("phase_dir", (0, 0, 1)), ("slice_dir", (0, -1, 0))):
            rows["head"][name] = direction
        file["dataset/data"][:] = rows
    config = tmp_path / "girf.yaml"
    config.write_text(variant("radial_corrected", ("backend: auto", "backend: cpu"), (METHOD, "method: girf, girf: girf.h5"),
                              ("method: ramp", "method: none")))  # fmt: skip
    made = run_client("recon", tmp_path / "scan.h5", "-c", config, "-o", tmp_path / "o.h5", "--assets",
                      tmp_path / "assets", "--save-after", "trajectory_correction", tmp_path / "moved.h5")  # fmt: skip
    assert made.returncode == 0, made.stderr
    with h5py.File(tmp_path / "moved.h5") as file:
        arrays = {}
        file.visititems(lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    moved = arrays["dataset/trajectory_correction_0_trajectory"][0]
    length = 16384
    frequencies = np.fft.fftfreq(length, dwell) / 1000
    expected = np.empty((samples, 2))
    for column, axis in enumerate("xz"):  # phase runs along Z
        known = np.abs(table["frequency_khz"].real) <= 50
        grid, values = table["frequency_khz"].real[known], table[f"girf_{axis}"][known]
        response = np.interp(frequencies, grid, values.real, 0, 0) + 1j * np.interp(frequencies, grid, values.imag, 0, 0)
        response = (response + np.conj(np.roll(response[::-1], 1))) / 2
        # From rest at t = 0, and on with the last step for 5 ms.
        steps = np.zeros(length)
        steps[4096 : 4096 + samples] = np.diff(k[:, column], prepend=0)
        steps[4096 + samples : 5096 + samples] = steps[4095 + samples]
        # What would have come out earlier than 3 ms before the first sample is noise of the measurement.
        played = np.cumsum(np.fft.ifft(np.fft.fft(steps) * response).real[4096 - 600 :])
        expected[:, column] = played[600 : 600 + samples]
    # The filter's circle of time is 10 ms, numpy's 82 ms: what the responses do more than 4 ms later, noise and slow eddy
    # currents, is folded back, and is nearly the same for all samples (3.8e-4 with it, less than 1.5e-4 without).
    assert np.abs(moved - expected).max() < 5e-4
    away = (moved - expected) - (moved - expected).mean(0)
    assert np.abs(away).max() < 1.5e-4
    assert np.abs(moved - k).max() > 1e-2  # 4 to 7 us of a spiral that turns 12 rad in 2.56 ms
