"""Many images as one array."""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence, Tuple

import numpy as np

from .errors import StackError
from .image import Image
from .layout import IMAGE_COUNTERS, Array

_ALSO = ("image_index", "image_series_index")


def stack(images: Iterable[Image], by: Sequence[str] = ()) -> Array:
    """One array of all pixels.

    Without `by`: [image, channel, z, y, x] in the order given. With names of counters, such as ("contrast", "slice"):
    an axis for each, in the order of their values, then [channel, z, y, x]; every combination must be there exactly
    once. ValueError says which images do not fit.
    """
    all_images = list(images)
    if not all_images:
        raise StackError("there are no images to stack")
    first = all_images[0]
    for number, image in enumerate(all_images):
        if image.data.shape != first.data.shape:
            raise StackError(
                f"images differ in shape: image 0 is {first.data.shape}, image {number} is {image.data.shape}; "
                "stack the series (image.series) separately"
            )
    if not by:
        return np.stack([image.data for image in all_images])
    names = (by,) if isinstance(by, str) else tuple(by)
    for name in names:
        if name not in IMAGE_COUNTERS + _ALSO:
            raise StackError(f"images have no counter '{name}'; they have: {', '.join(IMAGE_COUNTERS + _ALSO)}")
    placed: Dict[Tuple[int, ...], Image] = {}
    for image in all_images:
        key = tuple(int(image.head[name]) for name in names)
        if key in placed:
            raise StackError(f"two images have {_told(names, key)}; name another counter that tells them apart")
        placed[key] = image
    values: List[List[int]] = [sorted({key[axis] for key in placed}) for axis in range(len(names))]
    result = np.empty([len(v) for v in values] + list(first.data.shape), np.result_type(*(i.data for i in all_images)))
    for place in np.ndindex(*(len(v) for v in values)):
        key = tuple(values[axis][at] for axis, at in enumerate(place))
        if key not in placed:
            raise StackError(f"no image has {_told(names, key)}")
        result[place] = placed[key].data
    return result


def _told(names: Sequence[str], key: Sequence[int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, key))
