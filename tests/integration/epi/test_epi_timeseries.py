"""Simulated series of EPI volumes through the TCP server: references once, slices interleaved or several at once.

The truth is each slice's exact k-space, transformed. What GRAPPA, partial Fourier and slice-GRAPPA leave is measured in a
scan without faults; a late gradient, a ghost and a field that drifts may add a tenth (issue's bound), and 2e-4 of what a
ramp's line is good to.
"""

import h5py
import numpy as np
import pytest

import reference
import scans
from programs import plain_variant, run_client, simulated_scan

SCAN = "--trajectory epi --phantom ellipsoids_3d --matrix 48 --ramp-us 150 --flat-us 100 --interleaved"
FAULTS = "--gradient-delay-us 3.4 --ghost 0.2"
MULTIBAND = "--multiband 2 --fov-shift 2 --calibration 24 --calibration-mode separate --slices 4 --coils 12"


def series(server, folder, backend, options, *changes, pipeline="epi_timeseries", completes=True):
    """Images {(slice, repetition): (head, attributes, magnitudes [y, x])}, the truth [slice, y, x], what was said."""
    scan, config = folder / "scan.h5", folder / "epi.yaml"
    simulated_scan(scan, *SCAN.split(), *options.split())
    config.write_text(plain_variant(pipeline, ("backend: auto", f"backend: {backend}"), *changes, completes=completes))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, pixels = scans.read_images(folder / "images.h5")
    attributes = attributes_of(folder / "images.h5")
    images = {}
    for head, text, image in zip(heads, attributes, pixels, strict=True):
        key = int(head["slice"]), int(head["repetition"])
        assert key not in images, f"image {key} came twice"
        images[key] = head, text, np.asarray(image, float).squeeze()
    truth = scans.read_array(scan, "truth")
    return images, truth, result.stderr


def attributes_of(path):
    with h5py.File(path) as file:
        texts = file["dataset/image_1/attributes"][:]
    return [text.decode() if isinstance(text, bytes) else text for text in texts]


def errors(images, truth):
    return {key: reference.nrmse(image, truth[key[0]]) for key, (_, _, image) in images.items()}


@pytest.mark.parametrize("options, most", [
    ("--slices 3 --coils 8 --acceleration 2 --calibration 24 --calibration-mode separate", 0.02),
    ("--slices 2 --coils 8 --acceleration 2 --calibration 24 --calibration-mode separate --references flash", 0.02),
    ("--slices 2 --coils 12 --acceleration 2 --calibration 16 --calibration-mode separate --partial-fourier 0.75 "
     "--references flash --shots 2", 0.06),
    ("--slices 2 --coils 4 --partial-fourier 0.75", 0.05),
    (MULTIBAND, 0.03),
])  # fmt: skip
def test_faults_cost_nothing_and_references_come_once(server, backend, tmp_path, options, most):
    clean, truth, said = series(server, tmp_path, backend, f"{options} --frames 1")
    without = errors(clean, truth)
    slices = truth.shape[0]
    assert sorted(without) == [(s, 0) for s in range(slices)]
    assert max(without.values()) < most, without
    assert "warning" not in said.lower(), said
    images, truth, said = series(server, tmp_path, backend, f"{options} {FAULTS} --frames 2 --b0-drift-hz 4")
    assert "warning" not in said.lower(), said
    assert "the readout gradient comes 3.40 us late" in said, said
    found = errors(images, truth)
    assert sorted(found) == [(s, r) for s in range(slices) for r in range(2)]
    for (s, r), error in found.items():
        assert error <= 1.1 * without[s, 0] + 2e-4, f"slice {s}, repetition {r}: {error:.4f}, without {without[s, 0]:.4f}"
    for (s, _), (head, text, _) in images.items():
        assert head["position"][2] == pytest.approx(5 * (s - (slices - 1) / 2))
        assert "<name>ghost_level</name>" in text and "<value>up</value>" in text
    partial = "--partial-fourier" in options
    assert all(("<name>partial_fourier</name>" in text) == partial for _, text, _ in images.values())


def test_partial_fourier_is_completed(server, backend, tmp_path):
    options = "--slices 2 --coils 4 --partial-fourier 0.75 --frames 1"
    images, truth, _ = series(server, tmp_path, backend, options)
    zeros, _, _ = series(server, tmp_path, backend, options, completes=False)
    for key, error in errors(images, truth).items():
        assert error < 0.7 * errors(zeros, truth)[key]


def moved_by(image, still):
    """Pixels along y, round the field of view, that bring `still` closest to `image`."""
    ways = [float((np.roll(still, d, 0) * image).sum()) for d in range(image.shape[0])]
    best = int(np.argmax(ways))
    return best if best <= image.shape[0] // 2 else best - image.shape[0]


def test_blips_tell_where_distortion_points(server, backend, tmp_path):
    """Off resonance by four turns in an echo train, images move four pixels, up or down as the blips do."""
    still, _, _ = series(server, tmp_path, backend, "--coils 2")
    echo_train_s = 48 * 400e-6
    away = f"--coils 2 --b0-hz {4 / echo_train_s}"
    moved = {}
    for name, options in (("up", away), ("down", f"{away} --reverse-blips")):
        images, _, said = series(server, tmp_path, backend, options)
        _, text, image = images[0, 0]
        assert f"<name>epi_blips</name><value>{name}</value>" in "".join(text.split())
        moved[name] = moved_by(image, still[0, 0][2])
    assert moved["up"] == -moved["down"] and abs(moved["up"]) == 4, moved


def test_simultaneous_slices_without_references_stay_together(server, backend, tmp_path):
    scan, cut = tmp_path / "scan.h5", tmp_path / "cut.h5"
    simulated_scan(scan, *SCAN.split(), *MULTIBAND.split())
    calibration = 1 << 19
    with h5py.File(scan) as source, h5py.File(cut, "w") as target:
        group = target.create_group("dataset")
        group.create_dataset("xml", data=source["dataset/xml"][:], dtype=h5py.string_dtype())
        rows = source["dataset/data"][:]
        group.create_dataset("data", data=rows[rows["head"]["flags"] & calibration == 0], maxshape=(None,))
    config = tmp_path / "epi.yaml"
    config.write_text(plain_variant("epi_timeseries", ("backend: auto", f"backend: {backend}")))
    result = server.send(cut, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    assert "slices of group 0 are not told apart" in result.stderr, result.stderr
    assert "slice 0 has no single-band reference lines" in result.stderr
    heads, _ = scans.read_images(tmp_path / "images.h5")
    assert len(heads) == 2


@pytest.mark.parametrize("options, text", [
    ("--multiband 2 --slices 3 --calibration 24 --calibration-mode separate", "--slices 3 are no multiple"),
    ("--multiband 2 --slices 4", "--multiband needs reference lines"),
    ("--fov-shift 2", "--fov-shift is for --multiband"),
    ("--references flash", "give --calibration-mode separate"),
    ("--references bold", "unknown --references 'bold'"),
])  # fmt: skip
def test_options_that_do_not_go_together(tmp_path, options, text):
    made = run_client("simulate", "-o", tmp_path / "scan.h5", *SCAN.split(), *options.split())
    assert made.returncode == 2 and text in made.stderr, made.stderr
