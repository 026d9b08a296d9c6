"""Scans for maps: `echotrain simulate --mapping`, whose images must be those of the vials' true values.

Images are the file's own k-space by numpy's FFT, headers as the ismrmrd package reads them.
"""

import ismrmrd.xsd
import numpy as np
import pytest

import scans
from programs import run_client, simulated_scan

MATRIX = 128
CARTESIAN = ("--trajectory", "cartesian", "--matrix", MATRIX)
QUANTITIES = ("t1", "t2", "t2star", "adc", "b0", "b1")


def images_of(path, counter):
    """[repetition, counter, coil, y, x] by the inverse transform, in which noise of sigma becomes sigma / MATRIX."""
    _, heads, _, data = scans.read_acquisitions(path)
    imaging = [i for i, head in enumerate(heads) if not int(head["flags"]) & 1 << 18]
    places = [tuple(int(heads[i]["idx"][n]) for n in ("repetition", counter, "kspace_encode_step_1")) for i in imaging]
    sizes = np.array(places).max(0) + 1
    assert sizes[2] == MATRIX and len(set(places)) == len(places) == sizes.prod()
    kspace = np.zeros((*sizes[:2], *data[imaging[0]].shape[:1], MATRIX, MATRIX), complex)
    for i, (repetition, count, line) in zip(imaging, places):
        kspace[repetition, count, :, line] = data[i]
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=(-2, -1))), axes=(-2, -1))


def truths_of(path):
    return {name: np.asarray(scans.read_array(path, f"truth_{name}"), float) for name in QUANTITIES}


def header_of(path):
    return ismrmrd.xsd.CreateFromDocument(scans.read_acquisitions(path)[0])


def user_values(header, name):
    return [one.value for one in header.userParameters.userParameterDouble if one.name == name]


def signals(method, header, truth):
    """What each image must be where vials are, by the times that the header says."""
    sequence = header.sequenceParameters
    if method in ("inversion_recovery", "psir"):
        images = [1 - 1.96 * np.exp(-ti / truth["t1"]) for ti in sequence.TI]
        return [*images, np.full_like(truth["t1"], 0.25)] if method == "psir" else images
    if method == "saturation":
        times = user_values(header, "saturation_time_ms")
        return [1 - 0.96 * np.exp(-ts / truth["t1"]) if ts > 0 else np.ones_like(truth["t1"]) for ts in times]
    if method == "t2prep":
        return [np.exp(-te / truth["t2"]) for te in user_values(header, "t2prep_ms")]
    if method == "spin_echo":
        return [np.exp(-te / truth["t2"]) for te in sequence.TE]
    if method == "multi_echo":
        return [np.exp(-te / truth["t2star"] + 2e-3j * np.pi * truth["b0"] * te) for te in sequence.TE]
    if method == "double_angle":
        return [np.sin(truth["b1"] * np.radians(a)) for a in sequence.flipAngle_deg]
    assert method == "diffusion" and sequence.diffusionDimension.value == "set"
    for one in sequence.diffusion:
        way = one.gradientDirection
        assert np.hypot(way.rl, np.hypot(way.ap, way.fh)) == (one.bvalue > 0)
    return [np.exp(-one.bvalue * truth["adc"]) for one in sequence.diffusion]


METHODS = {"inversion_recovery": "set", "saturation": "set", "t2prep": "set", "spin_echo": "contrast",
           "multi_echo": "contrast", "diffusion": "set", "double_angle": "set", "psir": "set"}  # fmt: skip


@pytest.mark.parametrize(("method", "counter"), METHODS.items())
def test_images_are_those_of_the_true_values(tmp_path, method, counter):
    path = simulated_scan(tmp_path / "scan.h5", *CARTESIAN, "--coils", 1, "--mapping", method, "--efficiency", 0.96)
    truth, images = truths_of(path), images_of(path, counter)[0, :, 0]
    inside = truth["t1"] > 0
    assert 900 < inside.sum() and all(((value != 0) == inside).all() for value in truth.values())
    header = header_of(path)
    limit = getattr(header.encoding[0].encodingLimits, counter)
    assert (limit.minimum, limit.maximum) == (0, len(images) - 1)
    right = signals(method, header, {name: value[inside] for name, value in truth.items()})
    assert len(right) == len(images)
    for image, signal in zip(images, right):
        # Vials' edges are blurred by 1.25 pixels and cores end 2.5 pixels inside, where 98 % of a straight edge's signal
        # is left (a circle's: more of it lies outside), and k-space ends where the blur has left 5e-4 of it.
        share = image[inside] / signal
        np.testing.assert_array_less(np.abs(image[inside] - signal), 0.045 * np.abs(signal) + 3e-5)
        np.testing.assert_array_less(np.abs(share.imag[np.abs(signal) > 0.05]), 1e-3)
        middle = np.abs(share - 1) < 1e-3
        assert middle.sum() > 0.25 * inside.sum()
    # In a vial all images shrink alike towards its edge: maps are true there, too.
    (strongest,) = np.nonzero(np.array([np.abs(s).min() for s in right]) == max(np.abs(s).min() for s in right))
    base = int(strongest[0])
    for image, signal in zip(images, right):
        np.testing.assert_allclose(image[inside] / images[base][inside], signal / right[base], atol=3e-4)


def test_noise_is_that_of_the_snr(tmp_path):
    path = simulated_scan(tmp_path / "scan.h5", *CARTESIAN, "--coils", 2, "--frames", 3, "--mapping", "t2prep",
                          "--snr", 20)  # fmt: skip
    images = images_of(path, "set")
    noise = (images[0] - images[2]) / np.sqrt(2)
    # 2 x 7 x 2 x 128^2 numbers: a standard deviation is known to 0.1 %; 4 times this.
    for part in (noise.real, noise.imag):
        assert part.std() == pytest.approx(1 / 20, rel=0.005)


def test_molli_has_the_times_of_its_scheme(tmp_path):
    path = simulated_scan(tmp_path / "scan.h5", *CARTESIAN, "--coils", 1, "--mapping", "molli", "--scheme", "3(3)3(3)5",
                          "--heart-rate", 50)  # fmt: skip
    header, images, truth = header_of(path), images_of(path, "set")[0, :, 0].real, truths_of(path)["t1"]
    times = np.array(header.sequenceParameters.TI)
    assert times.tolist() == [100, 1300, 2500, 180, 1380, 2580, 260, 1460, 2660, 3860, 5060]
    # The longest T1 recovers from below 0, monotonously as no readout follows another closely.
    longest = images[:, truth == truth.max()].mean(1)
    order = np.argsort(times[:3])
    assert (np.diff(longest[order]) > 0).all() and longest[0] < 0 < longest[2]
    # The shortest, 100 ms, is in the method's steady state from the second beat on.
    shortest = images[:, truth == truth[truth > 0].min()].mean(1)
    assert np.ptp(shortest[times > 1000]) < 0.02


def test_options_that_do_not_go_together_are_refused(tmp_path):
    for options, said in [
        (("--mapping", "t3"), "unknown --mapping 't3'"),
        (("--mapping", "molli", "--scheme", "5(3"), "--scheme is as 5(3)3"),
        (("--mapping", "t2prep", "--times", "1,x"), "--times is a list"),
        (("--mapping", "t2prep", "--phantom", "blob"), "leave out --phantom"),
        (("--mapping", "t2prep", "--contrasts", 2), "leave out --contrasts"),
        (("--mapping", "t2prep", "--matrix", 16), "too small"),
        (("--mapping", "t2prep", "--snr", 20, "--noise", 1), "leave one out"),
        (("--times", "1,2"), "--times is for scans with --mapping"),
        (("--mapping", "t2prep", "--depth", 4), "--mapping is for slices"),
    ]:
        done = run_client("simulate", "-o", tmp_path / "scan.h5", "--trajectory", "cartesian", *options)
        assert done.returncode != 0 and said in done.stderr, (options, done.stderr)
