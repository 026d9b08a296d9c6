"""A step's function on the items of a file, without a server."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from ..hdf5 import Hdf5Scan
from ..header import Header, Sizes
from ..image import Image
from ..layout import LAST_IN_REPETITION, LAST_IN_SLICE, Array
from ..messages import Acquisition
from .items import CoilImages, Extents, Frame, Images, Item, KSpace, NormalEquations, Readouts, Samples, StepError
from .step import Kind, call, pair_of, with_config, _kind

_COUNTERS = ("slice", "contrast", "phase", "repetition", "set")
# Noise, calibration alone, navigators, phase correction, and other readouts that are no lines of an image.
_CALIBRATION, _CALIBRATION_AND_IMAGING = 1 << 19, 1 << 20
_NO_LINES = sum(1 << bit for bit in (18, *range(22, 24), *range(25, 29)))


def run_step(
    function: Callable[..., Any],
    path: Union[str, "os.PathLike[str]"],
    *,
    takes: Optional[Kind] = None,
    gives: Optional[Kind] = None,
    config: Any = None,
    group: str = "dataset",
) -> List[Item]:
    """Calls a function with the items of an ISMRMRD file, in this process, and returns what it gives, checked as the
    server does.

    Items are those of a pipeline without whitening: readouts of one frame at once, lines of k-space as `cartesian_kspace` places them, their transform
    by `fft`, samples with their trajectory in cycles/pixel and weights of 1 (in 2D, a third component of the trajectory
    is the weight), or images of the file. `takes` and `gives` are needed where the function has no decorator.
    """
    said = pair_of(function)
    if takes is not None and gives is not None:
        said = (_kind(takes), _kind(gives))
    if said is None:
        raise StepError("what the function takes and gives is not known: decorate it with @echotrain.step, or name both")
    step = with_config(function, config)
    return [result for item in _items(Hdf5Scan(path, group), said[0]) for result in call(step, item, said[1])]


def _items(scan: Hdf5Scan, kind: type[Item]) -> Iterator[Item]:
    header = Header.parse(scan.xml) if scan.xml.strip() else None
    if not scan.readouts:
        yield from _of_images(scan, header, kind)
        return
    if kind is NormalEquations:
        raise StepError("run_step makes no NormalEquations, which encoding and fhd make; run the pipeline with echotrain recon")
    if kind is Images:
        raise StepError(f"{scan.path} holds readouts; a step that takes Images needs a file of images")
    if header is None:
        raise StepError(f"{scan.path} has no header, which says how large its k-space is")
    common: Dict[str, Any] = {"header": header, "xml": scan.xml}
    for number, lines in enumerate(_frames(scan, by_flags=kind in (Readouts, Samples))):
        counters = {name: int(lines[0].head["idx"][name]) for name in _COUNTERS}
        frame = Frame(id=number, readouts=len(lines), reference=lines[0].head, **counters)
        meta: Dict[str, Any] = {}
        if kind is Readouts:
            yield _readouts(lines, {**common, "frame": frame})
            continue
        if kind is Samples:
            yield _samples(lines, header, {**common, "frame": frame, "meta": meta})
            continue
        kspace = _kspace(lines, header, {**common, "frame": frame, "meta": meta})
        yield kspace if kind is KSpace else CoilImages(_transformed(kspace), frame=frame, meta=meta, **common)


def _of_images(scan: Hdf5Scan, header: Optional[Header], kind: type[Item]) -> Iterator[Item]:
    if kind not in (Images, CoilImages):
        raise StepError(f"{scan.path} holds images; a step that takes {kind.__name__} needs a file of readouts")
    for number, image in enumerate(each for each in scan if isinstance(each, Image)):
        counters: Dict[str, Any] = {name: int(image.head[name]) for name in _COUNTERS}
        frame = Frame(id=number, **counters)
        common: Dict[str, Any] = {"frame": frame, "header": header, "xml": scan.xml, "meta": dict(image.meta)}
        if kind is Images:
            yield Images(_read_only(image.data), head=image.head, **common)
        else:
            yield CoilImages(_read_only(image.data.astype(np.complex64)), **common)


def _frames(scan: Hdf5Scan, by_flags: bool) -> Iterator[List[Acquisition]]:
    """The lines of each image: of equal counters; where the flags tell, also up to the last one in a slice."""
    frames: Dict[Tuple[int, ...], List[Acquisition]] = {}
    for readout in scan:
        if not isinstance(readout, Acquisition) or readout.flags & _NO_LINES:
            continue
        if readout.flags & _CALIBRATION and not readout.flags & _CALIBRATION_AND_IMAGING:
            continue
        if readout.head["encoding_space_ref"]:
            raise StepError(f"{scan.path} has several encodings, of which run_step makes no items")
        key = tuple(int(readout.head["idx"][name]) for name in _COUNTERS)
        frames.setdefault(key, []).append(readout)
        if by_flags and readout.flags & (LAST_IN_SLICE | LAST_IN_REPETITION):
            yield frames.pop(key)
    yield from frames.values()


def _kspace(lines: List[Acquisition], header: Header, common: Dict[str, Any]) -> KSpace:
    nx, ny, nz = header.matrix
    coils = lines[0].data.shape[0]
    data = np.zeros((coils, nz, ny, nx), np.complex64)
    hits = np.zeros((nz, ny), np.int64)
    offsets = [_offset(header, f"kspace_encode_step_{axis}", n) for axis, n in ((1, ny), (2, nz))]
    for line in lines:
        y, z = (int(line.head["idx"][f"kspace_encode_step_{axis + 1}"]) + offsets[axis] for axis in (0, 1))
        begin, end = int(line.head["discard_pre"]), line.data.shape[1] - int(line.head["discard_post"])
        x = 0 if end - begin == nx else nx // 2 - int(line.head["center_sample"]) + begin
        if not (0 <= y < ny and 0 <= z < nz and 0 <= x <= nx - (end - begin)):
            raise StepError(f"a readout of {end - begin} samples at line {y}, {z} does not fit the matrix {header.matrix}")
        data[:, z, y, x : x + end - begin] += line.data[:, begin:end]
        hits[z, y] += 1
    data /= np.maximum(hits, 1)[..., None].astype(np.float32)
    padded, image = _geometry(header)
    came = (hits > 0).astype(np.uint8)
    return KSpace(_read_only(data), padded=padded, image=image, lines=_read_only(came), **common)


def _readouts(lines: List[Acquisition], common: Dict[str, Any]) -> Readouts:
    trajectories = [line.trajectory for line in lines if line.trajectory is not None]
    return Readouts(
        _read_only(np.stack([line.data for line in lines])),
        heads=_read_only(np.array([line.head for line in lines])),
        trajectory=_read_only(np.stack(trajectories)) if len(trajectories) == len(lines) else None,
        first=True,
        last=True,
        **common,
    )


def _samples(lines: List[Acquisition], header: Header, common: Dict[str, Any]) -> Samples:
    dims = 3 if header.matrix[2] > 1 else 2
    if any(line.trajectory is None or line.trajectory.shape[1] < dims for line in lines):
        raise StepError(f"the file's readouts have no trajectory of {dims} dimensions, which Samples need")
    points = np.concatenate([line.trajectory for line in lines if line.trajectory is not None]).astype(np.float64)
    data = np.concatenate([line.data.T for line in lines])
    weights = points[:, dims] if points.shape[1] > dims else np.ones(len(points))
    return Samples(
        _read_only(np.ascontiguousarray(data)),
        weights=_read_only(weights.astype(np.float32)),
        coordinates=_read_only(np.ascontiguousarray(points[:, :dims])),
        image=_geometry(header)[1],
        **common,
    )


def _offset(header: Header, name: str, n: int) -> int:
    """From an encoding step to its row, with the centre at floor(n/2)."""
    low, high, center = header.limits.get(name, (0, n - 1, n // 2))
    offset = n // 2 - center
    return 0 if center == 0 and low + offset >= 0 and high + offset >= n > high else offset


def _geometry(header: Header) -> Tuple[Extents, Extents]:
    """[z, y, x] to transform with, and of the image cut from that."""
    recon: Sizes = header.recon_matrix or header.matrix
    fields = zip(recon, header.fov, header.recon_fov or header.fov, header.matrix)
    padded = [1 if n == m == 1 else max(int(n * fov / cut + 0.5), n) for n, fov, cut, m in fields]
    return (padded[2], padded[1], padded[0]), (recon[2], recon[1], recon[0])


def _transformed(kspace: KSpace) -> Array:
    data = kspace.data.astype(np.complex128) / np.prod(kspace.data.shape[1:])
    data = _resized(data, kspace.padded)
    axes = (1, 2, 3)
    images = np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(data, axes), axes=axes, norm="forward"), axes)
    return _read_only(np.ascontiguousarray(_resized(images, kspace.image).astype(np.complex64)))


def _resized(data: Array, extents: Extents) -> Array:
    """Cut, or filled up with zeros, about floor(n/2)."""
    for axis, (have, want) in enumerate(zip(data.shape[1:], extents), 1):
        begin = want // 2 - have // 2
        if begin >= 0:
            widths = [(0, 0)] * data.ndim
            widths[axis] = (begin, want - have - begin)
            data = np.pad(data, widths)
        else:
            data = np.take(data, range(-begin, want - begin), axis)
    return data


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
