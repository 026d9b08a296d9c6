"""Messages <-> bytes (docs/protocol.md). No sockets: `read_message` asks its caller for bytes."""

from __future__ import annotations

import struct
from typing import Any, Generator, NamedTuple, Union

import numpy as np

from .errors import ProtocolError, ScanError
from .image import Image
from .layout import IMAGE_TYPE, PIXEL_TYPES
from .messages import Acquisition, Waveform, from_ismrmrd

CONFIG_FILE, CONFIG_TEXT, HEADER, CLOSE, TEXT, QUERY, RESPONSE = 1, 2, 3, 4, 5, 6, 7
ACQUISITION, IMAGE, WAVEFORM = 1008, 1022, 1026

MOST_TEXT_BYTES = 16 << 20
MOST_PIXEL_BYTES = 4 << 30
_FOREIGN = {0x0315: "this port speaks TLS: connect with tls=True", 0x5448: "this is an HTTP server"}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Text(NamedTuple):
    level: str  # one of LEVELS
    text: str


class Response(NamedTuple):
    correlation_id: int
    text: str


class Close(NamedTuple):
    pass


Received = Union[Image, Text, Response, Close]


def encode_name(name: str) -> bytes:
    """The pipeline by its name."""
    field = name.encode("utf-8")
    if len(field) > 1023:
        raise ScanError("a pipeline's name has at most 1023 bytes")
    return struct.pack("<H1024s", CONFIG_FILE, field)


def _text(message_id: int, text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<HI", message_id, len(data)) + data


def encode_config(text: str) -> bytes:
    """A pipeline as text, or a token and a pipeline's name."""
    return _text(CONFIG_TEXT, text)


def encode_header(xml: str) -> bytes:
    return _text(HEADER, xml)


def encode_close() -> bytes:
    return struct.pack("<H", CLOSE)


def encode_query(name: str, correlation_id: int = 1) -> bytes:
    data = name.encode("utf-8")
    return struct.pack("<HQQQ", QUERY, 0, correlation_id, len(data)) + data


def encode(message: Any) -> bytes:
    """A readout, waveform or image, of this package or of the package ismrmrd."""
    if not isinstance(message, (Acquisition, Waveform, Image)):
        message = from_ismrmrd(message)
    if isinstance(message, Acquisition):
        points = b"" if message.trajectory is None else message.trajectory.tobytes()
        return struct.pack("<H", ACQUISITION) + message.head.tobytes() + points + message.data.tobytes()
    if isinstance(message, Waveform):
        return struct.pack("<H", WAVEFORM) + message.head.tobytes() + message.data.tobytes()
    attributes = message.attributes.encode("utf-8")
    head = message.head.copy()
    head["attribute_string_len"] = len(attributes)
    return b"".join(
        (
            struct.pack("<H", IMAGE),
            head.tobytes(),
            struct.pack("<Q", len(attributes)),
            attributes,
            np.ascontiguousarray(message.data).tobytes(),
        )
    )


def read_message() -> Generator[int, Union[bytes, bytearray], Received]:
    """Reads one message: yields how many bytes it needs next, receives them by send(), returns the message."""
    (message_id,) = struct.unpack("<H", (yield 2))
    if message_id == CLOSE:
        return Close()
    if message_id == TEXT:
        (n,) = struct.unpack("<I", (yield 4))
        return _split_level(_decode((yield _at_most(n, MOST_TEXT_BYTES, "a text")) if n else b""))
    if message_id == RESPONSE:
        correlation_id, n = struct.unpack("<QQ", (yield 16))
        return Response(correlation_id, _decode((yield _at_most(n, MOST_TEXT_BYTES, "an answer")) if n else b""))
    if message_id == IMAGE:
        head = np.frombuffer((yield IMAGE_TYPE.itemsize), IMAGE_TYPE)[0:1].copy().reshape(())
        (n,) = struct.unpack("<Q", (yield 8))
        attributes = _decode((yield _at_most(n, MOST_TEXT_BYTES, "the attributes of an image")) if n else b"")
        kind = PIXEL_TYPES.get(int(head["data_type"]))
        if kind is None:
            raise ProtocolError(f"the server sent an image of the unknown data type {int(head['data_type'])}")
        x, y, z = (int(size) for size in head["matrix_size"])
        shape = (int(head["channels"]), z, y, x)
        count = shape[0] * z * y * x
        n = _at_most(count * kind.itemsize, MOST_PIXEL_BYTES, "an image")
        pixels = (yield n) if n else b""
        writable = pixels if isinstance(pixels, bytearray) else bytearray(pixels)
        return Image(np.frombuffer(writable, kind).reshape(shape), head, attributes)
    hint = _FOREIGN.get(message_id, "is this an Echotrain server's port?")
    raise ProtocolError(f"the server sent a message of the unknown id {message_id}; {hint}")


def _at_most(n: int, most: int, what: str) -> int:
    if n > most:
        raise ProtocolError(f"the server announced {what} of {n} bytes; at most {most} are taken")
    return n


def _decode(data: Union[bytes, bytearray]) -> str:
    return bytes(data).split(b"\0", 1)[0].decode("utf-8", "replace")


def _split_level(line: str) -> Text:
    line = line.rstrip()
    level, _, rest = line.partition(" ")
    return Text(level, rest.strip()) if level in LEVELS else Text("INFO", line)
