"""Pictures: PNG files as the clients write them, and those of docs/pictures, which tests make anew and compare.

`ECHOTRAIN_PICTURES=docs ./run test -R 'integration.(pictures|tutorials|pages)'` writes those that are no longer alike.
Whether an image is right is for other tests: here somebody is told that a page shows another image than its step gives.
"""

import os
import struct
import zlib

import numpy as np

import reference
from programs import SOURCE

SIZE = 128  # of a panel's smaller side, at least: smaller images are enlarged by whole numbers
GAP = 4
# Relative to the whole picture. Backends differ by 1e-4 (direct) to 1e-2 (iterative) of an image, which moves few voxels
# by one of the 64 greys (1.6e-2 of white); in an image that an eye tells apart from this one, most voxels move.
TOLERANCE = 0.02


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
        if line[0] == 0:
            pixels[y, 1:] = line[1:]
            continue
        for x in range(1, width + 1):
            left, up, corner = pixels[y, x - 1], pixels[y - 1, x], pixels[y - 1, x - 1]
            guess = left + up - corner
            paeth = min((abs(guess - v), i, v) for i, v in enumerate((left, up, corner)))[2]
            pixels[y, x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[line[0]]) % 256
    return pixels[1:, 1:]


def greys(image):
    """0..1 in 64 greys of 0..255: about as many as the eye tells apart, so that noise compresses well."""
    return (np.round(np.clip(image, 0, 1) * 63) * (255 / 63)).astype(np.uint8)


def write_png(path, image):
    """`image`: 0..1 [y, x]."""
    rows = greys(image)
    height, width = rows.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def panel(plane, low=0.0, high=None):
    """0..1 of a plane [y, x], or of its magnitudes; `high` becomes white (default: the 99.5th percentile)."""
    plane = np.abs(plane) if np.iscomplexobj(plane) else np.asarray(plane, float)
    high = np.percentile(plane, 99.5) if high is None else high
    return np.kron(np.clip((plane - low) / (high - low), 0, 1), np.ones([-(-SIZE // min(plane.shape))] * 2))


def brain(plane):
    """The plane as a window for what is inside the phantom's skull shows it: the skull is more than twice as bright."""
    return np.minimum(plane, 0.45 * plane.max())


def tiles(planes):
    """One plane of four, two by two: of these, at equal distances."""
    four = [planes[int((i + 0.5) * len(planes) / 4)] for i in range(4)]
    return np.block([four[:2], four[2:]])


def require_picture(name, *panels):
    """These panels, side by side, are docs/pictures/NAME.png."""
    gap = np.ones((len(panels[0]), GAP))
    made = np.hstack([part for each in panels for part in (gap, each)][1:])
    path, folder = SOURCE / "docs" / "pictures" / f"{name}.png", os.environ.get("ECHOTRAIN_PICTURES")
    error = np.inf
    if path.exists() and (kept := read_png(path)).shape == made.shape:
        error = reference.nrmse(greys(made).astype(float), kept)
    if folder and error > TOLERANCE:
        path = SOURCE / folder / "pictures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_png(path, made)
        return
    assert error <= TOLERANCE, f"{path} shows another image (NRMSE {error:.3g}); ECHOTRAIN_PICTURES=docs writes it anew"
