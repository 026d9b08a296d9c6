"""Streams written by other people's software: the ismrmrd Python package, netcat, python-ismrmrd-server's habits."""

import io
import shutil
import socket
import subprocess
import threading

import pytest

import reference
import scans
import wire
from programs import Server, ends_well, variant

REPETITIONS, COILS, MATRIX = 2, 3, 48


@pytest.fixture(scope="module")
def kspace():
    return scans.random_kspace((REPETITIONS, COILS, MATRIX, MATRIX), seed=11)


@pytest.fixture(scope="module")
def scan(kspace):
    return scans.cartesian(kspace)


@pytest.fixture(scope="module")
def truth(kspace):
    return [reference.rss(reference.centred_fft(one, MATRIX)) for one in kspace]


@pytest.fixture(scope="module")
def default_server(tmp_path_factory):
    """For clients that name no pipeline."""
    yield from ends_well(Server(tmp_path_factory.mktemp("default"), "--default-pipeline", "cartesian_plain", "--backend",
                                "cpu"))  # fmt: skip


def check(images, truth):
    assert len(images) == len(truth)
    for image, expected in zip(images, truth):
        assert image.shape == (1, 1, MATRIX, MATRIX)
        assert reference.nrmse(image[0, 0], expected) <= 1e-5


def package_stream(kspace, config):
    """The scan as the ismrmrd package's own serializer writes it."""
    ismrmrd = pytest.importorskip("ismrmrd")
    serialization = pytest.importorskip("ismrmrd.serialization", reason="needs ismrmrd >= 1.14.2 from PyPI")
    stream = io.BytesIO()
    with serialization.ProtocolSerializer(stream) as writer:
        if config:
            if not hasattr(serialization, "ConfigFile"):
                pytest.skip("this ismrmrd package writes no config")
            writer.serialize(serialization.ConfigFile(config))
        writer.serialize(ismrmrd.xsd.CreateFromDocument(scans.cartesian(kspace).xml.encode()))
        for repetition in range(len(kspace)):
            for y in range(MATRIX):
                line = ismrmrd.Acquisition.from_array(kspace[repetition, :, y], center_sample=MATRIX // 2)
                line.idx.kspace_encode_step_1, line.idx.repetition = y, repetition
                if y == MATRIX - 1:
                    line.setFlag(ismrmrd.ACQ_LAST_IN_SLICE)
                writer.serialize(line)
    return stream.getvalue()


def package_images(stream):
    """The items that the package's deserializer reads up to CLOSE."""
    ismrmrd = pytest.importorskip("ismrmrd")
    serialization = pytest.importorskip("ismrmrd.serialization")
    items = list(serialization.ProtocolDeserializer(stream).deserialize())
    assert all(isinstance(item, (ismrmrd.Image, str)) for item in items)
    return [item for item in items if isinstance(item, ismrmrd.Image)]


@pytest.mark.parametrize("config", ["", "cartesian_plain"], ids=["default_pipeline", "named_config"])
def test_ismrmrd_package_over_a_socket(server, default_server, kspace, truth, config):
    data = package_stream(kspace, config)
    address = server.address if config else default_server.address
    with socket.create_connection(address, timeout=30) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        with connection.makefile("rb") as stream:
            images = package_images(stream)
            assert stream.read() == b"", "nothing may follow CLOSE"
        sender.join()
    check([image.data for image in images], truth)
    for repetition, image in enumerate(images):
        head = image.getHead()
        assert (head.repetition, head.image_index, head.image_series_index) == (repetition, repetition + 1, 1)
        assert list(head.matrix_size) == [MATRIX, MATRIX, 1]
        assert list(head.field_of_view) == [MATRIX, MATRIX, 1]
        assert image.meta["DataRole"] == "Image"


@pytest.mark.skipif(not shutil.which("nc"), reason="needs nc (netcat-openbsd)")
def test_netcat_and_a_half_close(default_server, tmp_path, kspace, truth):
    """`nc -N` shuts its sending side at the end of its input and reads on."""
    if "-N" not in subprocess.run(["nc", "-h"], capture_output=True, text=True).stderr:
        pytest.skip("needs the OpenBSD variant of nc")
    host, port = default_server.address
    (tmp_path / "scan.bin").write_bytes(package_stream(kspace, ""))
    with open(tmp_path / "scan.bin", "rb") as scan_file, open(tmp_path / "reply.bin", "wb") as reply_file:
        subprocess.run(["nc", "-N", host, str(port)], stdin=scan_file, stdout=reply_file, check=True, timeout=30)
    check([image.pixels for image in wire.parse((tmp_path / "reply.bin").read_bytes()).images], truth)
    with open(tmp_path / "reply.bin", "rb") as stream:
        check([image.data for image in package_images(stream)], truth)


@pytest.mark.parametrize("config", ["cartesian_plain", "invertcontrast", "simplefft"])
def test_config_names_and_aliases(server, scan, truth, config):
    """Names that stock clients send mean the plain Cartesian pipeline."""
    reply = wire.exchange(server.address, scan.stream(wire.config_file(config)))
    assert not reply.errors(), reply.errors()
    check([image.pixels for image in reply.images], truth)


def test_fire_padding(server, scan, truth):
    """python-ismrmrd-server counts a NUL at the end of every text; other writers leave garbage after the name's NUL."""
    xml = scan.xml.encode() + b"\0"
    note = wire.text(b'{"parameters": {"config": "cartesian_plain"}}\0')
    for config in (wire.config_file("cartesian_plain", b"\0"), wire.config_file("cartesian_plain", b"\xa5")):
        reply = wire.exchange(server.address, [config, wire.header(xml), note, *scan.messages, wire.close()])
        assert not reply.errors(), reply.errors()
        check([image.pixels for image in reply.images], truth)


@pytest.mark.parametrize("padding", [b"", b"\0", b"\0\0\0\0"])
def test_config_text_padding(server, scan, truth, padding):
    pipeline = variant("cartesian_plain", ("name: cartesian_plain", "name: mine"), ("backend: auto", "backend: cpu"))
    reply = wire.exchange(server.address, scan.stream(wire.config_text(pipeline.encode() + padding)))
    assert not reply.errors(), reply.errors()
    check([image.pixels for image in reply.images], truth)


def test_additional_config_replaces_the_name(server, scan, kspace):
    """FIRE's JSON text after the header may name another pipeline."""
    note = wire.text('{"parameters": {"config": "coils_2d"}}')
    messages = [wire.config_file("cartesian_plain"), wire.header(scan.xml), note, *scan.messages, wire.close()]
    reply = wire.exchange(server.address, messages)
    assert not reply.errors(), reply.errors()
    for one, image in zip(kspace, reply.images, strict=True):
        assert reference.nrmse(image.pixels[:, 0], reference.centred_fft(one, MATRIX)) <= 1e-5


def test_half_close_in_the_middle_is_told(server, scan):
    """A client that stops sending without CLOSE gets the whole frames, a text and CLOSE."""
    messages = [wire.config_file("cartesian_plain"), wire.header(scan.xml), *scan.messages[: MATRIX + 5]]
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(b"".join(messages))
        connection.shutdown(socket.SHUT_WR)
        reply = wire.parse(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    assert len(reply.images) == 1
    assert any("incomplete" in text for text in reply.texts), reply.texts
