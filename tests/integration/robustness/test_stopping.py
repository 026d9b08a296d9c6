"""Everything stops: places are free soon after a client has gone, and the server ends soon after SIGTERM, in the middle
of whatever it computes."""

import itertools
import random
import time

import pytest

import stopping
import wire
from programs import ends_well
from stopping import BOUND_S, cpu, radial, stream
from vitals import in_time

SHUTDOWN_TIMEOUT_S = 0.5
VORONOI = ("density_compensation: {method: ramp} ", "density_compensation: {method: voronoi} ")
EXACT = ("method: auto, accuracy: 1.2e-6", "method: exact")

# Each takes minutes, or many seconds, when nobody stops it.
HEAVY = {
    "exact fhd_pcg_3d of 128": lambda seed: stream(cpu("fhd_pcg_3d", EXACT), radial(128, 3, 1, 1000, 256, seed)),
    "exact fhd_pcg_3d of 192": lambda seed: stream(cpu("fhd_pcg_3d", EXACT), radial(192, 3, 1, 650, 380, seed)),
    "fhd_pcg_3d of 160": lambda seed: stream(cpu("fhd_pcg_3d"), radial(160, 3, 1, 2000, 320, seed)),
    "cg_sense_2d of 768": lambda seed: stream(cpu("cg_sense_2d"), radial(768, 2, 12, 400, 1024, seed)),
    "voronoi weights": lambda seed: stream(cpu("radial_2d", VORONOI), radial(512, 2, 1, 480, 1000, seed)),
    "plan of a koosh ball of 192": lambda seed: stream(cpu("kooshball_3d"), radial(192, 3, 2, 12000, 384, seed)),
}
MOMENTS_S = (0.1, 0.7, 2.5)


@pytest.fixture(scope="module")
def busy_server(tmp_path_factory):
    # A small queue, so that the server does not read from a client while it computes.
    server = stopping.start_server(tmp_path_factory.mktemp("stopping"), "--threads", 2, "--queue-mib", 2)
    yield from ends_well(server)


@pytest.mark.parametrize("what", HEAVY)
def test_a_place_is_free_soon_after_its_client_has_gone(busy_server, what):
    for i, moment_s in enumerate(MOMENTS_S):
        by_admin = (list(HEAVY).index(what) + i) % 2 == 1
        freed = stopping.free_after_leaving(busy_server, HEAVY[what](i + 1), moment_s, by_admin)
        if freed is not None:
            in_time(freed.own_s(), BOUND_S, f"{what} at {moment_s} s, admin {by_admin}: {freed}")
    assert "recon-failed" not in busy_server.text() and "internal error" not in busy_server.text()


def test_whoever_waits_for_a_gone_clients_operator_makes_it(busy_server):
    """Two clients with one trajectory: the one whose session makes what both need leaves."""
    data = stream(cpu("fhd_pcg_2d", EXACT), radial(192, 2, 2, 300, 384, 77))
    first = stopping.Client(busy_server.address, data)
    stopping.wait_until_scanning(busy_server)
    second = stopping.Client(busy_server.address, data)
    time.sleep(0.1)
    first.leave()
    reply = wire.parse(second.received(120))
    assert len(reply.images) == 1 and not reply.errors(), reply.texts


def test_sigterm_ends_the_server_in_the_middle_of_anything(tmp_path):
    chosen = random.Random(1)
    streams = {name: stopping.shipped_scan(name, tmp_path, large=False) for name in stopping.shipped_names()}
    for i, (name, data) in enumerate(itertools.islice(itertools.cycle(streams.items()), 30)):
        folder = tmp_path / str(i)
        folder.mkdir()
        server = stopping.start_server(folder, "--shutdown-timeout-s", SHUTDOWN_TIMEOUT_S)
        moment_s = chosen.uniform(0, 0.6)
        status, took = stopping.seconds_to_exit(server, data, moment_s)
        assert status == 0, f"{name} at {moment_s:.3f} s: {took}\n{server.text()}"
        in_time(took.own_s(), SHUTDOWN_TIMEOUT_S + 2, f"{name} at {moment_s:.3f} s: {took}\n{server.text()}")


def test_sigterm_ends_a_server_whose_scan_would_take_minutes(tmp_path):
    server = stopping.start_server(tmp_path, "--shutdown-timeout-s", SHUTDOWN_TIMEOUT_S)
    status, took = stopping.seconds_to_exit(server, HEAVY["exact fhd_pcg_3d of 192"](9), 1)
    assert status == 0, f"{took}\n{server.text()}"
    in_time(took.own_s(), SHUTDOWN_TIMEOUT_S + 2, f"{took}\n{server.text()}")
