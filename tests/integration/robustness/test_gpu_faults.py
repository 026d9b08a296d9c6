"""A GPU's allocations that fail, one or all from one on, end one session at most; the next has the images as ever. Where they fail for
another reason than memory, the GPU may be lost."""

import random

import numpy as np
import pytest

import reference
import scans
import wire
from faults import FaultyServer
from faulty_clients import KEEPS_NONE, Witness, talk
from programs import Server, ends_well, variant
from vitals import gpu_mib

FOR_GOOD = 1 << 30  # more calls than a scan makes
ROUNDS = 25
MEMORY_NOISE_MIB = 64  # the driver's own: it takes memory in blocks, and code is loaded when it is used first


@pytest.fixture(scope="module")
def server(cuda, tmp_path_factory):
    # Memory of ended sessions, kept for later ones, would leave few calls to fail.
    yield from ends_well(FaultyServer(tmp_path_factory.mktemp("faulty"), "--backend", "cuda", "--spare-memory-s", 0.5,
                                      *KEEPS_NONE))  # fmt: skip


@pytest.fixture(scope="module")
def twin(cuda, tmp_path_factory):
    """The same server without faults, whose images are the truth."""
    caches = {f"ECHOTRAIN_{name}_CACHE_MIB": "0" for name in ("PLAN", "OPERATOR", "DISK")}
    yield from ends_well(Server(tmp_path_factory.mktemp("twin"), "--backend", "cuda", environment=caches))


@pytest.fixture(scope="module")
def witness(server):
    for make in SCANS.values():  # threads of the shared pool start when they are first needed
        assert not wire.exchange(server.address, make(30)).errors()
    return Witness(server)


def cartesian(size):
    rng = np.random.default_rng(size)
    kspace = rng.standard_normal((2, 3, size, size, 2)).astype(np.float32).view(np.complex64)[..., 0]
    return scans.cartesian(kspace).stream(wire.config_file("cartesian_plain"))


def radial(pipeline):
    def make(size):
        """A scan with a size and a trajectory of its own, so that it makes plans of its own."""
        rng = np.random.default_rng(size)
        angle = np.arange(60)[:, None] * np.pi * 0.618 + 0.01 * size
        line = np.linspace(-0.5, 0.5, 48, endpoint=False)[None, :, None]
        trajectory = (line * np.stack([np.cos(angle), np.sin(angle)], -1)).astype(np.float32)
        data = rng.standard_normal((60, 4, 48, 2)).astype(np.float32).view(np.complex64)[..., 0]
        return scans.non_cartesian("radial", (size, size, 1), trajectory, data).stream(
            wire.config_text(variant(pipeline))
        )

    return make


SCANS = {"cartesian": cartesian, **{name: radial(name) for name in ("radial_2d", "radial_realtime", "cg_sense_2d")}}


def close(images, truth):
    assert len(images) == len(truth)
    # Sums by atomic operations, and by readouts as they come, are rounded in another order.
    assert all(reference.nrmse(a.pixels, b.pixels) < 1e-4 for a, b in zip(images, truth))


def tried(server, twin, kind, messages, number, count):
    """The reply's errors of a scan in which allocation `number` of `kind`, or all from there on, fail."""
    truth = wire.exchange(twin.address, messages)
    assert not truth.errors(), truth.texts
    kind.fail(number, count)
    received = talk(server.address, b"".join(messages))
    fired, seen = kind["fired"], kind["seen"]
    kind.stop()
    # How many calls a scan makes depends on what the scan before has left.
    assert fired > 0 or seen < number, (number, seen)
    assert not server.died(), f"allocation {number}:\n{server.text()[-2000:]}"
    reply = wire.parse(received)
    assert all("resources: " in text for text in reply.errors()), (number, reply.texts)
    close(reply.images, truth.images[: len(reply.images)] if reply.errors() else truth.images)
    again = wire.exchange(server.address, messages)
    assert not again.errors(), again.texts
    close(again.images, truth.images)
    return fired, reply.errors()


@pytest.mark.parametrize("count", [1, FOR_GOOD], ids=["one", "all"])
@pytest.mark.parametrize("name", SCANS)
def test_device_allocations_fail(server, twin, witness, name, count):
    make, kind = SCANS[name], server.device_allocation
    kind.count()
    assert not wire.exchange(server.address, make(30)).errors()
    calls = kind["seen"]
    assert calls > 0, "no call of the driver was seen"
    before = gpu_mib()
    numbers = sorted(random.Random(calls).sample(range(1, calls + 1), min(ROUNDS, calls)))
    struck = refused = 0
    for i, number in enumerate(numbers):
        fired, errors = tried(server, twin, kind, make(32 + 2 * i), number, count)
        struck += fired > 0
        refused += bool(errors)
    assert struck > len(numbers) // 2
    # After one failure, kept memory is given back and the call repeated; when all calls fail, that does not help.
    assert refused == (struck if count == FOR_GOOD else 0)
    witness.scan_is_good()
    witness.at_rest()
    print(f"{name}: {calls} calls, {struck} failed, {refused} refused; {before:g} MiB before, {gpu_mib():g} after")
    assert gpu_mib() < before + MEMORY_NOISE_MIB


UNKNOWN = 999  # CUDA_ERROR_UNKNOWN: what calls give when a device has gone, and no word that it has


def test_a_gpu_that_fails_for_a_new_process_too_ends_the_server(cuda, tmp_path):
    """The process that tries the GPU is a child of the server and has its faults."""
    server = FaultyServer(tmp_path, "--backend", "cuda", "--spare-memory-s", 0.5, *KEEPS_NONE)
    assert not wire.exchange(server.address, cartesian(48)).errors()
    server.device_allocation.fail(1, FOR_GOOD, error=UNKNOWN)
    for i in range(3):
        reply = wire.parse(talk(server.address, b"".join(cartesian(96 + 32 * i))))
        assert all("resources: " in text for text in reply.errors()) and reply.errors(), reply.texts
    assert server.process.wait(120) == 3, server.text()
    assert "a GPU is lost: 3 scans in a row have failed on GPU 0" in server.text()


def test_scans_that_succeed_between_leave_the_server(cuda, tmp_path):
    server = FaultyServer(tmp_path, "--backend", "cuda", "--spare-memory-s", 0.5, *KEEPS_NONE)
    for i in range(3):
        assert not wire.exchange(server.address, cartesian(48)).errors()
        server.device_allocation.fail(1, FOR_GOOD, error=UNKNOWN)
        for size in (96 + 32 * i, 112 + 32 * i):  # two in a row, and then one that succeeds
            assert wire.parse(talk(server.address, b"".join(cartesian(size)))).errors()
        server.device_allocation.stop()
    assert not wire.exchange(server.address, cartesian(48)).errors()
    assert server.stop() == 0, server.text()
    assert "in a row" not in server.text()


@pytest.mark.parametrize("count", [1, FOR_GOOD], ids=["one", "all"])
def test_pinned_allocations_fail(cuda, twin, tmp_path, count):
    """Blocks are kept for good, so only a server's first scan asks for all of them."""
    messages = cartesian(48)

    def first_scan(number, play):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = FaultyServer(folder, "--backend", "cuda")
        result = play(server, server.pinned_allocation)
        assert server.stop() == 0, server.text()
        assert "internal error" not in server.text(), server.text()
        return result

    def counted(server, kind):
        kind.count()
        assert not wire.exchange(server.address, messages).errors()
        return kind["seen"]

    calls = first_scan(0, counted)
    assert calls > 0, "no call of the driver was seen"
    struck = refused = 0
    for number in range(1, calls + 1):
        fired, errors = first_scan(number, lambda *faulty: tried(faulty[0], twin, faulty[1], messages, number, count))
        struck += fired > 0  # the number of calls depends on how soon blocks are free again
        refused += bool(errors)
    print(f"{calls} calls, {struck} of them failed, {refused} refused")
    assert struck >= calls - 1 and refused == (struck if count == FOR_GOOD else 0)
