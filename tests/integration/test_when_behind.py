"""Scans that come faster than they are computed: frames are left out, and said to be, or they wait, and that is said."""

import re

import numpy as np

import paced
import wire
from programs import variant

FRAMES, MATRIX, COILS = 60, 128, 8
STRIDE = ("frame: {readouts: 55, stride: 5}", "frame: {readouts: 55, stride: 5, when_behind: drop_oldest}")
CPU = ("backend: auto", "backend: cpu")


def sent(server, *changes):
    """The reply to a scan in real time that is sent at once."""
    messages = paced.real_time(FRAMES, MATRIX, COILS).messages
    messages[0] = wire.config_text(variant("radial_realtime", *changes))
    reply = wire.exchange(server.address, messages)
    assert not reply.errors(), reply.errors()
    return reply


def test_frames_are_left_out_and_counted(server):
    every = sent(server, CPU)
    assert len(every.images) == FRAMES
    some = sent(server, CPU, STRIDE)
    assert len(some.images) < FRAMES / 2
    found = [re.search(r"echotrain_frames_dropped</name>\s*<value>([0-9]+)<", image.attributes) for image in some.images]
    dropped = [int(each[1]) if each else 0 for each in found]
    assert dropped == sorted(dropped) and len(some.images) + dropped[-1] == FRAMES, "the newest frame comes, none is lost"
    for i, image in enumerate(some.images):
        expected = every.images[i + dropped[i]].pixels
        assert np.max(np.abs(image.pixels - expected)) <= 1e-5 * np.max(expected), (i, dropped[i])
    assert len([text for text in some.texts if "drop_oldest" in text]) == 1, some.texts
    server.wait_for(f"frames_dropped={dropped[-1]}")


def test_a_paced_scan_loses_nothing(server):
    # Strides of 400 readouts take 1.2 s, far longer than a busy machine holds anybody up.
    scan = paced.real_time(3, 16, 1, window=400, stride=400)
    rule = "frame: {readouts: 400, stride: 400, when_behind: drop_oldest}"
    config = wire.config_text(variant("radial_realtime", CPU, (STRIDE[0], rule)))
    scan.messages[0] = config
    heard = paced.scan(server.address, scan)  # asserts that each frame has its image
    assert not [image for image in heard.reply.images if "frames_dropped" in image.attributes]
