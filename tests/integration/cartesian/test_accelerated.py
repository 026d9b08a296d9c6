"""Accelerated Cartesian scans from the wire: which lines come, by flags and counters, and what becomes of them.

`echotrain simulate` makes the scans. Each line must be found again in the image that is zero-filled, and the least
squares of all coils must give the object that was simulated.
"""

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import reference
import scans
import wire
from programs import simulated_scan

CALIBRATION, AND_IMAGING = 1 << 19, 1 << 20
PLANE, VOLUME = ("--matrix", 48, "--coils", 8), ("--matrix", 24, "--depth", 20, "--coils", 8)


class Case:
    """Options of `simulate`; `notes`: what images must say; `ends`: each frame ends with its last line; `error`: of the
    least squares of all coils."""

    def __init__(self, *options, size=PLANE, notes=None, ends=True, error=0.02):
        self.options, self.size, self.notes, self.ends, self.error = options, size, notes or {}, ends, error


def regular(*options, acceleration="2x1", **others):
    return Case("--acceleration", acceleration.removesuffix("x1"), *options,
                notes={"acceleration": acceleration, "missing_lines": "0"}, **others)  # fmt: skip


CASES = {
    "full": Case("--frames", 2, notes={"acceleration": None, "missing_lines": "0"}),
    "embedded_2": regular("--calibration", 16, "--frames", 2),
    "embedded_3": regular("--calibration", 15, "--frames", 2, acceleration="3x1"),
    "separate_3": regular("--calibration", 16, "--calibration-mode", "separate", "--frames", 2, acceleration="3x1"),
    "interleaved_3": regular("--calibration-mode", "interleaved", "--frames", 4, acceleration="3x1"),
    "external_2": regular("--frames", 2),
    "slices": regular("--slices", 2, "--contrasts", 2, "--calibration", 12, "--frames", 2),
    "partial_fourier": regular("--partial-fourier", 0.75, "--calibration", 12, error=0.05),
    "partial_echo": regular("--partial-echo", 0.75, "--calibration", 12),
    "both_partial": Case("--partial-fourier", 0.75, "--partial-echo", 0.7, notes={"acceleration": None}),
    "poisson": Case("--acceleration", 2, "--sampling", "poisson", "--calibration", 12, ends=False,
                    notes={"acceleration": "2x1"}),
    "volume_2x2": regular("--calibration", 8, "--frames", 2, acceleration="2x2", size=VOLUME),
    "volume_separate": regular("--calibration", 8, "--calibration-mode", "separate", acceleration="2x2", size=VOLUME),
    "caipi": regular("--caipi", 1, "--calibration", 8, acceleration="2x2", size=VOLUME),
    "caipi_3": regular("--caipi", 2, acceleration="3x1", size=VOLUME),
    "elliptical": Case("--acceleration", "2x2", "--sampling", "elliptical", "--calibration", 8, size=VOLUME,
                       ends=False, notes={"acceleration": "2x2"}, error=0.05),
    "volume_poisson": Case("--acceleration", "2x2", "--sampling", "poisson", "--calibration", 8, size=VOLUME,
                           ends=False, notes={"acceleration": "2x2"}),
}  # fmt: skip


def simulate(folder, *options):
    return simulated_scan(folder / f"scan-{os.getpid()}.h5", "--trajectory", "cartesian", "--coil-truth", *options)


def pipeline(backend, maps=False, iterations=1, prior="0"):
    return wire.config_text(
        f"echotrain: 1\nname: accelerated\ndescription: of a test\nbackend: {backend}\npipeline:\n  - noise_adjust\n"
        f"  - cartesian_kspace\n  - encoding\n{'  - coil_maps: {method: given}' if maps else ''}\n"
        f"  - pcg: {{iterations: {iterations}, lambda: {prior}, tolerance: 1e-6}}\n"
        "  - image: {component: complex, type: float}\n"
    )


def coil_maps(folder, size):
    """[coil, z, y, x]: polynomials times a Gaussian are the images of that Gaussian, where it does not meet its alias.
    The coils of `simulate` vary slowly, so that polynomials go on to where it is dark."""
    extents = [size[3] if size is VOLUME else 1, size[1], size[1]]
    width = min(n for n in extents if n > 1) / 8
    images = scans.read_array(simulate(folder, *size, "--phantom", "blob", "--blob-sigma", width), "coil_truth")
    images = images.reshape(-1, *extents)
    gaussian, bright, basis = np.ones(()), np.ones((), bool), np.ones((1, 1))
    for n in extents:
        axis = np.arange(n) - n // 2
        gaussian = np.multiply.outer(gaussian, np.exp(-(axis**2) / (2 * width**2)))
        bright = np.logical_and.outer(bright, np.abs(axis) <= 0.38 * n)
        of_axis = np.polynomial.chebyshev.chebvander(2 * axis / n, min(n - 1, 5))
        basis = np.einsum("pa,qb->pqab", basis, of_axis).reshape(len(basis) * n, -1)
    model = basis[bright.ravel()] * gaussian[bright][:, None]
    fit = np.linalg.lstsq(model, images[:, bright].T, rcond=1e-9)[0]
    return (basis @ fit).T.reshape(images.shape).astype(np.complex64)


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    return {size: coil_maps(folder, size) for size in (PLANE, VOLUME)}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """A case of CASES with its file."""
    made = CASES[request.param]
    folder = tmp_path_factory.mktemp("scan")
    made.path = simulate(folder, *made.size, *made.options, "--phantom", "blob", "--blob-sigma", 2.5)
    return made


def counters(head):
    """Slice, contrast and repetition: what makes a frame here."""
    of = head["idx"] if "idx" in head.dtype.names else head
    return tuple(int(of[name]) for name in ("slice", "contrast", "repetition"))


def frames_of(path):
    """By counters: (k-space [coil, z, y, x], lines for images [z, y], lines for calibration alone [z, y], first x)."""
    xml, heads, _, data = scans.read_acquisitions(path)

    def number(pattern):
        return int(re.search(pattern + r"[^<]*<center>(\d+)", xml, re.S)[1])

    size = re.search(r"<encodedSpace>.*?<x>(\d+)</x><y>(\d+)</y><z>(\d+)</z>", xml, re.S)
    nx, ny, nz = (int(n) for n in size.groups())
    centers = [number(rf"<kspace_encoding_step_{i}><minimum>\d+</minimum><maximum>\d+</maximum>") for i in (1, 2)]
    frames = {}
    for head, line in zip(heads, data):
        flags, samples = int(head["flags"]), line.shape[1]
        y = int(head["idx"]["kspace_encode_step_1"]) + ny // 2 - centers[0]
        z = int(head["idx"]["kspace_encode_step_2"]) + nz // 2 - centers[1]
        first = nx // 2 - int(head["center_sample"])
        only = bool(flags & CALIBRATION) and not flags & AND_IMAGING
        empty = (np.zeros((len(line), nz, ny, nx), complex), np.zeros((nz, ny), bool), np.zeros((nz, ny), bool), first)
        frame = frames.setdefault(counters(head), empty)
        frame[2 if only else 1][z, y] = True
        frame[0][:, z, y, first : first + samples] = line
    if "separate" in xml:  # its reference lines are no frame's
        frames = {key: frame for key, frame in frames.items() if frame[1].any()}
    return frames


def notes(image, name):
    found = re.search(rf"<name>{name}</name>\s*<value>([^<]*)", image.attributes)
    return found and found[1]


def exchange(address, config, messages, before=(), write=None):
    """`write`: bytes of each write; else a message."""
    stream = [config, messages[0], *before, *messages[1:], wire.close()]
    if write:
        whole = b"".join(stream)
        stream = [whole[i : i + write] for i in range(0, len(whole), write)]
    reply = wire.exchange(address, stream)
    assert not reply.errors(), reply.errors()
    return sorted(reply.images, key=lambda image: counters(image.head))


def transform(images):
    axes = (1, 2, 3)
    return np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(images, axes=axes), axes=axes), axes=axes)


def test_each_line_finds_its_place(server, case, backend):
    """The image of zero-filled k-space, transformed back: every line, and nothing else. Lines that are for calibration
    alone are there or are not."""
    images = exchange(server.address, pipeline(backend), scans.read_messages(case.path))
    frames = frames_of(case.path)
    embedded = "<calibrationMode>embedded<" in scans.read_acquisitions(case.path)[0]
    assert [counters(image.head) for image in images] == sorted(frames)
    for image in images:
        kspace, lines, reference_lines, first = frames[counters(image.head)]
        for name, expected in case.notes.items():
            assert notes(image, name) == expected, (name, image.attributes)
        if case.notes.get("acceleration"):
            counts = (lines.sum(), (lines | reference_lines).sum())
            assert notes(image, "acceleration_effective") in [f"{lines.size / count:.2f}" for count in counts]
        found = transform(image.pixels)
        most = np.abs(kspace).max()
        put_back = str((reference_lines & ~lines).sum()) if embedded else None
        assert notes(image, "put_back_lines") == put_back, (counters(image.head), image.attributes)
        came = lines | reference_lines if embedded else lines
        assert np.abs(found - kspace * came[:, :, None]).max() <= 1e-5 * most
        if "--partial-echo" in case.options:
            assert first > 0 and not kspace[..., :first].any()


def test_the_image_is_the_object(server, case, maps, backend):
    """The object is that of all coils by their maps. Zero-filled images are 40 % off and more where lines are left out."""
    config, given = pipeline(backend, True, 100, "1e-6"), maps[case.size]
    images = exchange(server.address, config, scans.read_messages(case.path), [wire.image(given.astype("c8"), "coil_maps")])
    coils = scans.read_array(case.path, "coil_truth").reshape(-1, *given.shape)
    frames = sorted(frames_of(case.path))
    assert len(images) == len(frames)
    # One truth for all slices and frames; contrasts differ in brightness.
    truth = np.sum(np.conj(given) * coils[0], axis=0) / np.sum(np.abs(given) ** 2, axis=0)
    for image in images:
        factor = reference.real_scale(truth, image.pixels[0]) if image.head["contrast"] else 1
        assert reference.nrmse(image.pixels[0], factor * truth) <= case.error, counters(image.head)


@pytest.mark.parametrize("name", ["embedded_2", "separate_3", "slices", "caipi"])
def test_any_write_size(server, name, backend, tmp_path):
    """From a byte to all at once: the same images, on the CPU the same bits."""
    case = CASES[name]
    small = ("--matrix", 16, *((*case.size[2:4], "--coils", 2) if case.size is VOLUME else ("--coils", 2)))
    path = simulate(tmp_path, *small, *(8 if o in (12, 16) else o for o in case.options))
    messages = scans.read_messages(path)
    expected = exchange(server.address, pipeline(backend), messages)
    assert len(expected) == len(frames_of(path))
    for write in (1, 7, 341, 2048, 1 << 24):
        images = exchange(server.address, pipeline(backend), messages, write=write)
        for image, want in zip(images, expected, strict=True):
            assert reference.nrmse(image.pixels, want.pixels) <= (0 if backend == "cpu" else 1e-5), write


class Scanner:
    """A connection that sends a part and waits for images."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=60)
        self.received = b""

    def send(self, *messages):
        self.socket.sendall(b"".join(messages))

    def images(self):
        """The images of what has been received so far: a reply that lacks its CLOSE, perhaps the end of a message."""
        try:
            return wire.parse(self.received + wire.close()).images
        except (AssertionError, ValueError, wire.struct.error):
            return []

    def wait_for(self, count):
        while len(self.images()) < count:
            part = self.socket.recv(1 << 20)
            assert part, "the server closed"
            self.received += part
        return self.images()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.ends])
def test_a_frame_leaves_with_its_last_line(server, name, backend, tmp_path):
    """The scanner waits for each frame's image before it sends anything of the next one, or CLOSE. Where lines move from
    frame to frame, the first frames wait for calibration, which three of them make."""
    case = CASES[name]
    held = 2 if name == "interleaved_3" else 0
    path = simulate(tmp_path, *case.size, *case.options)
    _, heads, _, _ = scans.read_acquisitions(path)
    messages = scans.read_messages(path)
    last = {}
    for i, head in enumerate(heads):
        if not int(head["flags"]) & CALIBRATION or int(head["flags"]) & AND_IMAGING:
            last[counters(head)] = i
    scanner = Scanner(server.address)
    scanner.send(pipeline(backend), messages[0])
    sent = 0
    for count, end in enumerate(sorted(last.values()), 1):
        scanner.send(*messages[1 + sent : 2 + end])
        sent = end + 1
        if count > held:
            images = scanner.wait_for(count)
            assert len(images) == count
    scanner.send(*messages[1 + sent :], wire.close())
    while part := scanner.socket.recv(1 << 20):
        scanner.received += part
    assert len(wire.parse(scanner.received).images) == len(last)


def test_a_line_that_is_lost(server, backend, tmp_path):
    """Counted in its frame's image; the frames before and after it are as they are without the loss."""
    path = simulate(tmp_path, *PLANE, "--acceleration", 3, "--calibration", 15, "--frames", 3)
    messages = scans.read_messages(path)
    whole = exchange(server.address, pipeline(backend), messages)
    _, heads, _, _ = scans.read_acquisitions(path)
    (lost,) = (i for i, h in enumerate(heads) if counters(h) == (0, 0, 1) and h["idx"]["kspace_encode_step_1"] == 6)
    images = exchange(server.address, pipeline(backend), messages[: 1 + lost] + messages[2 + lost :])
    assert [notes(image, "missing_lines") for image in images] == ["0", "1", "0"]
    for i in (0, 2):
        assert reference.nrmse(images[i].pixels, whole[i].pixels) <= (0 if backend == "cpu" else 1e-5)
    difference = transform(whole[1].pixels - images[1].pixels)
    rows = np.flatnonzero(np.abs(difference).max(axis=(0, 1, 3)) > 1e-3 * np.abs(difference).max())
    np.testing.assert_array_equal(rows, [6])


def test_cut_streams_and_neighbours(server, tmp_path):
    """Scans that break off inside any message disturb no other session."""
    path = simulate(tmp_path, *PLANE, *CASES["embedded_2"].options)
    messages = scans.read_messages(path)
    expected = exchange(server.address, pipeline("cpu"), messages)
    whole = b"".join([pipeline("cpu"), *messages])
    cuts = np.random.default_rng(6).integers(1, len(whole), 12)

    def cut(end):
        with socket.create_connection(server.address, timeout=60) as connection:
            connection.sendall(whole[:end])

    with ThreadPoolExecutor(4) as pool:
        broken = [pool.submit(cut, end) for end in cuts]
        good = [pool.submit(exchange, server.address, pipeline("cpu"), messages) for _ in range(6)]
        for each in good:
            for image, want in zip(each.result(), expected, strict=True):
                np.testing.assert_array_equal(image.pixels, want.pixels)
        for each in broken:
            each.result()
    assert server.process.poll() is None
