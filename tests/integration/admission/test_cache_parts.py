"""Caches have parts: clients that fill them push out nothing of another that has no more than its part. Clients are told
apart by the PROXY protocol."""

import urllib.request

import numpy as np
import pytest

import trajectories
import wire
from exposition import Metrics
from programs import Server

BALANCER = "127.0.0.3"
MATRIX = 24  # an operator is half of 48^3 complex numbers, and 64 x 64 positions: 0.6 MB
MEASURED = "2001:db8:0:1::1"


@pytest.fixture
def server(tmp_path):
    options = ("--operator-cache-mib", 8, "--proxy-from", BALANCER, "--warm-up", "false", "--backend", "cpu")
    server = Server(tmp_path, *options, environment={"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")})
    yield server
    assert server.stop() == 0, server.text()[-4000:]
    assert "internal error" not in server.text()


def scan(server, client, seed):
    messages = trajectories.random_3d(seed, MATRIX, coils=1)
    reply = wire.exchange(server.address, messages, 60, BALANCER, wire.proxy_header(client))
    assert not reply.errors() and len(reply.images) == 1, reply.texts
    return reply.images[0].pixels


def like(image, other):
    """How readouts arrive decides in which order single precision sums 4096 samples, 64 x 6e-8 = 4e-6 of their sum, which two
    steps of conjugate gradients enlarge; another trajectory's operator gives another image altogether."""
    return np.linalg.norm(image - other) <= 1e-3 * np.linalg.norm(other)


def operators(server):
    with urllib.request.urlopen("http://{}:{}/metrics".format(*server.admin), timeout=10) as answer:
        metrics = Metrics(answer.read().decode())
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
