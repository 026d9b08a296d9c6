"""Pictures as the clients write them."""

import struct
import zlib

import numpy as np


def read_png(path):
    """A grey 8-bit PNG, checked: signature, chunk checksums, size; returns pixels [y, x] with line filters undone."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, chunks = 8, b"", []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        chunks.append(kind)
        packed += body if kind == b"IDAT" else b""
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
        at += 12 + length
    assert chunks[0] == b"IHDR" and chunks[-1] == b"IEND"
    assert (depth, colour, interlaced) == (8, 0, 0)
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width + 1)
    pixels = np.zeros((height + 1, width + 1), int)  # a row and a column of zeros before the image
    for y, line in enumerate(lines.astype(int), 1):
        for x in range(1, width + 1):
            left, up, corner = pixels[y, x - 1], pixels[y - 1, x], pixels[y - 1, x - 1]
            guess = left + up - corner
            paeth = min((abs(guess - v), i, v) for i, v in enumerate((left, up, corner)))[2]
            pixels[y, x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[line[0]]) % 256
    return pixels[1:, 1:]
