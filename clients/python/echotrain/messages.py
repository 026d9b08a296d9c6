"""The messages of a scan: readouts, waveforms and images (image.py), or those of the package `ismrmrd` (optional)."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np

from .errors import ScanError
from .image import Image
from .layout import ACQUISITION_TYPE, COUNTERS, IMAGE_TYPE, WAVEFORM_TYPE, Array, is_ismrmrd
from .units import check_dwell


class Acquisition:
    """One readout.

    `data` is complex64 [coil, sample], `trajectory` float32 [sample, dimension] (None: Cartesian, or made by the
    server) in cycles/pixel unless the pipeline says otherwise; in a 2D encoding a third dimension is the density
    weight. `head` is a numpy record with libismrmrd's fields, counters in `head["idx"]`.
    """

    def __init__(self, data: Any, trajectory: Any = None, *, flags: int = 0, **fields: Any) -> None:
        """`fields`: any field of the head, or a counter (slice=2, repetition=1, kspace_encode_step_1=17, ...)."""
        self.data: Array = np.ascontiguousarray(data, np.complex64)
        if self.data.ndim != 2:
            raise ScanError(f"a readout's data is [coil, sample], not of shape {self.data.shape}")
        channels, samples = self.data.shape
        if channels > 0xFFFF or samples > 0xFFFF:
            raise ScanError(f"a readout has at most 65535 coils and samples, this one has shape {self.data.shape}")
        self.trajectory: Optional[Array] = None
        if trajectory is not None:
            self.trajectory = np.ascontiguousarray(trajectory, np.float32)
            if self.trajectory.ndim != 2 or len(self.trajectory) != samples:
                raise ScanError(
                    f"a readout of {samples} samples needs a trajectory [{samples}, dimension], not of shape "
                    f"{self.trajectory.shape}"
                )
        head = np.zeros((), ACQUISITION_TYPE)
        head["version"] = 1
        head["flags"] = flags
        head["center_sample"] = samples // 2
        head["available_channels"] = channels
        head["read_dir"], head["phase_dir"], head["slice_dir"] = (1, 0, 0), (0, 1, 0), (0, 0, 1)
        for name, value in fields.items():
            if name in COUNTERS:
                head["idx"][name] = value
            elif name in (ACQUISITION_TYPE.names or ()):
                head[name] = value
                if name == "sample_time_us":
                    check_dwell(float(value))
            else:
                raise TypeError(f"a readout has no field '{name}'; it has: {', '.join(ACQUISITION_TYPE.names or ())}")
        self.head: Array = head
        self.fit_head()

    def fit_head(self) -> None:
        """Sets the head's sizes to those of the data."""
        self.head["active_channels"], self.head["number_of_samples"] = self.data.shape
        self.head["trajectory_dimensions"] = 0 if self.trajectory is None else self.trajectory.shape[1]

    @classmethod
    def from_head(cls, head: Array, data: Array, trajectory: Optional[Array]) -> Acquisition:
        """A readout with a given head, whose sizes it sets to those of the data."""
        result = cls(data, trajectory)
        result.head = head
        result.fit_head()
        return result

    @property
    def flags(self) -> int:
        return int(self.head["flags"])

    def __repr__(self) -> str:
        coils, samples = self.data.shape
        dimensions = 0 if self.trajectory is None else self.trajectory.shape[1]
        return f"<Acquisition: {coils} coils, {samples} samples, trajectory of {dimensions} dimensions>"

    def to_ismrmrd(self) -> Any:
        """As an `ismrmrd.Acquisition` (needs the package ismrmrd)."""
        import ismrmrd

        result = ismrmrd.Acquisition(self.head.tobytes())
        result.data[:] = self.data
        if self.trajectory is not None:
            result.traj[:] = self.trajectory
        return result


class Waveform:
    """Physiology beside the readouts: `data` is uint32 [channel, sample]."""

    def __init__(self, data: Any, **fields: Any) -> None:
        self.data: Array = np.ascontiguousarray(data, np.uint32)
        if self.data.ndim != 2:
            raise ScanError(f"a waveform's data is [channel, sample], not of shape {self.data.shape}")
        head = np.zeros((), WAVEFORM_TYPE)
        head["version"] = 1
        for name, value in fields.items():
            if name not in (WAVEFORM_TYPE.names or ()):
                raise TypeError(f"a waveform has no field '{name}'")
            head[name] = value
        head["channels"], head["number_of_samples"] = self.data.shape
        self.head: Array = head

    @classmethod
    def from_head(cls, head: Array, data: Array) -> Waveform:
        result = cls(data)
        result.head = head
        result.head["channels"], result.head["number_of_samples"] = result.data.shape
        return result

    def __repr__(self) -> str:
        return (
            f"<Waveform {int(self.head['waveform_id'])}: {self.data.shape[0]} channels, {self.data.shape[1]} samples>"
        )


Message = Union[Acquisition, Waveform, Image]


def _head(value: Any, kind: np.dtype[Any]) -> Array:
    head: Array = np.frombuffer(bytes(value.getHead()), kind)[0:1].copy().reshape(())
    if head["version"] == 0:  # the package leaves it 0 in new heads
        head["version"] = 1
    return head


def from_ismrmrd(value: Any) -> Message:
    """Our own readout, waveform or image with the same contents."""
    if is_ismrmrd(value):
        name = type(value).__name__
        if name == "Acquisition":
            trajectory = value.traj if value.traj.shape[-1] else None
            return Acquisition.from_head(_head(value, ACQUISITION_TYPE), value.data, trajectory)
        if name == "Waveform":
            return Waveform.from_head(_head(value, WAVEFORM_TYPE), value.data)
        if name == "Image":
            return Image(np.array(value.data), _head(value, IMAGE_TYPE), value.attribute_string)
    raise ScanError(
        f"a scan is made of echotrain's or ismrmrd's Acquisition, Waveform and Image, not of {type(value).__name__}"
    )
