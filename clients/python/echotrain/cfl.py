"""BART's files: NAME.hdr with the sizes, NAME.cfl with complex64 values, first index fastest."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, Iterable, Optional, Tuple, Union

import numpy as np

from .errors import ScanError, StackError
from .image import Image
from .layout import Array
from .stack import stack

PathLike = Union[str, "os.PathLike[str]"]

# The dimensions of BART's that a scan can have, by number (src/misc/mri.h); all others must be 1.
_COUNTERS = {5: "contrast", 10: "repetition", 11: "phase", 13: "slice", 14: "average"}


def is_cfl(path: PathLike) -> bool:
    """True if NAME, NAME.cfl or NAME.hdr is one of BART's pairs."""
    base = _base(path)
    return base.with_name(base.name + ".hdr").is_file() and base.with_name(base.name + ".cfl").is_file()


def _base(path: PathLike) -> pathlib.Path:
    plain = pathlib.Path(path)
    return plain.with_suffix("") if plain.suffix in (".cfl", ".hdr") else plain


def read_cfl(path: PathLike) -> Array:
    """The array, in BART's order of dimensions, without trailing ones. Mapped from the file, not read at once."""
    base = _base(path)
    header, values = (base.with_name(base.name + end) for end in (".hdr", ".cfl"))
    try:
        lines = header.read_text().splitlines()
    except OSError as error:
        raise ScanError(f"{header}: {error.strerror}") from None
    try:
        at = next(i for i, line in enumerate(lines) if line.strip() == "# Dimensions")
        dims = [int(n) for n in lines[at + 1].split()]
    except (StopIteration, IndexError, ValueError):
        raise ScanError(f"{header}: no line of numbers after '# Dimensions'") from None
    while len(dims) > 1 and dims[-1] == 1:
        dims.pop()
    want = 8 * int(np.prod(dims, dtype=object))
    try:
        have = values.stat().st_size
    except OSError as error:
        raise ScanError(f"{values}: {error.strerror}") from None
    if min(dims) < 1 or want != have:
        raise ScanError(f"{values}: has {have} bytes, but the sizes {dims} in the .hdr file make {want}")
    return np.memmap(values, "<c8", "r", shape=tuple(dims), order="F")


def write_cfl(path: PathLike, array: Any) -> None:
    """Writes complex64 NAME.cfl and NAME.hdr, index by index as the array has them."""
    base = _base(path)
    values: Array = np.asarray(array, "<c8")
    sizes = _padded(values).shape
    base.with_name(base.name + ".hdr").write_text("# Dimensions\n" + " ".join(map(str, sizes)) + "\n")
    base.with_name(base.name + ".cfl").write_bytes(values.tobytes(order="F"))


def save_cfl(images: Iterable[Image], path: PathLike) -> None:
    """Images as one BART pair [x, y, z, channel, ...], counters in the dimensions that from_bart() takes them from."""
    all_images = list(images)
    names = [name for name in _COUNTERS.values() if len({int(image.head[name]) for image in all_images}) > 1]
    array = stack(all_images, by=names) if names else stack(all_images)[0]
    if not names and len(all_images) > 1:
        raise StackError("images have the same counters; write each on its own")
    dimensions = {name: number for number, name in _COUNTERS.items()}
    out = array.transpose([len(names) + 3, len(names) + 2, len(names) + 1, len(names), *range(len(names))])
    shape = [*out.shape[:4], *([1] * 12)]
    for name, count in zip(names, out.shape[4:]):
        shape[dimensions[name]] = count
    write_cfl(path, out.reshape(shape))


def _padded(values: Array) -> Array:
    return values.reshape(values.shape + (1,) * (16 - values.ndim))


def from_bart(kspace: Array, trajectory: Optional[Array] = None) -> Tuple[Array, Optional[Array], Dict[str, Any]]:
    """k-space, trajectory and options for ArrayReadouts.

    kspace: [x, y, z, coil, ...], or with a trajectory [1, sample, line, coil, ...]; dimensions 5, 10, 11, 13, 14 are
    contrast, repetition, phase, slice and average. trajectory: [3, sample, line, ...] in 1/FOV; one whose
    third component is always 0 is 2D. BART's images of non-Cartesian data differ by a scale factor.
    """
    kspace = _padded(kspace)
    names = ["sample", "line", "partition", "coil"] if trajectory is None else ["", "sample", "line", "coil"]
    axes = names + [_COUNTERS.get(number, "") for number in range(4, 16)]
    for number, (name, n) in enumerate(zip(axes, kspace.shape)):
        if not name and n != 1:
            raise ScanError(f"BART's dimension {number} has size {n}; a scan cannot have it")
    needed = [i for i, name in enumerate(axes) if name in names[:4] and name or kspace.shape[i] > 1]
    order = [i for i in needed if i >= 4] + [i for i in (3, 2, 1, 0) if i in needed]
    data = kspace.transpose(order + [i for i in range(16) if i not in order]).reshape([kspace.shape[i] for i in order])
    options: Dict[str, Any] = {"axes": [axes[i] for i in order]}
    if trajectory is None:
        return data, None, options
    points = _padded(np.asarray(trajectory).real)
    if points.shape[0] != 3:
        raise ScanError(f"BART's trajectory is [3, sample, line], not of shape {trajectory.shape}")
    leading = [i for i in order if i >= 4]
    extra = [i for i in range(3, 16) if i not in leading]
    if any(points.shape[i] != 1 for i in extra):
        raise ScanError(f"the trajectory of shape {trajectory.shape} has dimensions that k-space does not have")
    points = points.transpose(leading + extra + [2, 1, 0])
    points = points.reshape([*points.shape[: len(leading)], *points.shape[-3:]])
    if not np.any(points[..., 2]):
        points = points[..., :2]
    if all(n == 1 for n in points.shape[:-3]):
        points = points.reshape(points.shape[-3:])
    options["trajectory_unit"] = "cycles_per_fov"
    return data, points, options
