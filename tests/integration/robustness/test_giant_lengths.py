"""Lengths that claim far more than is sent: memory follows the bytes that came, and the client is told."""

import contextlib
import pathlib
import socket
import struct

import numpy as np
import pytest

import scans
import wire
from faulty_clients import KEEPS_NONE, Witness, talk
from programs import Server, ends_well
from vitals import wait_until

U16, U32, U64 = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
# What follows the head of a giant: enough that the thread, the stack and the 256 KiB scratch of a session weigh little.
BODY = bytes(1 << 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from ends_well(Server(tmp_path_factory.mktemp("giants"), "--backend", "cpu", "--session-memory-mib", 2048,
                                *KEEPS_NONE))  # fmt: skip


def text_head(message_id, n):
    return struct.pack("<HI", message_id, n)


def acquisition_head(**fields):
    nothing = struct.pack("<H", wire.ACQUISITION) + bytes(wire.ACQUISITION_HEAD.itemsize)
    return wire.changed(nothing, **{"version": 1, **fields})


def image_head(attributes=0, **fields):
    return wire.image(np.zeros((1, 1, 1, 1), "c16"), **fields)[:200] + struct.pack("<Q", attributes)


def waveform_head(samples, channels, version=1):
    return struct.pack("<HH6xQIIIHHfH2x", wire.WAVEFORM, version, 0, 1, 0, 0, samples, channels, 1.0, 0)


def compressed(flag, block_length, block=b"", samples=64, channels=2):
    head = acquisition_head(flags=1 << (flag - 1), number_of_samples=samples, active_channels=channels)
    return head + struct.pack("<I", block_length) + block


def packed_block(elements):
    return struct.pack("<QfB", elements, 1.0, 8) + bytes(256)


# (messages before it: none, the config, or the header as well; what claims too much; the code of the answer)
TOO_MUCH = {
    "config_file_without_end": ("", struct.pack("<H", wire.CONFIG_FILE) + b"x" * 1024, "bad-config"),
    "config_text": ("", text_head(wire.CONFIG_TEXT, U32), "bad-config"),
    "config_text_limit_plus_1": ("", text_head(wire.CONFIG_TEXT, (256 << 10) + 1), "bad-config"),
    "header": ("config", text_head(wire.HEADER, U32), "bad-header"),
    "header_limit_plus_1": ("config", text_head(wire.HEADER, (1 << 20) + 1), "bad-header"),
    "text_before_config": ("", text_head(wire.TEXT, U32), "too-large"),
    "text": ("header", text_head(wire.TEXT, U32), "too-large"),
    "query": ("", struct.pack("<HQQQ", wire.QUERY, 0, 1, U64), "bad-query"),
    "query_reserved": ("", struct.pack("<HQQQ", wire.QUERY, U64, 1, 4), "bad-query"),
    "response": ("header", struct.pack("<HQQ", wire.RESPONSE, 1, U64), "unknown-message"),
    "error": ("header", struct.pack("<HQ", 8, U64), "unknown-message"),
    "acquisition_samples": ("header", acquisition_head(number_of_samples=U16, active_channels=1024), "too-large"),
    "acquisition_channels": ("header", acquisition_head(number_of_samples=1, active_channels=U16), "too-large"),
    "acquisition_both": ("header", acquisition_head(number_of_samples=U16, active_channels=U16), "too-large"),
    "trajectory": ("header", acquisition_head(number_of_samples=U16, trajectory_dimensions=U16), "bad-trajectory"),
    "acquisition_version": ("header", acquisition_head(version=U16), "bad-version"),
    "compressed_1": ("header", compressed(53, U32), "compression"),
    "compressed_2": ("header", compressed(54, U32), "compression"),
    "compressed_3": ("header", compressed(55, 16), "compression"),
    "packed_elements": ("header", compressed(54, len(packed_block(0)), packed_block(U64)), "compression"),
    "packed_elements_wrapped": ("header", compressed(54, 269, packed_block(1 << 61)), "compression"),
    "zfp_sizes": ("header", compressed(53, 20, b"zfp\5" + b"\xff" * 16), "compression"),
    "waveform": ("header", waveform_head(U16, U16), "too-large"),
    "waveform_version": ("header", waveform_head(1, 1, version=U16), "bad-version"),
    "image_sizes": ("header", image_head(matrix_size=(U16, U16, U16), channels=U16), "too-large"),
    "image_2_to_the_32": ("header", image_head(matrix_size=(1 << 15, 1 << 15, 4)), "too-large"),
    "image_attributes": ("header", image_head(attributes=U64), "too-large"),
    "image_attributes_limit_plus_1": ("header", image_head(attributes=(16 << 20) + 1), "too-large"),
    "image_type": ("header", image_head(data_type=U16), "bad-image"),
    "image_of_nothing": ("header", image_head(matrix_size=(U16, 0, 1)), "bad-image"),
}

# Only the beginning comes of the largest message that is allowed.
LARGEST = {
    "config_text": ("", text_head(wire.CONFIG_TEXT, 256 << 10)),
    "header": ("config", text_head(wire.HEADER, 1 << 20)),
    "text": ("header", text_head(wire.TEXT, 1 << 20)),
    "acquisition": ("header", acquisition_head(number_of_samples=8192, active_channels=1024)),
    "trajectory": (
        "header",
        acquisition_head(number_of_samples=U16, active_channels=128, trajectory_dimensions=3),
    ),
    "compressed": ("header", compressed(54, (128 << 20) + 64, samples=8192, channels=1024)),
    "waveform": ("header", waveform_head(4096, 1024)),
    "image": ("header", image_head(matrix_size=(4096, 4096, 4), attributes=16 << 20)),
    "image_attributes": ("header", image_head(attributes=16 << 20)),
}


def lead(witness, before):
    return b"".join(witness.messages[: ("", "config", "header").index(before)])


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_is_refused(witness, name):
    before, message, code = TOO_MUCH[name]
    stream = lead(witness, before) + message + BODY
    witness.vitals.forget_peak()
    resident = witness.vitals.resident()
    reply = wire.parse(talk(witness.server.address, stream))
    grown = witness.vitals.peak() - resident
    assert len(reply.errors()) == 1 and reply.errors()[0].startswith(f"ERROR    {code}: "), reply.texts
    assert not reply.images
    assert grown < 10 * len(stream), f"{grown} bytes for {len(stream)} received"
    witness.scan_is_good()


@pytest.mark.parametrize("name", LARGEST)
def test_memory_follows_what_came(witness, name):
    """Sixteen clients that claim the most and send 192 KiB of it."""
    before, message = LARGEST[name]
    stream = lead(witness, before) + message + BODY[: 192 << 10]
    witness.vitals.forget_peak()
    resident = witness.vitals.resident()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(witness.server.address, 60)) for _ in range(16)]
        for client in clients:
            client.sendall(stream)
        wait_until(lambda: all(unread(client) == 0 for client in clients), what="the server to take everything")
        witness.scan_is_good()
        grown = witness.vitals.peak() - resident
        for client in clients:
            client.shutdown(socket.SHUT_WR)
        for client in clients:
            reply = wire.parse(b"".join(iter(lambda: client.recv(1 << 16), b"")))
            assert any("incomplete" in text for text in reply.texts), reply.texts
    received = len(clients) * len(stream)
    assert grown < 10 * received, f"{grown} bytes for {received} received"
    witness.at_rest()
    witness.scan_is_good()


def unread(client):
    """Bytes in the kernel that the server has not read yet, from the kernel's table of connections."""
    _, port = client.getsockname()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, _, queues, *_ = line.split()
        if remote.endswith(f":{port:04X}"):
            return int(queues.split(":")[1], 16)
    raise AssertionError("the connection is gone")


def test_a_giant_matrix_is_bounded_by_the_session_memory(tmp_path):
    """A header may announce 2^30 voxels; the first readout must not take their memory."""
    server = Server(tmp_path, "--backend", "cpu", "--session-memory-mib", 64, "--spare-memory-s", 0.5, *KEEPS_NONE)
    witness = Witness(server)
    line = wire.acquisition(np.ones((1, 4096), np.complex64), counter=0)
    xml = scans.header_xml("cartesian", (4096, 4096, 64), readouts=4096)
    witness.vitals.forget_peak()
    resident = witness.vitals.resident()
    reply = wire.parse(talk(server.address, b"".join([witness.messages[0], wire.header(xml), line, wire.close()])))
    assert len(reply.errors()) == 1 and "resources" in reply.errors()[0], reply.texts
    assert witness.vitals.peak() - resident < 96 << 20
    witness.recovers(16 << 20)
    assert server.stop() == 0
