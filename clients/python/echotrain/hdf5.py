"""ISMRMRD HDF5 files, in libismrmrd's layout: GROUP/xml, GROUP/data, GROUP/waveforms,
GROUP/<series>/{data,header,attributes}."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Union

import h5py
import numpy as np

from .errors import ScanError
from .image import Image
from .layout import ACQUISITION_TYPE, IMAGE_TYPE, WAVEFORM_TYPE, Array, same_fields
from .messages import Acquisition, Message, Waveform

PathLike = Union[str, "os.PathLike[str]"]

_ROWS = 64  # readouts read at a time


class Hdf5Scan:
    """A file's header and, one after another, what it holds: readouts and the waveforms between them, or images."""

    def __init__(self, path: PathLike, group: str = "dataset") -> None:
        self.path, self.group = os.fspath(path), group.strip("/")
        with self._open() as file:
            found = file.get(self.group)
            if not isinstance(found, h5py.Group):
                groups = _groups(file)
                raise ScanError(
                    f"{self.path}: has no group '{self.group}'; "
                    + (f"it has: {', '.join(groups)}" if groups else "it holds no ISMRMRD data at all")
                )
            self.readouts = _length(found, "data")
            self.waveforms = _length(found, "waveforms")
            self.series = {name: len(found[name]["header"]) for name in sorted(found) if _is_series(found[name])}
            xml = found["xml"][0] if "xml" in found else ""
            self.xml: str = xml.decode("utf-8") if isinstance(xml, bytes) else str(xml)
        if not (self.readouts or any(self.series.values())):
            raise ScanError(f"{self.path}: group '{self.group}' holds neither readouts nor images")

    def __len__(self) -> int:
        return self.readouts

    def _open(self) -> h5py.File:
        try:
            return h5py.File(self.path, "r")
        except OSError as error:
            if not os.path.exists(self.path):
                raise ScanError(f"{self.path}: there is no such file") from None
            raise ScanError(f"{self.path}: cannot be read as HDF5: {error}") from None

    def __iter__(self) -> Iterator[Message]:
        with self._open() as file:
            group = file[self.group]
            if not self.readouts:
                yield from _images(group, self.series)
                return
            waveforms = self._waveforms(group)
            waiting = next(waveforms, None)
            for readout in self._acquisitions(group):
                while waiting is not None and waiting.head["time_stamp"] <= readout.head["acquisition_time_stamp"]:
                    yield waiting
                    waiting = next(waveforms, None)
                yield readout
            if waiting is not None:
                yield waiting
                yield from waveforms

    def _acquisitions(self, group: h5py.Group) -> Iterator[Acquisition]:
        for begin in range(0, self.readouts, _ROWS):
            rows = group["data"][begin : begin + _ROWS]
            heads = same_fields(rows["head"], ACQUISITION_TYPE)
            for at, head in enumerate(heads):
                where = f"{self.path}: readout {begin + at}"
                data = _complex(rows["data"][at], (int(head["active_channels"]), int(head["number_of_samples"])), where)
                dimensions = int(head["trajectory_dimensions"])
                points: Optional[Array] = None
                if dimensions:
                    shape = (int(head["number_of_samples"]), dimensions)
                    points = np.asarray(rows["traj"][at], np.float32)
                    if points.size != shape[0] * shape[1]:
                        raise ScanError(f"{where}: its trajectory has {points.size} values, but its head says {shape}")
                    points = points.reshape(shape)
                yield Acquisition.from_head(heads[at : at + 1].reshape(()), data, points)

    def _waveforms(self, group: h5py.Group) -> Iterator[Waveform]:
        for begin in range(0, self.waveforms, _ROWS):
            rows = group["waveforms"][begin : begin + _ROWS]
            heads = same_fields(rows["head"], WAVEFORM_TYPE)
            for at, head in enumerate(heads):
                shape = (int(head["channels"]), int(head["number_of_samples"]))
                values = np.asarray(rows["data"][at], np.uint32)
                if values.size != shape[0] * shape[1]:
                    raise ScanError(
                        f"{self.path}: waveform {begin + at} has {values.size} values, but its head says {shape}"
                    )
                yield Waveform.from_head(heads[at : at + 1].reshape(()), values.reshape(shape))


def _complex(values: Any, shape: Any, where: str) -> Array:
    real = np.ascontiguousarray(values, np.float32)
    if real.size != 2 * shape[0] * shape[1]:
        raise ScanError(f"{where}: it has {real.size} values, but its head says {shape[0]} coils x {shape[1]} samples")
    return real.view(np.complex64).reshape(shape)


def _length(group: h5py.Group, name: str) -> int:
    found = group.get(name)
    return len(found) if isinstance(found, h5py.Dataset) and found.dtype.names and found.ndim else 0


def _is_series(found: Any) -> bool:
    return isinstance(found, h5py.Group) and "data" in found and "header" in found


def _groups(file: h5py.File) -> List[str]:
    names: List[str] = []

    def visit(name: str, found: Any) -> None:
        if isinstance(found, h5py.Group) and (_length(found, "data") or any(_is_series(v) for v in found.values())):
            names.append(name)

    file.visititems(visit)
    return names


def _images(group: h5py.Group, series: Dict[str, int]) -> Iterator[Image]:
    for name, count in series.items():
        source = group[name]
        for at in range(count):
            head = same_fields(source["header"][at : at + 1].reshape(()), IMAGE_TYPE)
            pixels = source["data"][at]
            if pixels.dtype.names:  # complex as a pair; its names differ between writers
                real, imaginary = (pixels[part] for part in pixels.dtype.names)
                pixels = np.asarray(real + 1j * imaginary, np.complex64 if real.dtype == np.float32 else np.complex128)
            text = source["attributes"][at] if "attributes" in source else ""
            text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            yield Image(pixels, head, text.rstrip("\0"))


def read_images(path: PathLike, group: str = "dataset") -> List[Image]:
    """All images of a file, series by series."""
    scan = Hdf5Scan(path, group)
    with h5py.File(scan.path, "r") as file:
        return list(_images(file[scan.group], scan.series))


class ImageFile:
    """An ISMRMRD HDF5 file to which images are added as they come; whole and readable after each one.

    A context manager. One image series holds images of one shape and type.
    """

    def __init__(self, path: PathLike, xml: str = "", group: str = "dataset") -> None:
        self._file = h5py.File(os.fspath(path), "w")
        self._group = self._file.create_group(group)
        if xml:
            self._group.create_dataset("xml", data=[xml], dtype=h5py.string_dtype(), maxshape=(None,))

    def append(self, image: Image) -> None:
        name = f"image_{image.series}"
        pixels, text = image.data, h5py.string_dtype()
        if name not in self._group:
            made = self._group.create_group(name)
            # libismrmrd's names for the parts of complex pixels.
            part = {"complex64": "<f4", "complex128": "<f8"}.get(pixels.dtype.name)
            kind = np.dtype([("real", part), ("imag", part)]) if part else pixels.dtype
            made.create_dataset(
                "data", (0, *pixels.shape), kind, maxshape=(None, *pixels.shape), chunks=(1, *pixels.shape)
            )
            made.create_dataset("header", (0,), IMAGE_TYPE, maxshape=(None,), chunks=(64,))
            made.create_dataset("attributes", (0,), text, maxshape=(None,), chunks=(64,))
        series = self._group[name]
        at = len(series["header"])
        if series["data"].shape[1:] != pixels.shape:
            raise ScanError(
                f"series {image.series} holds images {series['data'].shape[1:]}, this one is {pixels.shape}"
            )
        for part in ("data", "header", "attributes"):
            series[part].resize(at + 1, axis=0)
        head = image.head.copy()
        head["attribute_string_len"] = len(image.attributes.encode("utf-8"))
        stored = np.ascontiguousarray(pixels)
        series["data"][at] = (
            stored.view(series["data"].dtype).reshape(pixels.shape) if series["data"].dtype.names else stored
        )
        series["header"][at] = head[()]
        series["attributes"][at] = image.attributes
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ImageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_images(path: PathLike, images: Any, xml: str = "") -> None:
    """Images as an ISMRMRD HDF5 file, replacing what is there."""
    with ImageFile(path, xml) as file:
        for image in images:
            file.append(image)


def write_scan(path: PathLike, scan: Any, group: str = "dataset") -> int:
    """A Scan of readouts (from_array(), make_scan()) as an ISMRMRD HDF5 file, replacing what is there; how many."""
    numbers = h5py.vlen_dtype(np.dtype("<f4"))
    kind = np.dtype([("head", ACQUISITION_TYPE), ("traj", numbers), ("data", numbers)])
    count = 0
    with h5py.File(os.fspath(path), "w") as file:
        made = file.create_group(group)
        made.create_dataset("xml", data=[scan.xml], dtype=h5py.string_dtype(), maxshape=(None,))
        data = made.create_dataset("data", (0,), kind, maxshape=(None,), chunks=(_ROWS,))
        rows = np.zeros(_ROWS, kind)
        filled = 0
        for readout in scan.items:
            if not isinstance(readout, Acquisition):
                raise ScanError(f"write_scan() takes readouts, not {type(readout).__name__}")
            rows[filled]["head"] = readout.head
            rows[filled]["traj"] = np.zeros(0, "<f4") if readout.trajectory is None else readout.trajectory.ravel()
            rows[filled]["data"] = readout.data.view(np.float32).ravel()
            filled += 1
            if filled == _ROWS:
                count = _extend(data, rows, count)
                filled = 0
        count = _extend(data, rows[:filled], count)
    return count


def _extend(data: h5py.Dataset, rows: Array, count: int) -> int:
    data.resize(count + len(rows), axis=0)
    data[count:] = rows
    return count + len(rows)
