"""Grey pictures of images, and PNG files, with nothing but numpy and zlib."""

from __future__ import annotations

import struct
import zlib
from typing import Optional, Tuple

import numpy as np

from .layout import Array

Window = Tuple[float, float]


def shown(pixels: Array) -> Array:
    """The values that a picture shows of pixels: the magnitude of complex ones, others as they are; float64."""
    return np.asarray(np.abs(pixels) if np.iscomplexobj(pixels) else pixels, np.float64)


def window_of(values: Array, image_type: str) -> Window:
    """The values that become black and white: 0 to the 99.5th percentile, symmetric for values with a sign."""
    if image_type == "phase":
        return -np.pi, np.pi
    finite = np.abs(values[np.isfinite(values)])
    high = float(np.percentile(finite, 99.5)) if finite.size else 0.0
    if high <= 0:
        high = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return (-high if image_type in ("real", "imaginary") else 0.0), high


def mosaic(planes: Array) -> Array:
    """Planes [plane, y, x] side by side in a grid as square as can be: [y, x]. Empty places are 0."""
    count, height, width = planes.shape
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width), planes.dtype)
    grid[:count] = planes
    return grid.reshape(rows, columns, height, width).transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def to_grey(values: Array, window: Window) -> Array:
    """uint8 of the values' shape; values outside the window are clamped, NaN becomes 0."""
    low, high = window
    scaled = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    grey: Array = np.rint(np.clip(scaled, 0, 1) * 255).astype(np.uint8)
    return grey


def picture(data: Array, image_type: str, window: Optional[Window] = None) -> Array:
    """uint8 [y, x] of data [channel, z, y, x]; several planes as a mosaic."""
    values = shown(data).reshape(-1, *data.shape[-2:])
    return to_grey(mosaic(values), window or window_of(values, image_type))


def png(grey: Array) -> bytes:
    """uint8 [y, x] as a PNG file (PNG specification, 3rd edition: 8-bit greyscale, no filter)."""
    height, width = grey.shape

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    lines = np.zeros((height, width + 1), np.uint8)  # the first byte of a line names its filter: 0, none
    lines[:, 1:] = grey
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
            chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)),
            chunk(b"IEND", b""),
        )
    )
