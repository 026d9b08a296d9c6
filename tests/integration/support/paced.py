"""A scanner that sends a readout every few milliseconds, and how long after its last readout each image comes."""

import dataclasses
import re
import socket
import struct
import time

import numpy as np

import scans
import wire
from connection import sending

REPETITION_TIME_S = 0.003
GOLDEN_ANGLE = np.pi * (np.sqrt(5) - 1) / 2


@dataclasses.dataclass
class Paced:
    """The messages of a scan, and after which of its readouts (from 0) each image is due."""

    messages: list = dataclasses.field(repr=False)
    last_readouts: list = dataclasses.field(repr=False)


@dataclasses.dataclass
class Heard:
    reply: wire.Reply = dataclasses.field(repr=False)
    client_ms: list  # last readout given to the socket -> last byte of the image, per image
    server_ms: list  # last readout received -> image queued for sending, by the server's clock
    seconds: float

    def pixels(self):
        return [image.pixels for image in self.reply.images]

    def is_like(self, truth, exact=True):
        """Whether the images are those of another scan: bit by bit, or but for the order in which a GPU's atomics add. That
        order changes sums in single precision by some 1e-7 of the brightest pixel; 1e-5 is far below any lost readout."""
        pixels = self.pixels()
        if len(pixels) != len(truth):
            return False
        bound = 0 if exact else 1e-5
        return all(np.max(np.abs(a - b)) <= bound * np.max(np.abs(b)) for a, b in zip(pixels, truth, strict=True))


def real_time(frames, matrix=256, coils=16, window=55, stride=5):
    """Golden-angle spokes for radial_realtime, as `./run bench stream` sends them: an image after every `stride`."""
    rng = np.random.default_rng(1)
    count = window + (frames - 1) * stride
    angles, along = np.arange(count) * GOLDEN_ANGLE, (np.arange(2 * matrix) - matrix) / (2 * matrix)
    trajectory = along[None, :, None] * np.stack([np.cos(angles), np.sin(angles)], -1)[:, None, :]
    data = rng.standard_normal((count, coils, 2 * matrix, 2), np.float32).view(np.complex64)[..., 0]
    made = scans.non_cartesian("goldenangle", (matrix, matrix, 1), trajectory.astype(np.float32), data)
    known = f"<receiverChannels>{coils}</receiverChannels></acquisitionSystemInformation>"
    made.xml = made.xml.replace("</acquisitionSystemInformation>", known)
    messages = made.stream(wire.config_file("radial_realtime"))
    return Paced(messages, [window - 1 + i * stride for i in range(frames)])


def cine(kspace):
    """kspace: [repetition, coil, y, x]; an image after each repetition."""
    lines = kspace.shape[2]
    messages = scans.cartesian(kspace).stream(wire.config_file("cartesian_plain"))
    return Paced(messages, [lines * (i + 1) - 1 for i in range(len(kspace))])


def ends_of_images(data):
    """Where each image of a reply ends."""
    ends, at = [], 0
    while at < len(data):
        (message_id,) = struct.unpack_from("<H", data, at)
        at += 2
        if message_id == wire.TEXT:
            at += 4 + struct.unpack_from("<I", data, at)[0]
        elif message_id == wire.IMAGE:
            head = np.frombuffer(data, wire.IMAGE_HEAD, 1, at)[0]
            (attributes,) = struct.unpack_from("<Q", data, at + 198)
            voxels = int(np.prod(head["matrix_size"], dtype=np.int64)) * int(head["channels"])
            at += 206 + attributes + voxels * np.dtype(wire.PIXELS[int(head["data_type"])]).itemsize
            ends.append(at)
    return ends


def scan(address, paced, timeout_s=120):
    """Sends config and header at once, then a readout every REPETITION_TIME_S while it reads; CLOSE comes last."""
    sent, chunks = [], []
    began = time.monotonic()
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def pieces():
            yield b"".join(paced.messages[:2])
            start = time.monotonic()
            for i, message in enumerate(paced.messages[2:-1]):
                pause = start + i * REPETITION_TIME_S - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                sent.append(time.monotonic())
                yield message
            yield paced.messages[-1]

        with sending(connection, pieces(), timeout_s):
            while chunk := connection.recv(1 << 20):
                chunks.append((time.monotonic(), chunk))
    data = b"".join(chunk for _, chunk in chunks)
    reply = wire.parse(data)
    assert not reply.errors(), reply.texts
    assert len(reply.images) == len(paced.last_readouts), (len(reply.images), reply.texts)
    ends = ends_of_images(data)
    came = np.searchsorted(np.cumsum([len(chunk) for _, chunk in chunks]), ends)
    client = [1e3 * (chunks[c][0] - sent[last]) for c, last in zip(came, paced.last_readouts, strict=True)]
    server = [float(re.search("echotrain_latency_ms</name><value>([^<]*)<", i.attributes)[1]) for i in reply.images]
    return Heard(reply, client, server, time.monotonic() - began)
