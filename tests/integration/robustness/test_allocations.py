"""Each allocation of one scan of each family of pipelines fails, one at a time: the client has its images or is told why
not, the server lives, and the same scan has the right images at once.

304 allocations, spread evenly over families and over each scan; with CI_FULL=1 one after the other, until a scan makes
fewer. test_faults.py has what happens when memory stays short.
"""

import itertools
import os
import random

import pytest

import reference
import stopping
import wire
from faults import FaultyServer
from faulty_clients import KEEPS_NONE, talk
from programs import ends_well

FULL = os.environ.get("CI_FULL") == "1"
SAMPLED = 304  # 19 of each


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from ends_well(FaultyServer(tmp_path_factory.mktemp("faulty"), "--backend", "cpu", *KEEPS_NONE))


def numbers(calls):
    """The numbers of calls that fail: one at random of each equal part, or all, also those that only a failure brings."""
    if FULL:
        return itertools.count(1)
    parts = min(calls, SAMPLED // len(stopping.FAMILIES))
    bounds = [1 + calls * i // parts for i in range(parts + 1)]
    return (random.Random(calls + i).randrange(bounds[i], bounds[i + 1]) for i in range(parts))


def is_right(images, truth):
    """Bits depend on how readouts come; float32's rounding through an iterative method stays below 1e-4."""
    assert len(images) == len(truth)
    assert all(reference.nrmse(a.pixels, b.pixels) < 1e-4 for a, b in zip(images, truth) if b.pixels.any())


@pytest.mark.parametrize("family", stopping.FAMILIES)
def test_each_allocation_fails_once(tmp_path, server, twin, witness, family):
    stream = stopping.FAMILIES[family](family, tmp_path)
    truth = wire.parse(talk(twin.address, stream)).images
    assert truth
    is_right(wire.parse(talk(server.address, stream)).images, truth)  # caches are filled
    server.allocation.count()
    is_right(wire.parse(talk(server.address, stream)).images, truth)
    calls = server.allocation["seen"]
    tried = refused = 0
    for number in numbers(calls):
        server.allocation.fail(number)
        received = talk(server.address, stream)
        fired = server.allocation["fired"]
        server.allocation.stop()
        assert not server.died(), f"allocation {number} of {calls}:\n{server.text()[-2000:]}"
        if FULL and not fired:
            break
        tried += fired
        errors = ["resources: "]  # without memory for a session, the connection ends without a word
        if received:
            reply = wire.parse(received)
            errors = reply.errors()
            is_right(reply.images, truth[: len(reply.images)] if errors else truth)
        assert all("resources: " in text for text in errors), (number, errors)
        refused += bool(errors)
        again = wire.parse(talk(server.address, stream))
        assert not again.errors(), (number, again.texts)
        is_right(again.images, truth)
    witness.scan_is_good()
    print(f"{family}: {calls} allocations, {tried} failed, {refused} scans were refused")
    assert tried > 0
