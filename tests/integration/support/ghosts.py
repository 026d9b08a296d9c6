"""The ghost of EPI in an image: what lies half a field of view from the object, relative to the object."""

import numpy as np


def _grown(mask):
    """Dilated once by a cross."""
    out = mask.copy()
    out[1:] |= mask[:-1]
    out[:-1] |= mask[1:]
    out[:, 1:] |= mask[:, :-1]
    out[:, :-1] |= mask[:, 1:]
    return out


def _filled(mask):
    """Without holes: what cannot be reached from the image's edge belongs to the object."""
    outside = np.zeros_like(mask)
    outside[[0, -1]] = outside[:, [0, -1]] = True
    outside &= ~mask
    while True:
        wider = _grown(outside) & ~mask
        if (wider == outside).all():
            return ~outside
        outside = wider


def object_mask(image):
    """image: magnitudes [y, x]."""
    return _grown(_filled(image > 0.2 * np.percentile(image, 99)))


def ghost_level(image, mask=None):
    """Mean magnitude where the object's ghost lies and the object does not, over that of the object half a field of
    view away. image: magnitudes [y, x], y along the phase axis; mask: the object, if not by the image itself."""
    mask = object_mask(image) if mask is None else mask
    half = image.shape[0] // 2
    ghost = np.roll(mask, half, axis=0) & ~mask
    return float(image[ghost].mean() / image[np.roll(ghost, -half, axis=0)].mean())
