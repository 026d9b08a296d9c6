"""Caches have parts: clients that fill them push out nothing of another that has no more than its part. Clients are told
apart by the PROXY protocol. Thousands of tiny plans are bounded in number and given back at once."""

import contextlib
import socket
import time
import urllib.request

import numpy as np
import pytest

import scans
import trajectories
import wire
from exposition import Metrics
from programs import Server, ends_well, variant
from vitals import in_time, wait_until

BALANCER = "127.0.0.3"
MATRIX = 24  # an operator is half of 48^3 complex numbers, and 64 x 64 positions: 0.6 MB
MEASURED = "2001:db8:0:1::1"


@pytest.fixture
def server(tmp_path):
    options = ("--operator-cache-mib", 8, "--proxy-from", BALANCER, "--warm-up", "false", "--backend", "cpu")
    yield from ends_well(Server(tmp_path, *options, environment={"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}))


def scan(server, client, seed):
    messages = trajectories.random_3d(seed, MATRIX, coils=1)
    reply = wire.exchange(server.address, messages, 60, BALANCER, wire.proxy_header(client))
    assert not reply.errors() and len(reply.images) == 1, reply.texts
    return reply.images[0].pixels


def like(image, other):
    """How readouts arrive decides in which order single precision sums 4096 samples, 64 x 6e-8 = 4e-6 of their sum, which two
    steps of conjugate gradients enlarge; another trajectory's operator gives another image altogether."""
    return np.linalg.norm(image - other) <= 1e-3 * np.linalg.norm(other)


def page(server, path):
    with urllib.request.urlopen("http://{}:{}{}".format(*server.admin, path), timeout=60) as answer:
        return answer.read().decode()


def operators(server):
    metrics = Metrics(page(server, "/metrics"))
    return {
        what: metrics[f"echotrain_cache_{what}", {"cache": "operator"}] for what in ("hits_total", "misses_total", "entries")
    }


@pytest.mark.parametrize(
    "others",
    [["203.0.113.7"] * 20, [f"2001:db8:0:2::{i:x}" for i in range(1, 21)]],
    ids=["one_address", "addresses_of_one_network"],
)
def test_who_fills_the_cache_of_operators_pushes_out_none_of_another(server, others):
    first = [scan(server, MEASURED, seed) for seed in (1, 2, 3)]
    for i, client in enumerate(others):
        scan(server, client, 100 + i)
    before = operators(server)
    assert before["misses_total"] == 3 + len(others), before
    assert 6 <= before["entries"] <= 16, "the cache is full of them"
    again = [scan(server, MEASURED, seed) for seed in (1, 2, 3)]
    assert operators(server)["misses_total"] == before["misses_total"], "each finds its operator"
    for a, b in zip(first, again, strict=True):
        assert like(a, b)
    scan(server, others[-1], 100 + len(others) - 1)
    assert operators(server)["misses_total"] == before["misses_total"], "so does who came last"


def test_an_operator_that_two_clients_have_is_there_once(server):
    one, other = (scan(server, client, 7) for client in (MEASURED, "203.0.113.7"))
    assert operators(server)["misses_total"] == 1
    assert like(one, other)


MOST_ENTRIES, TINY_FRAMES, MEMORY_MIB = 4096, 8000, 512


def tiny_frames(count):
    """Frames of one readout of four samples, each with a trajectory of its own."""
    pipeline = variant(
        "radial_2d",
        ("name: radial_2d", "name: tiny"),
        ("frame: auto ", "frame: {readouts: 1} "),
        ("method: ramp", "method: none"),
        ("incremental: true", "incremental: false"),
    )
    trajectory = (np.random.default_rng(3).random((count, 4, 2)) - 0.5).astype(np.float32)
    flags, data = wire.FIRST_IN_SLICE | wire.LAST_IN_SLICE, np.ones((1, 4), np.complex64)
    readouts = [wire.acquisition(data, each, flags, center=0, counter=i) for i, each in enumerate(trajectory)]
    header = wire.header(scans.header_xml("radial", (8, 8, 1)))
    return [wire.config_text(pipeline), header, b"".join(readouts), wire.close()]


def test_thousands_of_tiny_plans_are_bounded_and_given_back_at_once(tmp_path):
    """Two reservations, each of all that an address may have, need all memory but an eighth. Where each plan that goes costs a
    walk through all of them, the second one takes 2 to 6 s for 12,000 plans (28 s for 27,000), and others wait meanwhile."""
    options = ("--memory-mib", MEMORY_MIB, "--warm-up", "false", "--backend", "cpu")
    server = Server(tmp_path, *options, environment={"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")})

    def plans():
        return Metrics(page(server, "/metrics"))["echotrain_cache_entries", {"cache": "plan"}]

    def taken():
        return Metrics(page(server, "/metrics"))["echotrain_memory_taken_bytes"]

    reply = wire.exchange(server.address, tiny_frames(TINY_FRAMES), 120)
    assert len(reply.images) == TINY_FRAMES and not reply.errors(), reply.texts
    assert plans() == MOST_ENTRIES
    large = [wire.config_file("cartesian_3d"), wire.header(scans.header_xml("cartesian", (512, 512, 512)))]
    small = scans.cartesian(np.ones((1, 1, 8, 8), np.complex64)).stream(wire.config_file("cartesian_plain"))
    worst = 0
    with contextlib.ExitStack() as stack:
        for source in ("127.0.0.2", "127.0.0.3"):
            connection = stack.enter_context(socket.create_connection(server.address, 60, (source, 0)))
            connection.sendall(b"".join(large))
            begin = time.monotonic()
            assert not wire.exchange(server.address, small, 60, "127.0.0.4").errors()
            page(server, "/livez")
            worst = max(worst, time.monotonic() - begin)
        wait_until(lambda: taken() >= 2 * 7 / 16 * (MEMORY_MIB << 20), 60, "the second reservation")
        assert plans() == 0
    assert server.stop() == 0, server.text()[-4000:]
    in_time(worst, 0.5, "a small scan of another, and /livez")
