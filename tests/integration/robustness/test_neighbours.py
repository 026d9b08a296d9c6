"""A paced scanner among hostile clients of another address: its images come, with the right bits, and the server stays
within its memory."""

import time

import numpy as np
import pytest

import hostile
import paced
import reference
from programs import Server, ends_well
from vitals import Vitals

MATRIX, CLIENTS, SECONDS = 32, 20, 8
MEMORY_MIB, SLACK_MIB = 1024, 256


@pytest.fixture(params=[("--address-turns", "false"), ()], ids=["freely", "by_turns"])
def server(tmp_path, request):
    environment = {"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}
    options = ("--backend", "cpu", "--memory-mib", MEMORY_MIB, "--log-level", "warning", "--shutdown-timeout-s", 5)
    options += request.param
    yield from ends_well(Server(tmp_path, *options, environment=environment))


def test_a_scanner_among_hostile_clients(server):
    rng = np.random.default_rng(6)
    kspace = rng.standard_normal((12, 4, MATRIX, MATRIX, 2), np.float32).view(np.complex64)[..., 0]
    scan = paced.cine(kspace)
    truth = paced.scan(server.address, scan)
    for image, one in zip(truth.reply.images, kspace, strict=True):
        assert reference.nrmse(image.pixels[0, 0], reference.rss(reference.centred_fft(one, MATRIX))) <= 1e-5
    scanned = 0
    with hostile.Hostile(server, CLIENTS, 120) as attackers:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert paced.scan(server.address, scan).is_like(truth.pixels()), f"scan {scanned}"
            scanned += 1
    assert scanned >= 1 and attackers.total("connections") > CLIENTS
    assert Vitals(server).peak() <= (MEMORY_MIB + SLACK_MIB) << 20, Vitals(server).peak() >> 20
