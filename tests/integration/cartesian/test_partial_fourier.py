"""`partial_fourier` and `filter` in pipelines that clients send: one side of k-space left out of a complex brain, of
measured asymmetric echoes and of simulated scans; windows against their formulas in float64."""

import os
import re

import numpy as np
import pytest

import reference
import scans
import wire
from programs import measured, simulated_scan

LAST = wire.LAST_IN_SLICE


def pipeline(backend, *gadgets, component="complex"):
    chain = "".join(f"  - {gadget}\n" for gadget in ("cartesian_kspace", *gadgets, "fft"))
    return wire.config_text(
        f"echotrain: 1\nname: partial\ndescription: of a test\nbackend: {backend}\npipeline:\n{chain}"
        f"  - image: {{component: {component}, type: float}}\n"
    )


class PartialScan:
    """The lines from `first[0]` and of them the samples from `first[1]` to `last[1]` of k-space [coil, y, x]."""

    def __init__(self, kspace, first, last):
        coils, ny, nx = kspace.shape
        self.zero_filled = np.zeros_like(kspace)
        box = (slice(None), slice(first[0], last[0]), slice(first[1], last[1]))
        self.zero_filled[box] = kspace[box]
        xml = scans.header_xml("cartesian", (nx, ny, 1), readouts=ny)
        self.messages = [wire.header(xml)]
        for y in range(first[0], last[0]):
            line, flags = kspace[:, y, first[1] : last[1]], LAST * (y == last[0] - 1)
            self.messages.append(wire.acquisition(line, None, flags, y, center=nx // 2 - first[1]))

    def image(self, server, config):
        reply = wire.exchange(server.address, [config, *self.messages, wire.close()])
        assert not reply.errors() and not reply.said("WARNING"), reply.texts
        (image,) = reply.images
        return image.pixels[:, 0], image.attributes


def shares(attributes):
    found = re.search(r"<name>partial_fourier</name>\s*<value>([^<]*)", attributes)
    return found and found[1]


def magnitude_error(images, truth):
    return reference.nrmse(np.abs(images), np.abs(truth))


@pytest.mark.parametrize("axis, share, zero_filled, most", [("y", 5, 0.156, 0.84), ("x", 5, 0.109, 0.84),
                                                           ("y", 6, 0.092, 0.89), ("x", 6, 0.065, 0.89)])  # fmt: skip
def test_a_brain_with_5_and_6_eighths(server, backend, axis, share, zero_filled, most):
    """The picture's phase is real. Zero filling has the error that is known of it, POCS less, from either side."""
    truth = np.load(measured("mchiew/pf_image.npy")).astype(np.complex64)[None]
    if axis == "x":
        truth = truth.transpose(0, 2, 1)  # whichever of the picture's axes it is: both axes of the scan see both
    errors, other = [], []
    for of in (truth, truth.transpose(0, 2, 1)):
        kspace = reference.spectrum(of).astype(np.complex64)
        first = [96 - 96 * share // 8 if a == axis else 0 for a in "yx"]
        scan = PartialScan(kspace, first, (96, 96))
        plain, none = scan.image(server, pipeline(backend))
        filled, said = scan.image(server, pipeline(backend, "partial_fourier"))
        assert none and shares(none) is None and shares(said) == f"pocs, {axis} {share / 8:.3g}"
        np.testing.assert_allclose(plain, reference.picture(scan.zero_filled), atol=1e-5 * np.abs(of).max())
        errors.append(magnitude_error(plain, of))
        other.append(magnitude_error(filled, of) / errors[-1])
    assert min(abs(error - zero_filled) for error in errors) <= 0.002, errors
    assert max(other) <= most, other


@pytest.mark.parametrize("method", ["pocs", "homodyne"])
def test_one_real_object_from_either_side(server, backend, method):
    """Homodyne detection is exact of an object without phase whatever side is left out; POCS approaches it."""
    random = np.random.default_rng(8)
    truth = np.zeros((2, 25, 31), np.complex64)  # of odd extents every line has a partner on the other side
    truth[:, 4:20, 5:25] = random.uniform(0.5, 1, (2, 16, 20)) * np.array([1, 0.4])[:, None, None]
    kspace = reference.spectrum(truth).astype(np.complex64)
    for first, last in (((8, 0), (25, 31)), ((0, 0), (17, 31)), ((0, 8), (25, 31)), ((0, 0), (25, 23))):
        scan = PartialScan(kspace, first, last)
        plain, _ = scan.image(server, pipeline(backend))
        filled, said = scan.image(server, pipeline(backend, f"partial_fourier: {{method: {method}, iterations: 20}}"))
        better = reference.nrmse(filled, truth) / reference.nrmse(plain, truth)
        assert better <= (1e-4 if method == "homodyne" else 0.5), (first, last, better)
        assert shares(said).startswith(method)


def test_measured_asymmetric_echoes(server, backend):
    """Each line has 200 of 384 samples: too few on the short side to know the phase, and so it is left alone, with a
    warning."""
    path = measured("marcsous_parallel/half_echoes.h5")
    _, heads, _, _ = scans.read_acquisitions(path)
    messages = scans.read_messages(path)
    imaging = [i for i, head in enumerate(heads) if not int(head["flags"]) & wire.NOISE]
    reply = wire.exchange(server.address, [pipeline(backend, "partial_fourier"), messages[0],
                                           *(messages[1 + i] for i in imaging), wire.close()])  # fmt: skip
    assert not reply.errors() and len(reply.images) == 2, reply.texts
    assert all(shares(image.attributes) is None for image in reply.images)
    assert any("on axis x only" in text for text in reply.said("WARNING")), reply.texts
    plain = wire.exchange(server.address, [pipeline(backend), messages[0], *(messages[1 + i] for i in imaging),
                                           wire.close()]).images  # fmt: skip
    for image, zero_filled in zip(reply.images, plain, strict=True):
        assert reference.nrmse(image.pixels, zero_filled.pixels) <= (0 if backend == "cpu" else 1e-6)


@pytest.mark.parametrize("options, said", [(("--partial-fourier", 0.625), "y 0.625"),
                                           (("--partial-echo", 0.7), "x 0.")])  # fmt: skip
def test_simulated_scans(server, backend, tmp_path, options, said):
    """Steps that count from the first line acquired, and center_sample; several frames, several coils."""
    path = tmp_path / f"scan-{os.getpid()}.h5"
    simulated_scan(path, "--trajectory", "cartesian", "--matrix", 64, "--coils", 3, "--frames", 2, "--coil-truth",
                   *options)  # fmt: skip
    truth = scans.read_array(path, "coil_truth").reshape(-1, 3, 64, 64)[0]
    messages = [*scans.read_messages(path), wire.close()]
    before = wire.exchange(server.address, [pipeline(backend), *messages]).images
    after = wire.exchange(server.address, [pipeline(backend, "partial_fourier"), *messages]).images
    assert len(before) == len(after) == 2
    for plain, filled in zip(before, after, strict=True):
        assert f"pocs, {said}" in shares(filled.attributes)
        ratio = magnitude_error(filled.pixels[:, 0], truth) / magnitude_error(plain.pixels[:, 0], truth)
        assert ratio <= 0.9, ratio


def test_lines_with_gaps_stay(server, backend):
    """An undersampled scan passes as it is, and the client is told."""
    kspace = reference.spectrum(np.random.default_rng(2).standard_normal((2, 24, 24))).astype(np.complex64)
    scan = PartialScan(kspace, (6, 0), (24, 24))
    del scan.messages[3]
    replies = [
        wire.exchange(server.address, [pipeline(backend, *gadgets), *scan.messages, wire.close()])
        for gadgets in ((), ("partial_fourier",))
    ]
    plain, filled = (reply.images[0] for reply in replies)
    assert reference.nrmse(filled.pixels, plain.pixels) <= (0 if backend == "cpu" else 1e-6)
    assert shares(filled.attributes) is None
    assert any("lines are missing in between" in text for text in replies[1].said("WARNING"))


def window(n, first, last, shape, width=1.0, alpha=0.5, sigma=0.5):
    """The window of an axis whose samples first to last - 1 came, as docs/gadgets.md has it."""
    k = np.abs(np.arange(n) - n // 2)
    edge = width * max(n // 2 - first, last - 1 - n // 2)
    if shape == "gaussian":
        return np.exp(-(k**2) / (2 * (sigma * edge) ** 2))
    flat = (1 - alpha) * edge if shape == "tukey" else 0
    return np.where(k > edge, 0, np.where(k <= flat, 1, 0.5 + 0.5 * np.cos(np.pi * (k - flat) / (edge - flat))))


@pytest.mark.parametrize("options", [{"shape": "hann"}, {"shape": "tukey", "alpha": 0.3, "width": 0.8},
                                     {"shape": "gaussian", "sigma": 0.4}, {"shape": "hann", "axes": "y"}],
                         ids=lambda options: "-".join(str(v) for v in options.values()))  # fmt: skip
@pytest.mark.parametrize("first, last", [((0, 0), (24, 31)), ((7, 0), (24, 31)), ((0, 5), (20, 31))])
def test_filter(server, backend, options, first, last):
    """The window is as wide as what came, of whole and of partial scans."""
    random = np.random.default_rng(4).standard_normal((2, 2, 24, 31))
    scan = PartialScan((random[0] + 1j * random[1]).astype(np.complex64), first, last)
    text = ", ".join(f"{name}: {value}" for name, value in options.items())
    found, said = scan.image(server, pipeline(backend, f"filter: {{{text}}}"))
    axes = options.get("axes", "xyz")
    shape = {name: value for name, value in options.items() if name != "axes"}
    by_axis = [window(n, first[a], last[a], **shape) if "yx"[a] in axes else np.ones(n) for a, n in enumerate((24, 31))]
    truth = reference.picture(scan.zero_filled * np.outer(*by_axis))
    assert reference.nrmse(found, truth) <= 1e-5
    assert re.search(rf"<name>filter</name>\s*<value>{options['shape']}<", said)


def test_filter_after_partial_fourier(server, backend):
    """The window then reaches as far as what was filled: both ends of the axis."""
    kspace = reference.spectrum(np.random.default_rng(5).uniform(0.5, 1, (1, 25, 25))).astype(np.complex64)
    scan = PartialScan(kspace, (8, 0), (25, 25))
    filled, _ = scan.image(server, pipeline(backend, "partial_fourier: {method: homodyne}"))
    both, said = scan.image(server, pipeline(backend, "partial_fourier: {method: homodyne}", "filter: {shape: hann}"))
    factors = np.outer(window(25, 0, 25, "hann"), window(25, 0, 25, "hann"))
    assert reference.nrmse(both, reference.picture(reference.spectrum(filled) * factors)) <= 1e-5
    assert shares(said) and "<name>filter</name>" in said
