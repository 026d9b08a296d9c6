"""The items of a pipeline as arrays."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type, Union

import numpy as np

from ..errors import EchotrainError
from ..header import Header
from ..image import Meta
from ..layout import PIXEL_TYPES, Array

Extents = Tuple[int, int, int]
Empty = Callable[[Sequence[int], Any], Array]


class StepError(EchotrainError, ValueError):
    """A function took or gave something that is no item of its step."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """What is known of the image that an item becomes."""

    id: int = 0  # counts the frames of a scan from 0
    encoding: int = 0
    slice: int = 0
    contrast: int = 0
    phase: int = 0
    repetition: int = 0
    set: int = 0
    series: int = 0
    readouts: int = 0
    expected_readouts: int = 0  # 0: not known
    reference: Optional[Array] = None  # head of the first readout, a numpy record (layout.ACQUISITION_TYPE)


@dataclasses.dataclass
class Item:
    """`data` is only valid, and may only be read, while the function runs.

    In a result, `frame`, `header` and `xml` mean nothing, and `meta` without a value means what came.
    """

    data: Array
    frame: Optional[Frame] = None
    header: Optional[Header] = None  # None where the scan has none
    meta: Optional[Meta] = None  # the attributes that the image will have: name -> text, or a list of texts
    xml: str = dataclasses.field(default="", repr=False)  # the whole header
    _empty: Empty = dataclasses.field(default=np.empty, repr=False, compare=False)

    def empty(self, shape: Optional[Sequence[int]] = None, dtype: Any = None) -> Array:
        """An array for a result, in the memory that the server reads: what is written there is not copied again."""
        made = self._empty(self.data.shape if shape is None else shape, self.data.dtype if dtype is None else dtype)
        return made


@dataclasses.dataclass
class Readouts(Item):
    """Readouts of one frame as they come, in batches of any number: complex64 [readout, channel, sample].

    Of a result, the number of channels may differ. `meta` cannot be changed.
    """

    heads: Optional[Array] = None  # numpy records [readout] (layout.ACQUISITION_TYPE); cannot be changed
    trajectory: Optional[Array] = None  # float32 [readout, sample, dimension], in the unit of the file
    kind: str = "imaging"  # one of READOUT_KINDS
    first: bool = False  # the first of its frame
    last: bool = False  # no readout of its frame comes later


READOUT_KINDS = ("imaging", "noise", "calibration", "navigator", "phase_correction", "other")


@dataclasses.dataclass
class KSpace(Item):
    """Cartesian k-space of one frame: complex64 [coil, z, y, x], its centre at floor(n/2) of each axis."""

    padded: Extents = (0, 0, 0)  # [z, y, x] to transform with, so that voxels have the image's size
    image: Extents = (0, 0, 0)  # [z, y, x] of the image cut from that
    lines: Optional[Array] = None  # uint8 [z, y]: 1 where a line was acquired


@dataclasses.dataclass
class Samples(Item):
    """Samples anywhere in k-space: complex64 [sample, coil]."""

    weights: Optional[Array] = None  # float32 [sample]; 0 drops a sample
    coordinates: Optional[Array] = None  # float64 [sample, dimension], x first, in cycles/pixel; cannot be changed
    image: Extents = (0, 0, 0)  # [z, y, x] of the image


@dataclasses.dataclass
class NormalEquations(Item):
    """A frame as F^H W F x = F^H W d: `data` is the right-hand side, complex64 [coil, z, y, x], centre at floor(n/2).

    With maps, `data` is that of the combined image, [set, z, y, x]. A function may set the maps where there are none.
    """

    maps: Optional[Array] = None  # complex64 [set * coil, z, y, x]: sensitivities of the coils
    power: float = 0.0  # the sum of W |d|^2 over samples and coils
    weight: float = 0.0  # the sum of W over the samples
    coils: int = 0
    sets: int = 1  # of maps


@dataclasses.dataclass
class CoilImages(Item):
    """Complex images: complex64 [coil, z, y, x], one for each coil, or one in all."""


@dataclasses.dataclass
class Images(Item):
    """A finished image: [channel, z, y, x], of any pixel type of ISMRMRD."""

    head: Optional[Array] = None  # a numpy record (layout.IMAGE_TYPE); only of images that came as such


ITEMS: Dict[str, Type[Item]] = {
    kind.__name__: kind for kind in (Readouts, KSpace, Samples, NormalEquations, CoilImages, Images)
}


def results_of(result: Any, item: Item, gives: Type[Item]) -> List[Item]:
    """What a function gave, as items: an item, an array, a list of these, or None. StepError where it is neither."""
    if result is None:
        return []
    if isinstance(result, (list, tuple)):
        return [each for one in result for each in results_of(one, item, gives)]
    if isinstance(result, Item):
        if type(result) is not gives:
            raise StepError(f"the step gives {type(result).__name__}, not {gives.__name__}")
        given = result
    else:
        given = gives(np.asarray(result))
    if given.meta is None:
        given.meta = item.meta
    given.data = _checked(given, item)
    if isinstance(given, Samples) and isinstance(item, Samples):
        given.weights = _weights(given, item)
    if isinstance(given, Readouts) and given.trajectory is not None:
        want = getattr(item, "trajectory").shape if getattr(item, "trajectory") is not None else "none"
        if np.shape(given.trajectory) != want:
            raise StepError(f"the trajectory of Readouts is of shape {np.shape(given.trajectory)}, not {want}")
        given.trajectory = np.asarray(given.trajectory, np.float32)
    if isinstance(given, NormalEquations) and given.maps is not None:
        have = getattr(item, "maps")
        if np.shape(given.maps) != (item.data.shape if have is None else have.shape):
            raise StepError(f"the maps of NormalEquations are of shape {np.shape(given.maps)}, not {item.data.shape}")
        given.maps = np.asarray(given.maps, np.complex64)
    return [given]


def _checked(given: Item, item: Item) -> Array:
    name = type(given).__name__
    data = np.asarray(given.data)
    if isinstance(given, Images) and isinstance(item, Images):
        if data.ndim != 4 or data.size == 0:
            raise StepError(f"the data of {name} are [channel, z, y, x], not of shape {data.shape}")
        if data.dtype.newbyteorder("<") not in PIXEL_TYPES.values():
            known = ", ".join(kind.name for kind in PIXEL_TYPES.values())
            raise StepError(f"the data of {name} are of type {data.dtype}, not one of: {known}")
        return data
    if data.dtype.kind not in "fciu":
        raise StepError(f"the data of {name} are of type {data.dtype}, not complex64")
    if isinstance(given, Samples):
        want: Tuple[Union[int, str], ...] = (item.data.shape[0], "coil")
    elif isinstance(given, Readouts):
        want = (item.data.shape[0], "channel", item.data.shape[2])
    elif isinstance(given, NormalEquations):
        want = item.data.shape
    elif isinstance(given, KSpace) or isinstance(item, (CoilImages, NormalEquations)):
        want = ("coil", *item.data.shape[1:])
    else:
        assert isinstance(item, (KSpace, Samples))
        want = ("coil", *item.image)
    fits = data.ndim == len(want) and all(n == w if isinstance(w, int) else n > 0 for n, w in zip(data.shape, want))
    if not fits:
        raise StepError(f"the data of {name} are of shape {data.shape}, not [{', '.join(map(str, want))}]")
    kind = np.float32 if isinstance(given, Images) and data.dtype.kind != "c" else np.complex64
    return data if data.dtype == kind else data.astype(kind)


def _weights(given: Samples, item: Samples) -> Optional[Array]:
    if given.weights is None:
        return None
    weights = np.asarray(given.weights)
    if weights.shape != item.data.shape[:1] or weights.dtype.kind not in "fiu":
        raise StepError(
            f"the weights of Samples are of type {weights.dtype} and shape {weights.shape}, not float32 of shape "
            f"{item.data.shape[:1]}"
        )
    return weights.astype(np.float32, copy=False)
