"""Clients that are not ours, played from the bytes that they send, and as strict as they are about what they receive.

Written from descriptions of gadgetron_ismrmrd_client (GT) and python-ismrmrd-server's client (FIRE), by byte offsets
and without wire.py: what both had wrong alike would go unseen. A script is a list of writes, as the clients make them:
the id, the header and the samples of a message go separately, so that they arrive in any pieces.
"""

import dataclasses
import socket
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import scans
from connection import sending

LINES, SAMPLES, COILS, XML_BYTES = 32, 64, 2, 1323  # of the exchange whose bytes were counted at the real clients
LAST_IN_SLICE, FIRST_IN_SLICE, PACKED = 1 << 7, 1 << 6, 1 << 53
CLOSE = b"\x04\x00"


class ClientDies(AssertionError):
    """The server sent what the client does not survive."""


def readout_head(samples, channels, step=0, repetition=0, flags=0, dimensions=0, version=1):
    """The 340 bytes of a readout of libismrmrd's phantoms, which leave counters, times and directions zero."""
    head = bytearray(340)
    struct.pack_into("<HQ", head, 0, version, flags)
    struct.pack_into("<HHH", head, 34, samples, channels, channels)
    struct.pack_into("<H", head, 172, samples // 2)
    struct.pack_into("<H", head, 176, dimensions)
    struct.pack_into("<f", head, 178, 5.0)
    struct.pack_into("<H", head, 242, step)
    struct.pack_into("<H", head, 254, repetition)
    return bytes(head)


def readouts(kspace, version=1):
    """kspace: [repetition, coil, y, x]. The writes of all lines: id, header, samples."""
    writes = []
    for repetition, lines in enumerate(kspace):
        for y in range(lines.shape[1]):
            flags = FIRST_IN_SLICE * (y == 0) | LAST_IN_SLICE * (y == lines.shape[1] - 1)
            head = readout_head(lines.shape[2], lines.shape[0], y, repetition, flags, version=version)
            writes += [b"\xf0\x03", head, np.ascontiguousarray(lines[:, y], "<c8").tobytes()]
    return writes


def ecg(samples, channels=2):
    """The writes of a waveform: the padding of its header holds what was in memory."""
    head = bytearray(b"\xa5" * 40)
    struct.pack_into("<H", head, 0, 1)
    struct.pack_into("<QIIIHHf", head, 8, 0, 1, 0, 0, samples, channels, 2500.0)
    struct.pack_into("<H", head, 36, 0)
    return [b"\x02\x04", bytes(head), np.arange(samples * channels, dtype="<u4").tobytes()]


def image(plane, attributes, series=0, slice_number=0):
    """The writes of an image [y, x]: id, header, length of the attributes, attributes, pixels. Its image_type and index
    are 0."""
    head = bytearray(198)
    data_type = next(number for number, kind in Client.TYPES.items() if plane.dtype == kind)
    struct.pack_into("<HH", head, 0, 1, data_type)
    struct.pack_into("<3H3fH", head, 16, plane.shape[1], plane.shape[0], 1, 300, 300, 5, 1)
    struct.pack_into("<H", head, 98, slice_number)
    struct.pack_into("<H", head, 128, series)
    struct.pack_into("<I", head, 194, len(attributes))
    return [b"\xfe\x03", bytes(head), struct.pack("<Q", len(attributes)), attributes, plane.tobytes()]


@dataclasses.dataclass
class Image:
    head: bytes = dataclasses.field(repr=False)
    attributes: bytes
    pixels: np.ndarray  # [channel, z, y, x]

    def u16(self, offset):
        return struct.unpack_from("<H", self.head, offset)[0]


class Client:
    """Reads until CLOSE; `texts`, `answers` and `images` in their order."""

    TYPES = {1: "<u2", 2: "<i2", 3: "<u4", 4: "<i4", 5: "<f4", 6: "<f8", 7: "<c8", 8: "<c16"}
    ACCEPTS: set = set()

    def __init__(self):
        self.texts, self.answers, self.images = [], [], []

    def read(self, stream):
        def take(count):
            data = stream.read(count)
            if len(data) < count:
                raise ClientDies(f"the stream ended before CLOSE, {count - len(data)} bytes short")
            return data

        while True:
            (number,) = struct.unpack("<H", take(2))
            if number not in self.ACCEPTS:
                raise ClientDies(f"message id {number}")
            if number == 4:
                return
            if number == 5:
                self.texts.append(self.text(take(struct.unpack("<I", take(4))[0])))
            elif number == 7:
                correlation, count = struct.unpack("<QQ", take(16))
                self.answers.append((correlation, take(count)))
            else:
                head = take(198)
                attributes = take(struct.unpack("<Q", take(8))[0])
                data_type, (x, y, z), (channels,) = (
                    struct.unpack_from(form, head, at)[0 if form == "<H" else slice(None)]
                    for form, at in (("<H", 2), ("<3H", 16), ("<1H", 34))
                )
                kind = np.dtype(self.TYPES[data_type])
                pixels = np.frombuffer(take(x * y * z * channels * kind.itemsize), kind)
                self.accept(Image(head, attributes, pixels.reshape(channels, z, y, x)))

    def text(self, data):
        if not data:
            raise ClientDies("a TEXT without a byte")  # of the readers of streams
        return data.rstrip(b"\0\n").decode("utf-8")

    def accept(self, image):
        """Dies of two sizes, numbers of channels or types of pixels in one image_series_index."""
        for other in self.images:
            if other.u16(128) == image.u16(128) and (other.pixels.shape, other.pixels.dtype) != (
                image.pixels.shape,
                image.pixels.dtype,
            ):
                raise ClientDies(f"series {image.u16(128)} holds {other.pixels.shape} and {image.pixels.shape}")
        self.images.append(image)


class Gadgetron(Client):
    """Aborts, and leaves a broken file, on anything but images, texts, answers and CLOSE."""

    ACCEPTS = {4, 5, 7, 1022}


class Fire(Client):
    """Loses its receiver to answers it has not asked for, int32 pixels, and texts or attributes it cannot parse."""

    ACCEPTS = {4, 5, 1008, 1022, 1026}
    TYPES = {number: kind for number, kind in Client.TYPES.items() if number != 4}

    def accept(self, image):
        if image.attributes:
            ElementTree.fromstring(image.attributes.decode("utf-8"))
        super().accept(image)


def random_kspace(seed):
    """[frame, coil, line, sample]; the readout is oversampled twice."""
    return scans.random_kspace((2, COILS, LINES, SAMPLES), seed)


def header_xml(kspace):
    """Its header, as long as the one whose bytes were counted."""
    text = scans.header_xml("cartesian", (SAMPLES, LINES, 1), (SAMPLES // 2, LINES, 1), LINES, len(kspace))
    return text + f"<!--{' ' * (XML_BYTES - len(text) - 7)}-->"


def named(name):
    """CONFIG_FILE with the name in a field of zeros."""
    return [b"\x01\x00", name.encode().ljust(1024, b"\0")]


def play(address, writes, client):
    """Connects by IPv4, writes and reads at once, as both clients do. Returns the client, and how many bytes it sent."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sending(connection, writes), connection.makefile("rb") as stream:
            client.read(stream)
            rest = stream.read()
        assert rest == b"", f"{len(rest)} bytes after CLOSE"
    return client, sum(map(len, writes))
