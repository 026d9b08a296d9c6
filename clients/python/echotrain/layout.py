"""Layouts of the structs on the wire (docs/protocol.md, "Layouts") as numpy types.

Packed and little-endian, with libismrmrd's field names, so ISMRMRD HDF5 files can be written with them as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# The counters of a readout, and those that images have too.
COUNTERS = (
    *("kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast"),
    *("phase", "repetition", "set", "segment"),
)
IMAGE_COUNTERS = ("average", "slice", "contrast", "phase", "repetition", "set")

_GEOMETRY: list[Any] = [
    (name, "<f4", 3) for name in ("position", "read_dir", "phase_dir", "slice_dir", "patient_table_position")
]
_USER: list[Any] = [("user_int", "<i4", 8), ("user_float", "<f4", 8)]
_COUNTERS: list[Any] = [(name, "<u2") for name in COUNTERS]
_ACQUISITION: list[Any] = [
    ("version", "<u2"),
    ("flags", "<u8"),
    ("measurement_uid", "<u4"),
    ("scan_counter", "<u4"),
    ("acquisition_time_stamp", "<u4"),
    ("physiology_time_stamp", "<u4", 3),
    ("number_of_samples", "<u2"),
    ("available_channels", "<u2"),
    ("active_channels", "<u2"),
    ("channel_mask", "<u8", 16),
    ("discard_pre", "<u2"),
    ("discard_post", "<u2"),
    ("center_sample", "<u2"),
    ("encoding_space_ref", "<u2"),
    ("trajectory_dimensions", "<u2"),
    ("sample_time_us", "<f4"),
]
_IMAGE: list[Any] = [
    ("version", "<u2"),
    ("data_type", "<u2"),
    ("flags", "<u8"),
    ("measurement_uid", "<u4"),
    ("matrix_size", "<u2", 3),
    ("field_of_view", "<f4", 3),
    ("channels", "<u2"),
    *_GEOMETRY,
    *((name, "<u2") for name in IMAGE_COUNTERS),
    ("acquisition_time_stamp", "<u4"),
    ("physiology_time_stamp", "<u4", 3),
    ("image_type", "<u2"),
    ("image_index", "<u2"),
    ("image_series_index", "<u2"),
    *_USER,
    ("attribute_string_len", "<u4"),
]
_WAVEFORM: list[Any] = [
    ("version", "<u2"),
    ("padding", "V6"),
    ("flags", "<u8"),
    ("measurement_uid", "<u4"),
    ("scan_counter", "<u4"),
    ("time_stamp", "<u4"),
    ("number_of_samples", "<u2"),
    ("channels", "<u2"),
    ("sample_time_us", "<f4"),
    ("waveform_id", "<u2"),
    ("padding_end", "V2"),
]

COUNTERS_TYPE = np.dtype([*_COUNTERS, ("user", "<u2", 8)])
ACQUISITION_TYPE = np.dtype([*_ACQUISITION, *_GEOMETRY, ("idx", COUNTERS_TYPE), *_USER])
IMAGE_TYPE = np.dtype(_IMAGE)
WAVEFORM_TYPE = np.dtype(_WAVEFORM)

# data_type of an image -> type of its pixels.
PIXEL_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<u2"),
    2: np.dtype("<i2"),
    3: np.dtype("<u4"),
    4: np.dtype("<i4"),
    5: np.dtype("<f4"),
    6: np.dtype("<f8"),
    7: np.dtype("<c8"),
    8: np.dtype("<c16"),
}

# Flags of a readout: value v of the standard is bit v - 1.
FIRST_IN_SLICE = 1 << 6
LAST_IN_SLICE = 1 << 7
FIRST_IN_REPETITION = 1 << 12
LAST_IN_REPETITION = 1 << 13
NOISE = 1 << 18
REFERENCE = 1 << 19
REFERENCE_AND_IMAGE = 1 << 20
REVERSED = 1 << 21
NAVIGATION = 1 << 22
PHASE_CORRECTION = 1 << 23
LAST_IN_MEASUREMENT = 1 << 24


def is_ismrmrd(value: Any) -> bool:
    """True if `value` has a type of the package ismrmrd. Does not import the package."""
    return type(value).__module__.split(".")[0] == "ismrmrd"


def same_fields(row: Array, kind: np.dtype[Any]) -> Array:
    """`row` with the fields of `kind`, in the order and places of `kind`; fields that `row` lacks are 0."""
    if row.dtype == kind:
        return row.copy()
    result = np.zeros(row.shape, kind)
    for name in kind.names or ():
        if name not in (row.dtype.names or ()):
            continue
        result[name] = same_fields(row[name], kind[name]) if kind[name].names else row[name]
    return result
