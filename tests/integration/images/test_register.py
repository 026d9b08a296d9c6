"""A breathing phantom over TCP: its images lie still afterwards, and the fields are the closed form's. The phantom is evaluated at displaced
places; nothing here interpolates."""

import re

import numpy as np
import pytest

import chains
import wire

NY, NX = 144, 128
Y, X = np.mgrid[:NY, :NX].astype(float)
DISCS = [(72, 64, 60, 52, 0.6), (50, 36, 24, 14, -0.4), (50, 92, 24, 14, -0.4), (58, 66, 13, 11, 0.5), (58, 66, 7, 6, -0.3),
         (100, 48, 20, 24, 0.25), (104, 92, 9, 10, 0.3)] + [
         (y, x, 2, 2, 0.3) for y, x in [(96, 36), (108, 44), (92, 50), (104, 58), (112, 54), (90, 62), (46, 34), (58, 38), (44, 94), (56, 90)]]  # fmt: skip


def phantom(y, x):
    discs = [v * 0.5 * (1 - np.tanh((np.hypot((y - cy) / ry, (x - cx) / rx) - 1) * min(rx, ry) / 0.6)) for cy, cx, ry, rx, v in DISCS]
    return sum(discs)


def breathing(peak, y, x):
    """Displacements along y; along x there are none."""
    return peak * np.exp(-(((y - 92) / 40) ** 2) - ((x - 60) / 45) ** 2)


BODY = phantom(Y, X) > 0.1


def through(server, parameters, motions):
    """The images sent, each displaced along y by a function of (y, x) or a number, and the reply."""
    random = np.random.default_rng(1)
    sent = [phantom(Y + motion, X) + random.normal(0, 0.03, (NY, NX)) for motion in motions]
    messages = [wire.image(one[None, None].astype("f4"), image_type=3, repetition=n, image_index=n + 1, image_series_index=1, **wire.AXES)
                for n, one in enumerate(sent)]  # fmt: skip
    config = chains.pipeline(f"register: {{{parameters}}}", "image: {component: real, type: float}", keys="input: images")
    reply = chains.through(server, config, wire.header("Dummy XML header"), messages)
    return sent, reply.images


def off(image, truth):
    return np.sqrt(np.mean((image - truth)[BODY] ** 2))


@pytest.mark.parametrize("method", ["fast", "robust"])
def test_a_breathing_phantom_lies_still(server, method):
    peaks = [0, 2, 4, 6, 8, -5]
    sent, images = through(server, f"method: {method}, fields: true", [breathing(peak, Y, X) for peak in peaks])
    moved = [image for image in images if image.head["image_series_index"] == 1]
    fields = [image for image in images if image.head["image_series_index"] == 8]
    assert [image.head["repetition"] for image in moved] == list(range(6)) and len(fields) == 5
    np.testing.assert_array_equal(moved[0].pixels[0, 0], sent[0].astype("f4"))
    still = phantom(Y, X)
    for before, after in zip(sent[1:], moved[1:]):
        was, left = off(before, still), off(after.pixels[0, 0], still)
        assert left < 0.06 and left < 0.7 * was, (was, left)  # noise alone: 0.03
        notes = dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)</value>", after.attributes))
        assert notes["registration"] == f"{method}, to first"
    for peak, field in zip(peaks[1:], fields):
        fx, fy = field.pixels[:, 0].astype(float)
        # The image is the phantom at p + u(p): what moves it back is -u(p + field).
        error = np.hypot(fx, fy + breathing(peak, Y + fy, X + fx))[BODY]
        assert np.median(error) <= 0.3 and np.percentile(error, 95) <= 1, (peak, np.median(error), np.percentile(error, 95))


def test_the_median_waits_for_all(server):
    """Images shifted by 0 to 6 voxels come to lie where their median does."""
    sent, images = through(server, "method: rigid, to: median", [0, 3, 6, 2, 4])
    assert [image.head["repetition"] for image in images] == list(range(5))
    median = phantom(Y + 3, X)
    for before, after in zip(sent, images):
        assert off(after.pixels[0, 0], median) < 0.06, (off(before, median), off(after.pixels[0, 0], median))
    assert off(sent[2], median) > 0.09
