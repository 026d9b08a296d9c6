"""The package `ismrmrd` (optional): its readouts, waveforms, images and headers are taken wherever ours are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ScanError
from .layout import ACQUISITION_TYPE, IMAGE_TYPE, WAVEFORM_TYPE, Array

if TYPE_CHECKING:
    from .codec import Message


def is_ismrmrd(value: Any) -> bool:
    """Whether `value` is of a type of the package ismrmrd, which is not imported for that."""
    return type(value).__module__.split(".")[0] == "ismrmrd"


def _head(value: Any, kind: np.dtype[Any]) -> Array:
    head: Array = np.frombuffer(bytes(value.getHead()), kind)[0:1].copy().reshape(())
    if head["version"] == 0:  # the package leaves it so in heads made from nothing
        head["version"] = 1
    return head


def from_ismrmrd(value: Any) -> Message:
    """Our own readout, waveform or image with the same contents."""
    from .image import Image
    from .messages import Acquisition, Waveform

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


def header_text(value: Any) -> str:
    """The XML of an `ismrmrd.xsd.ismrmrdHeader`."""
    text = value.toXML()
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)
