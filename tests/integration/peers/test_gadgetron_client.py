"""gadgetron_ismrmrd_client's exchanges, byte by byte (tests/integration/support/peers.py)."""

import socket
import struct

import numpy as np
import pytest

import peers
import reference
from peers import COILS, LINES, SAMPLES, named
from programs import run_client, variant



@pytest.fixture(scope="module")
def kspace():
    return peers.random_kspace(seed=5)


@pytest.fixture(scope="module")
def xml(kspace):
    return peers.header_xml(kspace)


def script(message, text):
    """A text without a NUL, after its length."""
    return [message, struct.pack("<I", len(text)), text.encode()]


def stream(*classes):
    """A configuration in XML, as its second version has it."""
    gadgets = "".join(f"<gadget><dll>x</dll><classname>{each}</classname></gadget>" for each in classes)
    return f'<?xml version="1.0"?><configuration><version>2</version><stream>{gadgets}</stream></configuration>'


PLAIN = ("RemoveROOversamplingGadget", "AcquisitionAccumulateTriggerGadget", "BucketToBufferGadget", "SimpleReconGadget",
         "ImageArraySplitGadget", "ExtractGadget", "ImageFinishGadget")  # fmt: skip


def check(images, kspace, tolerance=1e-5):
    assert [image.u16(126) for image in images] == list(range(1, len(kspace) + 1))  # image_index
    for repetition, (image, lines) in enumerate(zip(images, kspace, strict=True)):
        truth = reference.rss(reference.centred_fft(lines, SAMPLES // 2))
        assert image.u16(104) == repetition and image.u16(128) == 1 and image.u16(124) == 1
        assert reference.nrmse(image.pixels[0, 0], truth) <= tolerance


@pytest.mark.parametrize("name", ["simplefft", "cartesian_plain"])
def test_a_scan(server, kspace, xml, name):
    """-c NAME: one repetition is 46069 bytes, as counted at the real client."""
    for repetitions in (1, 2):
        writes = [*named(name), *script(b"\x03\x00", xml), *peers.readouts(kspace[:repetitions]), peers.CLOSE]
        client, sent = peers.play(server.address, writes, peers.Gadgetron())
        assert sent == 1026 + 6 + 1323 + repetitions * 32 * 1366 + 2 == {1: 46069, 2: 89781}[repetitions]
        assert client.texts == [] and client.answers == []
        check(client.images, kspace[:repetitions])


def test_default_xml_is_the_finished_image(server, kspace, xml):
    """The default's image is in one scale for the series, and of the same object: random coils in a block of 5 x 5 voxels
    have a pattern of their own in every voxel, so that the joined image is only like the root of the sum of squares."""
    writes = [*named("default.xml"), *script(b"\x03\x00", xml), *peers.readouts(kspace), peers.CLOSE]
    client, _ = peers.play(server.address, writes, peers.Gadgetron())
    assert all("have no directions" in text for text in client.texts)  # the example's generator sets none
    for number, (image, lines) in enumerate(zip(client.images, kspace, strict=True)):
        pixels, truth = image.pixels[0, 0], reference.rss(reference.centred_fft(lines, SAMPLES // 2))
        assert number > 0 or np.quantile(pixels, 0.995, method="lower") == pytest.approx(1000, rel=1e-4)
        assert np.corrcoef(pixels.ravel(), truth.ravel())[0, 1] > 0.7


def test_a_scan_in_single_bytes(server, kspace, xml):
    """Segments have no relation to messages: every byte of config and header by itself, ids split."""
    small = b"".join([*named("simplefft"), *script(b"\x03\x00", xml)])
    pieces = [small[i : i + 1] for i in range(len(small))]
    for write in peers.readouts(kspace[:1]):
        pieces += [write[:1], write[1:]]
    client, _ = peers.play(server.address, [*pieces, peers.CLOSE[:1], peers.CLOSE[1:]], peers.Gadgetron())
    assert client.texts == []
    check(client.images, kspace[:1])


def test_a_configuration_of_its_own(server, kspace, xml):
    """-C FILE: the text goes as CONFIG_TEXT; waveforms come among the readouts."""
    lines = peers.readouts(kspace)
    writes = [*script(b"\x02\x00", variant("cartesian_plain")), *script(b"\x03\x00", xml)]
    writes += [*lines[:9], *peers.ecg(50), *lines[9:], *peers.ecg(7), peers.CLOSE]
    client, _ = peers.play(server.address, writes, peers.Gadgetron())
    check(client.images, kspace)


def test_a_configuration_in_xml(server, kspace, xml, tmp_path):
    """-C FILE with its own format: the gadgets of default.xml give what NumPy gives, as XML and as convert-config writes it."""
    (tmp_path / "plain.xml").write_text(stream(*PLAIN))
    made = run_client("convert-config", tmp_path / "plain.xml")
    assert made.returncode == 0 and made.stderr == "", made.stderr
    all_images = []
    for text in (stream(*PLAIN), made.stdout):
        writes = [*script(b"\x02\x00", text), *script(b"\x03\x00", xml), *peers.readouts(kspace), peers.CLOSE]
        client, _ = peers.play(server.address, writes, peers.Gadgetron())
        assert client.texts == []
        check(client.images, kspace)
        all_images.append([image.pixels.tobytes() for image in client.images])
    assert all_images[0] == all_images[1]


@pytest.mark.parametrize("name, ours", [("default_short.xml", "cartesian_2d"), ("grappa.xml", "cartesian_grappa"),
                                        ("bartfire", "cartesian_plain")])  # fmt: skip
def test_names_of_configurations(server, kspace, xml, name, ours):
    """Names of the distribution stand for pipelines; a WARNING says what differs."""
    pixels = []
    for each in (name, ours):
        writes = [*named(each), *script(b"\x03\x00", xml), *peers.readouts(kspace), peers.CLOSE]
        client, _ = peers.play(server.address, writes, peers.Gadgetron())
        assert any(f"'{name}' stands for '{ours}'" in text for text in client.texts) == (each == name), client.texts
        pixels.append([image.pixels.tobytes() for image in client.images])
    assert len(pixels[0]) == len(kspace) and pixels[0] == pixels[1]


@pytest.mark.parametrize("config", [script(b"\x02\x00", "<configuration>" + 670 * " " + "</configuration>"),
                                    script(b"\x02\x00", stream("DependencyQueryGadget")), named("gtquery.xml"),
                                    named("default_measurement_dependencies.xml"), named("default.xml")],
                         ids=["text", "question", "unknown_name", "alias", "known_name"])  # fmt: skip
def test_the_question_before_a_measurement(server, config):
    """Is the noise scan known that a header names? Configuration and CLOSE; any TEXT would abort the client."""
    client, _ = peers.play(server.address, [*config, peers.CLOSE], peers.Gadgetron())
    assert client.texts == [] and client.images == [] and client.answers == []


def test_questions_about_the_server(server):
    """QUERY needs no configuration. Reserved 0, correlation id, length, name; an unknown name is no error."""
    writes = []
    for number, name in ((7, b"gadgetron::version"), (1 << 63, b"ismrmrd::version"), (9, b"gadgetron::cuda::nothing")):
        writes += [b"\x06\x00", struct.pack("<QQQ", 0, number, len(name)), name]
    client, _ = peers.play(server.address, [*writes, peers.CLOSE], peers.Gadgetron())
    assert [number for number, _ in client.answers] == [7, 1 << 63, 9]
    assert client.answers[2][1] == b"Unknown query" and b"\0" not in b"".join(text for _, text in client.answers)
    assert all(text for _, text in client.answers) and client.texts == []


@pytest.mark.parametrize("name, code", [("CMRT.xml", "unknown-config"), ("x" * 1024, "bad-config")])
def test_a_name_that_is_not_known(server, kspace, xml, name, code):
    """One error and CLOSE; the client goes on sending meanwhile. 1024 characters leave no NUL in the field."""
    writes = [*named(name), *script(b"\x03\x00", xml), *peers.readouts(kspace), peers.CLOSE]
    client, _ = peers.play(server.address, writes, peers.Gadgetron())
    (text,) = client.texts
    assert text.startswith(f"ERROR    {code}: ") and client.images == []


def test_samples_in_its_own_packing(server, kspace, xml):
    """Integers of `bits` bits, lowest bit first, value = integer / scale, in place of the samples."""
    bits, scale = 12, np.float32(400)
    rounded = np.zeros_like(kspace[:1])
    writes = [*named("simplefft"), *script(b"\x03\x00", xml)]
    for y in range(LINES):
        flags = peers.PACKED | (peers.LAST_IN_SLICE if y == LINES - 1 else 0)
        whole = np.rint(kspace[0, :, y].view(np.float32).ravel() * scale).astype(np.int64)
        assert abs(whole).max() < 2 ** (bits - 1)
        rounded[0, :, y] = (whole / scale).astype(np.float32).view(np.complex64).reshape(COILS, SAMPLES)
        stream = np.unpackbits((whole & 0xFFF).astype("<u2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")
        packed = np.packbits(stream[:, :bits].ravel(), bitorder="little").tobytes()
        block = struct.pack("<QfB", len(whole), scale, bits) + packed
        assert len(block) == 13 + len(whole) * bits // 8
        writes += [b"\xf0\x03", peers.readout_head(SAMPLES, COILS, y, 0, flags), struct.pack("<I", len(block)), block]
    client, _ = peers.play(server.address, [*writes, peers.CLOSE], peers.Gadgetron())
    assert client.texts == []
    check(client.images, rounded)


def test_a_connection_without_a_byte_is_no_error(server, kspace, xml):
    """The client's own race: about 1 in 20 connects, waits, sends nothing. The next one is served."""
    for _ in range(3):
        socket.create_connection(server.address, timeout=10).close()
    writes = [*named("simplefft"), *script(b"\x03\x00", xml), *peers.readouts(kspace[:1]), peers.CLOSE]
    check(peers.play(server.address, writes, peers.Gadgetron())[0].images, kspace[:1])
    assert server.process.poll() is None
