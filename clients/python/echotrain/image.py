"""An image with what is known about it."""

from __future__ import annotations

import base64
import html
import os
import pathlib
from typing import Any, Dict, List, Optional, Union
from xml.sax.saxutils import escape

import numpy as np

from . import picture as pictures
from .errors import ScanError
from .header import parse_xml
from .layout import IMAGE_COUNTERS, IMAGE_TYPE, PIXEL_TYPES, Array
from .nifti import save_nifti

Meta = Dict[str, Union[str, List[str]]]

IMAGE_TYPES = {0: "magnitude", 1: "magnitude", 2: "phase", 3: "real", 4: "imaginary", 5: "complex", 6: "rgb"}


class Image:
    """`data` is [channel, z, y, x]; `head` a numpy record with libismrmrd's fields; `meta` the attributes.

    Geometry is ISMRMRD's: `position` is that of the centre voxel (index floor(n/2) on each axis, docs/conventions.md),
    in mm, in patient coordinates: x to the left, y to the back, z to the head (LPS); `read_dir`, `phase_dir` and
    `slice_dir` are the directions of x, y and z.
    """

    def __init__(self, data: Any, head: Optional[Array] = None, attributes: str = "", **fields: Any) -> None:
        """`data`: up to four axes, the last being x. `fields`: any field of the head (slice=3, ...)."""
        values = np.asarray(data)
        if not 1 <= values.ndim <= 4:
            raise ScanError(f"an image is [channel, z, y, x], not of shape {values.shape}")
        self.data: Array = values.reshape((1,) * (4 - values.ndim) + values.shape)
        self.attributes = attributes
        kind = next((code for code, known in PIXEL_TYPES.items() if known == self.data.dtype.newbyteorder("<")), None)
        if kind is None:
            raise ScanError(f"pixels of type {values.dtype} cannot be sent; use one of: {', '.join(_names())}")
        if head is None:
            head = np.zeros((), IMAGE_TYPE)
            head["image_index"] = head["image_series_index"] = 1
            head["image_type"] = 5 if np.iscomplexobj(values) else 1
            head["read_dir"], head["phase_dir"], head["slice_dir"] = (1, 0, 0), (0, 1, 0), (0, 0, 1)
            head["field_of_view"] = self.data.shape[:0:-1]
        for name, value in fields.items():
            if name not in (IMAGE_TYPE.names or ()):
                raise TypeError(f"an image has no field '{name}'; it has: {', '.join(IMAGE_TYPE.names or ())}")
            head[name] = value
        head["version"], head["data_type"] = 1, kind
        head["channels"], head["matrix_size"] = self.data.shape[0], self.data.shape[:0:-1]
        self.head: Array = head
        self._meta: Optional[Meta] = None

    # --- what the head says ---

    @property
    def index(self) -> int:
        """Number of the image in its series, from 1."""
        return int(self.head["image_index"])

    @property
    def series(self) -> int:
        return int(self.head["image_series_index"])

    @property
    def image_type(self) -> str:
        """magnitude, phase, real, imaginary, complex or rgb."""
        return IMAGE_TYPES.get(int(self.head["image_type"]), "magnitude")

    @property
    def slice(self) -> int:
        return int(self.head["slice"])

    @property
    def contrast(self) -> int:
        return int(self.head["contrast"])

    @property
    def phase(self) -> int:
        return int(self.head["phase"])

    @property
    def repetition(self) -> int:
        return int(self.head["repetition"])

    @property
    def set(self) -> int:
        return int(self.head["set"])

    @property
    def average(self) -> int:
        return int(self.head["average"])

    @property
    def acquisition_time_stamp(self) -> int:
        """The scanner's clock at the frame's first readout; its unit is the scanner's (Siemens: 2.5 ms)."""
        return int(self.head["acquisition_time_stamp"])

    @property
    def physiology_time_stamp(self) -> Array:
        return self._three("physiology_time_stamp")

    @property
    def field_of_view(self) -> Array:
        """[x, y, z] in mm."""
        return self._three("field_of_view")

    @property
    def voxel_size(self) -> Array:
        """[x, y, z] in mm."""
        size: Array = self.field_of_view / np.asarray(self.data.shape[:0:-1])
        return size

    @property
    def position(self) -> Array:
        """Position of the centre voxel, [x, y, z] in mm, LPS."""
        return self._three("position")

    @property
    def read_dir(self) -> Array:
        return self._three("read_dir")

    @property
    def phase_dir(self) -> Array:
        return self._three("phase_dir")

    @property
    def slice_dir(self) -> Array:
        return self._three("slice_dir")

    def _three(self, name: str) -> Array:
        return np.asarray(self.head[name], np.float64)

    @property
    def affine(self) -> Array:
        """4 x 4: voxel (x, y, z) -> mm in RAS (right, front, head: NIfTI's), from the LPS geometry of the head.

        Directions that are not given (all zero) count as x, y and z.
        """
        directions = np.stack([self.read_dir, self.phase_dir, self.slice_dir], axis=1)
        directions = np.where(np.any(directions != 0, axis=0), directions, np.eye(3))
        result = np.eye(4)
        result[:3, :3] = directions * self.voxel_size
        result[:3, 3] = self.position - result[:3, :3] @ (np.asarray(self.data.shape[:0:-1]) // 2)
        result[:2] *= -1  # left and back become right and front
        return result + 0.0  # no negative zeros

    @property
    def meta(self) -> Meta:
        """The attributes: name -> text, or a list where a name has several values. Empty where they are not XML."""
        if self._meta is None:
            self._meta = _read_meta(self.attributes)
        return self._meta

    def set_meta(self, meta: Meta) -> None:
        """Replaces the attributes."""
        lines = ['<?xml version="1.0" encoding="UTF-8"?>\n<ismrmrdMeta>']
        for name, value in meta.items():
            values = [value] if isinstance(value, str) else value
            texts = "".join(f"<value>{escape(str(one))}</value>" for one in values)
            lines.append(f"<meta><name>{escape(name)}</name>{texts}</meta>")
        self.attributes = "\n".join([*lines, "</ismrmrdMeta>\n"])
        self._meta = None

    # --- as something else ---

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        """numpy.asarray(image): the pixels [channel, z, y, x]."""
        return np.array(self.data, dtype=dtype) if copy else np.asarray(self.data, dtype=dtype)

    def picture(self, window: Optional[pictures.Window] = None) -> Array:
        """Grey levels uint8 [y, x]: magnitude of complex pixels, several channels or planes as a mosaic.

        `window`: the values that become black and white (default: 0 and the 99.5th percentile; for phase -pi and pi).
        """
        return pictures.picture(self.data, self.image_type, window)

    def png(self, window: Optional[pictures.Window] = None) -> bytes:
        """picture() as a PNG file."""
        return pictures.png(self.picture(window))

    def save_png(self, path: Union[str, os.PathLike[str]], window: Optional[pictures.Window] = None) -> None:
        pathlib.Path(path).write_bytes(self.png(window))

    def save_nifti(self, path: Union[str, os.PathLike[str]]) -> None:
        """As a NIfTI-1 file (.nii or .nii.gz). For many images in one file: echotrain.save_nifti()."""
        save_nifti([self], path)

    def to_ismrmrd(self) -> Any:
        """As an `ismrmrd.Image` (needs the package ismrmrd)."""
        import ismrmrd

        result = ismrmrd.Image(self.head.tobytes())
        if self.attributes:
            result.attribute_string = self.attributes
        result.data[:] = self.data
        return result

    def _repr_png_(self) -> bytes:
        return self.png()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode("ascii")
        rows = "".join(
            f"<tr><td>{html.escape(k)}</td><td>{html.escape(str(v))}</td></tr>" for k, v in self.meta.items()
        )
        return (
            f'<div><img style="min-width: 256px; image-rendering: pixelated" src="data:image/png;base64,{data}"/>'
            f"<details><summary>{html.escape(self._facts())}</summary><table>{rows}</table></details></div>"
        )

    def _facts(self) -> str:
        channels, z, y, x = self.data.shape
        sizes = f"{x} x {y}" + (f" x {z}" if z > 1 else "") + (f", {channels} channels" if channels > 1 else "")
        counters = "".join(f", {name} {int(self.head[name])}" for name in IMAGE_COUNTERS if int(self.head[name]))
        return f"Image {self.series}/{self.index}: {self.image_type} {self.data.dtype}, {sizes}{counters}"

    def __repr__(self) -> str:
        return f"<{self._facts()}>"


def _names() -> List[str]:
    return [kind.name for kind in PIXEL_TYPES.values()]


def _read_meta(attributes: str) -> Meta:
    result: Meta = {}
    if not attributes.strip():
        return result
    try:
        root = parse_xml(attributes, "an image's attributes")
    except ScanError:
        return result
    for element in root.iter("meta"):
        name = element.findtext("name")
        values = [value.text or "" for value in element.findall("value")]
        if name is not None:
            result[name] = values[0] if len(values) == 1 else values
    return result
