"""Self-gated radial scans through the server: the centre of k-space tells the breath of a phantom that moves as is known.

The phantom's k-space is exact at each readout's moment; displacements and truths are the simulation's, in float64.
"""

import numpy as np
import pytest

import reference
import scans
from programs import simulated_scan, variant

SPOKES, TR_MS, BREATHING_MM = 4000, 10, 20
POSITION, SIGNAL, DRIFT = 5, 6, 7  # user_float of k0_navigator's side items


def simulate(path, *options):
    return simulated_scan(path, "--trajectory", "golden_radial", "--motion", "cardiac", "--matrix", 48, "--coils", 4,
                          "--readouts", SPOKES, "--frames", 1, "--tr-ms", TR_MS, *options)  # fmt: skip


@pytest.fixture(scope="module")
def breathing(tmp_path_factory):
    return simulate(tmp_path_factory.mktemp("gated") / "scan.h5", "--breathing-mm", BREATHING_MM, "--truth-every", SPOKES)


def images_of(server, scan, folder, *changes):
    config = folder / "config.yaml"
    config.write_text(variant("radial_self_gated", *changes))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stdout + result.stderr
    return scans.read_images(folder / "images.h5")


def band(values, step_s, low, high):
    """What of values lies between two frequencies [Hz]."""
    spectrum = np.fft.rfft(values - np.mean(values))
    frequency = np.fft.rfftfreq(len(values), step_s)
    return np.fft.irfft(spectrum * ((frequency >= low) & (frequency <= high)), len(values))


def test_every_spoke_is_told_where_the_body_was(server, breathing, tmp_path):
    """The signal is the displacement between 0.1 and 0.5 Hz, as far as the coils see it linearly."""
    of_each = 10  # readouts of an image, whose head has the side items of the first one
    heads, _ = images_of(server, breathing, tmp_path, ("navigator_to: 0.35, drift: remove", "drift: measure"),
                         ("until: last_in_repetition", f"readouts: {of_each}"))  # fmt: skip
    assert len(heads) == SPOKES // of_each
    moved = scans.read_array(breathing, "displacement_mm").ravel()[::of_each]
    signal = np.array([head["user_float"][SIGNAL] for head in heads])
    position = np.array([head["user_float"][POSITION] for head in heads])
    found = np.corrcoef(signal, moved)[0, 1]
    possible = np.corrcoef(band(moved, of_each * TR_MS / 1000, 0.1, 0.5), moved)[0, 1]
    print(f"correlation {found:.4f}, of the displacement's own band {possible:.4f}")
    # 0.5 Hz of noise-free spokes: what is left is the coils' curvature over 20 mm, less than a tenth of their slope, and
    # the filter's soft edges.
    assert found > possible - 0.05
    assert 0 < position.min() and position.max() <= 1
    # Half of the moments lie below 0.5, and these are those in which the body had moved least.
    assert moved[position < 0.35].mean() < 0.1 * moved.max() < moved.mean()
    # The phantom's field does not drift; the centre of a real object turns by what breathing leaves alone.
    assert np.abs([head["user_float"][DRIFT] for head in heads]).max() < 0.05


def test_the_gated_image_is_that_of_a_body_at_expiration(server, breathing, tmp_path):
    still = simulate(tmp_path / "still.h5", "--breathing-mm", 0, "--truth-every", 50)  # the heart beats in both
    names = ["truth"] + [f"truth_{i}" for i in range(1, SPOKES // 50)]
    truth = np.mean([scans.read_array(still, name) for name in names], axis=0)
    errors = {}
    for name, scan, to in (("gated", breathing, 0.35), ("all", breathing, 1), ("held", still, 1)):
        heads, images = images_of(server, scan, tmp_path, ("navigator_to: 0.35", f"navigator_to: {to}"))
        assert len(heads) == 1
        errors[name] = reference.nrmse(images[0, 0, 0], truth)
    print(", ".join(f"{name} {error:.4f}" for name, error in errors.items()))
    # In the 35 % nearest to expiration, the body has moved by up to 0.7 mm where it is not below 0.1 of a breath: beside
    # what gridding leaves of a held breath, little; of all, by 20 mm.
    assert errors["gated"] < 1.5 * errors["held"]
    assert errors["gated"] < 0.4 * errors["all"]


def test_a_scan_that_is_too_short_for_a_breath_is_refused(server, tmp_path):
    scan = tmp_path / "short.h5"
    simulated_scan(scan, "--trajectory", "golden_radial", "--matrix", 32, "--readouts", 200)
    config = tmp_path / "config.yaml"
    config.write_text(variant("radial_self_gated"))
    result = server.send(scan, config, tmp_path / "images.h5")
    assert result.returncode != 0
    assert "spans less than the longest breath, 10 s" in result.stdout + result.stderr
