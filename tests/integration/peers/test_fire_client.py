"""python-ismrmrd-server's client (FIRE): its exchanges, byte by byte (tests/integration/support/peers.py)."""

import struct

import numpy as np
import pytest

import peers
import reference
from peers import COILS, SAMPLES, named
from programs import variant

META = b'<?xml version="1.0"?><ismrmrdMeta><meta><name>DataRole</name><value>Image</value></meta></ismrmrdMeta>'


@pytest.fixture(scope="module")
def kspace():
    return peers.random_kspace(seed=6)


@pytest.fixture(scope="module")
def xml(kspace):
    return peers.header_xml(kspace)


def text(message, content):
    """A text and the NUL that its length counts."""
    return [message, struct.pack("<I", len(content) + 1), content.encode() + b"\0"]


def check(images, kspace):
    for repetition, (image, lines) in enumerate(zip(images, kspace, strict=True)):
        truth = reference.rss(reference.centred_fft(lines, SAMPLES // 2))
        assert image.u16(104) == repetition and reference.nrmse(image.pixels[0, 0], truth) <= 1e-5


def test_a_scan(server, kspace, xml):
    """Its default name; one repetition is 46070 bytes, as counted at the real client. Waveforms go before readouts."""
    writes = [*named("invertcontrast"), *text(b"\x03\x00", xml), *peers.readouts(kspace[:1]), peers.CLOSE]
    client, sent = peers.play(server.address, writes, peers.Fire())
    assert sent == 46070 and client.texts == []
    check(client.images, kspace[:1])
    writes[5:5] = [*peers.ecg(50), *peers.ecg(50, 1)]
    client, _ = peers.play(server.address, writes, peers.Fire())
    assert client.texts == []
    check(client.images, kspace[:1])


def test_a_scan_with_additional_configuration(server, kspace, xml):
    """The JSON text after the header keeps or replaces the name; what is not JSON does nothing."""
    for note, coils in (('{"parameters": {}}', 1), ('{"parameters": {"config": "coils_2d"}}', COILS), ("none", 1)):
        writes = [*named("invertcontrast"), *text(b"\x03\x00", xml), *text(b"\x05\x00", note)]
        client, _ = peers.play(server.address, [*writes, *peers.readouts(kspace), peers.CLOSE], peers.Fire())
        assert [image.pixels.shape[0] for image in client.images] == [coils, coils] and client.texts == []


def test_a_configuration_of_its_own(server, kspace, xml):
    """--config-local FILE."""
    writes = [*text(b"\x02\x00", variant("cartesian_plain")), *text(b"\x03\x00", xml), *peers.readouts(kspace)]
    client, _ = peers.play(server.address, [*writes, peers.CLOSE], peers.Fire())
    check(client.images, kspace)


def test_readouts_with_zeroed_headers(server, kspace, xml):
    """Python's headers begin as zeros: version 0 is taken, and told of once."""
    writes = [*named("invertcontrast"), *text(b"\x03\x00", xml), *peers.readouts(kspace, version=0), peers.CLOSE]
    client, _ = peers.play(server.address, writes, peers.Fire())
    (warning,) = client.texts
    assert warning.startswith("WARNING  ") and "version 0" in warning
    check(client.images, kspace)


@pytest.mark.parametrize("attributes", [META, b""], ids=["attributes", "none"])
@pytest.mark.parametrize("header", ["Dummy XML header", "xml"])
def test_images_without_readouts(server, xml, header, attributes):
    """A file of images, with or without a header: image to image."""
    pixels = np.random.default_rng(3).integers(-3000, 3000, (3, 24, 20)).astype("<i2")
    writes = [*named("passthrough"), *text(b"\x03\x00", xml if header == "xml" else header)]
    for number, plane in enumerate(pixels):
        writes += peers.image(plane, attributes, slice_number=number)
    client, _ = peers.play(server.address, [*writes, peers.CLOSE], peers.Fire())
    assert not [line for line in client.texts if line.startswith("ERROR")], client.texts
    assert [image.u16(98) for image in client.images] == [0, 1, 2]
    for image, plane in zip(client.images, pixels):
        np.testing.assert_array_equal(image.pixels[0, 0], plane)


def test_readouts_without_a_header_are_refused(server, kspace):
    writes = [*named("invertcontrast"), *text(b"\x03\x00", "Dummy XML header"), *peers.readouts(kspace), peers.CLOSE]
    client, _ = peers.play(server.address, writes, peers.Fire())
    (error,) = client.texts
    assert error.startswith("ERROR    bad-header: ") and "Dummy XML header" in error and client.images == []
