"""Memory that one client has used shows another one nothing: client A's scans fill what the server keeps of blocks (slabs,
arrays, on a GPU pinned and device memory) with one pattern of bits, and client B, at another address, sends scans that
leave as much as they can to what lies there: of each family of pipelines one, with readouts that are missing, that are few,
and that have no samples.

The pattern is a float of 1e12 (readouts with NaN are skipped), where B's samples are about 1: whatever adds up some of it gives
other images than those of a server that nobody has used before. steps/test_planted_pattern.py has captures, Python steps,
other sizes, and a search for the bytes.
"""

import struct

import numpy as np
import pytest

import reference
import stopping
import wire
from programs import Server, ends_well

PATTERN = struct.pack("<I", 0x5369A53C)
A, B = "127.0.0.2", "127.0.0.3"
HEAD = 2 + wire.ACQUISITION_HEAD.itemsize


def split(stream):
    """The messages of a client's stream: (ID, where its samples or pixels begin, bytes)."""
    at, found = 0, []
    while at < len(stream):
        (kind,) = struct.unpack_from("<H", stream, at)
        samples = size = 2
        if kind == wire.CONFIG_FILE:
            samples = size = 2 + 1024
        elif kind in (wire.HEADER, wire.TEXT):
            samples = size = 6 + struct.unpack_from("<I", stream, at + 2)[0]
        elif kind == wire.ACQUISITION:
            head = np.frombuffer(stream, wire.ACQUISITION_HEAD, 1, at + 2)[0]
            samples = HEAD + 4 * int(head["number_of_samples"]) * int(head["trajectory_dimensions"])
            size = samples + 8 * int(head["number_of_samples"]) * int(head["active_channels"])
        elif kind == wire.IMAGE:
            head = np.frombuffer(stream, wire.IMAGE_HEAD, 1, at + 2)[0]
            samples = 2 + wire.IMAGE_HEAD.itemsize + 8 + int(head["attribute_string_len"])
            pixels = int(np.prod(head["matrix_size"], dtype=int)) * int(head["channels"])
            size = samples + pixels * np.dtype(wire.PIXELS[int(head["data_type"])]).itemsize
        elif kind == wire.WAVEFORM:
            samples = size = 42 + 4 * int(np.prod(struct.unpack_from("<HH", stream, at + 2 + 28)))
        else:
            assert kind == wire.CLOSE, kind
        found.append((kind, samples, stream[at : at + size]))
        at += size
    return found


def planted(messages):
    """All samples and pixels are the pattern."""
    return [bytes[:samples] + PATTERN * ((len(bytes) - samples) // 4) for _, samples, bytes in messages]


def thinned(messages, keep):
    """Only those readouts (or images, where there are no readouts) whose number is in `keep`, and the last."""
    kinds = [kind for kind, _, _ in messages]
    data = wire.ACQUISITION if wire.ACQUISITION in kinds else wire.IMAGE
    numbers = [i for i, kind in enumerate(kinds) if kind == data]
    kept = {numbers[i] for i in range(len(numbers)) if keep(i)} | {numbers[-1]}
    return [bytes for i, (kind, _, bytes) in enumerate(messages) if kind != data or i in kept]


def without_samples(messages):
    """Each fourth readout says that it has no samples, and has none."""
    changed = []
    for i, (kind, _, bytes) in enumerate(messages):
        if kind == wire.ACQUISITION and i % 4 == 3:
            bytes = wire.changed(bytes[:HEAD], number_of_samples=0, center_sample=0)
        changed.append(bytes)
    return changed


def bytes_of(reply):
    for image in reply.images:
        yield image.head.tobytes() + image.attributes.encode() + image.pixels.tobytes()
    yield from (text.encode() for text in [*reply.texts, *(text for _, text in reply.responses)])


def same_images(images, expected, exact):
    assert len(images) == len(expected)
    for one, truth in zip(images, expected):
        if exact:
            np.testing.assert_array_equal(one.pixels, truth.pixels)
        else:
            assert np.isfinite(one.pixels).all() == np.isfinite(truth.pixels).all()
            assert not truth.pixels.any() or reference.nrmse(one.pixels, truth.pixels) < 1e-4


def started(folder, backend):
    # Tuned methods differ in bits.
    return Server(folder, "--backend", backend)


@pytest.fixture
def used(tmp_path, backend):
    folder = tmp_path / "used"
    folder.mkdir()
    server = started(folder, backend)
    yield from ends_well(server)


@pytest.mark.parametrize("family", stopping.FAMILIES)
def test_another_client_gets_what_a_new_server_gives(tmp_path, used, backend, family):
    messages = split(stopping.FAMILIES[family](family, tmp_path))
    question = [wire.query(name) for name in ("gadgetron::info", "echotrain::noise_matrix")]
    asks = [messages[0][2], *question]
    scans = {
        "every third": thinned(messages, lambda i: i % 3 == 0),
        "the first and the last": thinned(messages, lambda i: i == 0),
        "none but the last": thinned(messages, lambda i: False),
        "some without samples": without_samples(messages),
        "all": [bytes for _, _, bytes in messages],
    }
    folder = tmp_path / "new"
    folder.mkdir()
    new = started(folder, backend)
    expected = {name: wire.exchange(new.address, [*asks, *sent[1:]], source=B) for name, sent in scans.items()}
    assert new.stop() == 0, new.text()
    # Where readouts are gridded as they come, bits depend on how they come.
    exact = not any(kind == wire.ACQUISITION and samples > HEAD for kind, samples, _ in messages)
    for name, sent in scans.items():
        a = wire.exchange(used.address, planted(messages), source=A)
        # Decibels are relative to the brightest pixel.
        assert family == "ultrasound_plane_wave" or max(abs(image.pixels).max() for image in a.images) > 1e6
        b = wire.exchange(used.address, [*asks, *sent[1:]], source=B)
        assert not any(PATTERN in bytes for bytes in bytes_of(b)), name
        same_images(b.images, expected[name].images, exact)
        assert b.errors() == expected[name].errors() and b.responses == expected[name].responses, name
