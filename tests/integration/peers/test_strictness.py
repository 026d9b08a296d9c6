"""The clients that peers.py plays die of what the real ones die of."""

import io
import struct

import numpy as np
import pytest

import peers

TEXT = b"\x05\x00" + struct.pack("<I", 4) + b"hi\n\0"
ANSWER = b"\x07\x00" + struct.pack("<QQ", 1, 1) + b"b"
META = b"<ismrmrdMeta></ismrmrdMeta>"


def image(kind="<f4", columns=3, attributes=META):
    return b"".join(peers.image(np.zeros((2, columns), kind), attributes, series=1))


@pytest.mark.parametrize("client", [peers.Gadgetron, peers.Fire])
def test_what_is_right_is_read(client):
    read = client()
    read.read(io.BytesIO(TEXT + image() + image() + image(attributes=b"") + peers.CLOSE))
    assert read.texts == ["hi"] and [i.pixels.shape for i in read.images] == [(1, 1, 2, 3)] * 3


@pytest.mark.parametrize(
    "client, reply",
    [
        (peers.Gadgetron, b"\x03\x00" + struct.pack("<I", 1) + b"x"),  # a header
        (peers.Gadgetron, b"\x08\x00" + struct.pack("<Q", 1) + b"x"),
        (peers.Gadgetron, image() + image(columns=4)),
        (peers.Gadgetron, image() + TEXT),  # and no CLOSE
        (peers.Gadgetron, image()[:-1]),
        (peers.Gadgetron, b"\x05\x00" + struct.pack("<I", 0) + peers.CLOSE),
        (peers.Fire, ANSWER + peers.CLOSE),
        (peers.Fire, image() + image("<u2") + peers.CLOSE),
    ],
)
def test_what_kills_a_client_does(client, reply):
    with pytest.raises(peers.ClientDies):
        client().read(io.BytesIO(reply))


@pytest.mark.parametrize(
    "reply, error",
    [
        (image("<i4"), KeyError),
        (image(attributes=b"<ismrmrdMeta>"), SyntaxError),
        (b"\x05\x00" + struct.pack("<I", 2) + b"\xff\0", UnicodeDecodeError),
    ],
)
def test_what_the_fire_client_cannot_parse_kills_it(reply, error):
    with pytest.raises(error):
        peers.Fire().read(io.BytesIO(reply + peers.CLOSE))
