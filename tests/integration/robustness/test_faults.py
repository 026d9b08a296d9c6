"""Allocations, writes and accepts that fail end one session at most, and the next one has the same bits as ever."""

import errno
import random
import resource
import socket
import subprocess

import numpy as np
import pytest

import reference
import scans
import wire
from faults import FaultyServer
from faulty_clients import KEEPS_NONE, Witness, bits, echo_scan, talk
from programs import ADDRESS, BIN, Server, ends_well, variant

FOR_GOOD = 1 << 30  # more calls than a scan makes
MEMORY_NOISE = 16 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Memory of ended sessions, kept for later ones, must not hide what is lost.
    yield from ends_well(FaultyServer(tmp_path_factory.mktemp("faulty"), "--backend", "cpu", "--spare-memory-s", 0.5,
                                      *KEEPS_NONE))  # fmt: skip


@pytest.fixture(autouse=True)
def unharmed(server, witness):
    yield
    for kind in (server.allocation, server.sending, server.accepting):
        kind.stop()
    witness.recovers(MEMORY_NOISE)


def cartesian(witness, _):
    return witness.messages


def radial(pipeline, changes=()):
    """A scan per seed, each of another trajectory, so that each makes plans of its own."""

    def make(_, seed):
        rng = np.random.default_rng(seed)
        angle = np.arange(60)[:, None] * np.pi * 0.618 + 0.01 * seed
        line = np.linspace(-0.5, 0.5, 48, endpoint=False)[None, :, None]
        trajectory = (line * np.stack([np.cos(angle), np.sin(angle)], -1)).astype(np.float32)
        data = rng.standard_normal((60, 4, 48, 2)).astype(np.float32).view(np.complex64)[..., 0]
        return scans.non_cartesian("radial", (32, 32, 1), trajectory, data).stream(
            wire.config_text(variant(pipeline, *changes))
        )

    return make


PLANNED = ("incremental: true", "incremental: false")  # gridded as the readouts come, bits depend on how they come


@pytest.mark.parametrize(
    "make, size, count, rounds, exact",
    [
        (cartesian, 1, 1, 80, True),
        (cartesian, 4096, FOR_GOOD, 80, True),
        (radial("radial_2d", [PLANNED]), 1, 1, 60, True),
        (radial("radial_2d", [PLANNED]), 4096, FOR_GOOD, 60, True),
        (radial("radial_realtime"), 4096, FOR_GOOD, 30, False),
        (radial("cg_sense_2d"), 4096, FOR_GOOD, 40, False),
    ],
    ids=["cartesian_one", "cartesian_all", "radial_one", "radial_all", "realtime_all", "cg_sense_all"],
)
def test_allocations_fail(server, twin, witness, make, size, count, rounds, exact):
    """The Nth allocation of at least `size` bytes during a scan, or all from the Nth on until the scan has ended."""
    server.allocation.count(size)
    assert not wire.exchange(server.address, make(witness, 0)).errors()
    witness.at_rest()
    calls = server.allocation["seen"]
    refused = served = 0
    for number in sorted(random.Random(calls).sample(range(1, calls + 1), min(rounds, calls))):
        messages = make(witness, number)
        truth = wire.exchange(twin.address, messages)
        server.allocation.fail(number, count, size)
        received = talk(server.address, b"".join(messages))
        server.allocation.stop()
        assert not server.died(), f"allocation {number} of {calls}:\n{server.text()[-2000:]}"
        if received:  # without memory for a session, the connection ends without a word
            reply = wire.parse(received)
            served += not reply.errors()
            refused += len(reply.errors())
            assert all("resources: " in text for text in reply.errors()), (number, reply.texts)
            same(reply.images, truth.images[: len(reply.images)] if reply.errors() else truth.images, exact)
        same(wire.exchange(server.address, messages).images, truth.images, exact)
        witness.scan_is_good()
    # The reserve mostly makes up for one failed call; when all fail, nothing can be reconstructed.
    assert refused > served if count == FOR_GOOD else served > refused, (refused, served)


def same(images, truth, exact):
    assert len(images) == len(truth)
    if exact:
        assert bits(images) == bits(truth)
    else:
        assert all(reference.nrmse(a.pixels, b.pixels) < 1e-4 for a, b in zip(images, truth))


def test_memory_runs_out(tmp_path, twin):
    """Without injection: the process may have only a little more address space than it has."""
    server = Server(tmp_path, "--backend", "cpu", *KEEPS_NONE)
    witness = Witness(server)
    rng = np.random.default_rng(1)
    kspace = rng.standard_normal((1, 32, 512, 512, 2)).astype(np.float32).view(np.complex64)[..., 0]  # 64 MiB
    stream = b"".join(scans.cartesian(kspace).stream(wire.config_file("cartesian_plain")))
    truth = bits(wire.parse(talk(twin.address, stream)).images)
    unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
    refused = 0
    for spare in (0, 8 << 20, 32 << 20):
        size = witness.vitals.virtual()
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size + spare, unlimited[1]))
        reply = talk(server.address, stream)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, unlimited)
        errors = wire.parse(reply).errors() if reply else ["resources: "]
        if errors:
            refused += 1
            assert len(errors) == 1 and "resources: " in errors[0], (spare, errors)
        else:  # memory of earlier scans was enough
            assert bits(wire.parse(reply).images) == truth, spare
        witness.scan_is_good()
        assert bits(wire.parse(talk(server.address, stream)).images) == truth
    assert refused > 0
    witness.at_rest()
    assert server.stop() == 0
    assert "internal error" not in server.text()


@pytest.fixture(scope="module")
def echo():
    return echo_scan(40)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EPIPE, errno.ENOBUFS], ids=errno.errorcode.get)
def test_a_write_fails(server, witness, echo, error):
    """The client gets what was sent before, and the connection ends."""
    stream = b"".join(echo[0])
    server.sending.count()
    whole = talk(server.address, stream)
    assert bits(wire.parse(whole).images) == echo[1]
    calls = server.sending["seen"]
    assert calls >= 3  # of 16 messages at most each: Writer::write()
    for number in range(1, calls + 1):
        server.sending.fail(number, error=error)
        received = talk(server.address, stream)
        server.sending.stop()
        # There may be fewer writes this time: data that are ready together go out together.
        assert whole.startswith(received) and (len(received) < len(whole)) == (server.sending["fired"] == 1)
        witness.scan_is_good()
        witness.at_rest()


def test_interrupted_writes(server, echo):
    stream = b"".join(echo[0])
    for number in range(1, 6):
        server.sending.fail(number, error=errno.EINTR)
        assert bits(wire.parse(talk(server.address, stream)).images) == echo[1]


ACCEPT_ERRORS = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EPERM]


@pytest.mark.parametrize("error", ACCEPT_ERRORS, ids=errno.errorcode.get)
def test_accepting_fails(server, witness, error):
    """The server says so, waits a moment and goes on; the client only waits a little longer."""
    before = server.text().count("cannot accept")
    server.accepting.fail(1, 3, error=error)
    witness.scan_is_good()
    assert server.accepting["fired"] == 3
    assert server.text().count("cannot accept") == before + 3
    server.accepting.fail(1, error=errno.ECONNABORTED)
    assert talk(server.address, witness.stream) == b""  # this client is gone, and the next one is served at once
    witness.scan_is_good()


def test_no_memory_for_a_connection(server, witness):
    """Each allocation while a connection is accepted fails in turn: small ones have a reserve, large ones end it."""
    for size in (1, 512, 4096):
        for number in range(1, 20):
            server.allocation.fail(number, count=1, size=size)
            with socket.create_connection(server.address, timeout=60) as client:
                client.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass
            server.allocation.stop()
            witness.scan_is_good()


def test_descriptors_run_out(tmp_path):
    """Descriptors really run out: clients wait until another one has gone, and then are served."""
    server = Server(tmp_path, "--backend", "cpu", *KEEPS_NONE)
    witness = Witness(server)
    unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (witness.idle[1] + 4, unlimited[1]))
    clients = [socket.create_connection(server.address, timeout=60) for _ in range(8)]
    server.wait_for("cannot accept a connection: Too many open files")
    for client in clients[:4]:
        client.close()
    for client in clients[4:]:
        client.sendall(witness.stream)
        assert bits(wire.parse(b"".join(iter(lambda: client.recv(1 << 16), b""))).images) == witness.truth
        client.close()
    witness.recovers(MEMORY_NOISE)
    assert server.stop() == 0


def test_the_log_cannot_be_written(witness):
    """A full disk under the log costs the log only."""
    command = [str(c) for c in (BIN / "echotrain-server", "--port", "0", "--backend", "cpu", "--log-level", "trace")]
    with open("/dev/full", "wb") as full, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=full) as process:
        try:
            host, port = ADDRESS.search(process.stdout.readline().decode()).groups()
            for _ in range(3):
                assert bits(wire.exchange((host, int(port)), witness.messages).images) == witness.truth
        finally:
            process.terminate()
        assert process.wait(20) == 0
