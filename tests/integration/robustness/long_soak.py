"""Good scans of several kinds among clients that break off, send nonsense or do not read, all at once.

What the server holds must stay flat. ECHOTRAIN_SOAK_MINUTES says for how long (30) and ECHOTRAIN_SOAK_BACKEND on what
(cpu); with `cuda` the first GPU's memory is watched too, which no other program may use meanwhile.
"""

import collections
import os
import random
import socket
import threading
import time

import numpy as np
import pytest

import reference
import scans
import wire
from chaos import Fault, Proxy, linger_zero
from faulty_clients import KEEPS_NONE, Witness, bits, echo_scan, talk
from programs import Server, ends_well, simulated_scan
from vitals import Vitals, gpu_mib

BACKEND = os.environ.get("ECHOTRAIN_SOAK_BACKEND") or "cpu"
MINUTES = float(os.environ.get("ECHOTRAIN_SOAK_MINUTES") or 30)
CLIENTS = 6
SAMPLE_S = 2
# Caches fill, and the allocator finds its size: two minutes or a fifth of the time, but no more than half of it.
WARM_UP_S = 60 * min(max(2, MINUTES / 5), MINUTES / 2)
# The line fitted to the samples after the warm-up may rise by no more than this from its beginning to its end.
FLAT = {"resident MiB": (0.05, 4), "descriptors": (0, 2), "threads": (0, 2)}  # share of the mean, plus so much
if BACKEND == "cuda":
    FLAT["GPU MiB"] = (0.05, 4)

SCANS = {  # name: (pipeline, simulation, whether the bits are the same however readouts come)
    "cartesian": ("cartesian_plain", "cartesian --matrix 64 --coils 4 --frames 3", True),
    "radial": ("radial_2d", "golden_radial --matrix 48 --coils 4 --readouts 70 --frames 3", False),
    "realtime": ("radial_realtime", "golden_radial --matrix 48 --coils 2 --readouts 150 --frames 1", False),
    "spiral": ("spiral_2d", "spiral --matrix 48 --coils 3 --frames 2", False),
    "cg_sense": ("cg_sense_2d", "golden_radial --matrix 32 --coils 4 --readouts 30 --frames 1", False),
}


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    if BACKEND == "cuda":
        request.getfixturevalue("cuda")
    folder = tmp_path_factory.mktemp("soak")
    options = "--connect-timeout-s 2 --message-timeout-s 2 --send-timeout-s 2 --drain-timeout-s 1 --queue-mib 2"
    options += " --spare-memory-s 5"
    # A scan with flipped bits has a trajectory of its own: the caches of plans must be full when the warm-up is over.
    caches = {f"ECHOTRAIN_{name}_CACHE_MIB": "8" for name in ("PLAN", "OPERATOR", "TRAJECTORY", "DISK")}
    environment = {"ECHOTRAIN_CACHE_DIR": str(folder / "cache"), **caches}
    yield from ends_well(Server(folder, "--backend", BACKEND, "--log-level", "warning", *KEEPS_NONE, *options.split(),
                                environment=environment))  # fmt: skip


def simulated(folder, name):
    pipeline, simulation, exact = SCANS[name]
    path = folder / f"{name}.h5"
    simulated_scan(path, "--trajectory", *simulation.split(), "--noise", 1)
    messages = [wire.config_file(pipeline), *scans.read_messages(path), wire.close()]
    return b"".join(messages), exact


class Soak:
    """The clients' work, each in a loop of its own, and its results."""

    def __init__(self, server, streams, echo):
        self.server, self.streams, self.echo = server, streams, echo
        self.truth = {name: wire.parse(talk(server.address, data)).images for name, (data, _) in streams.items()}
        assert all(self.truth.values())
        self.done, self.failures, self.ended = collections.Counter(), [], threading.Event()
        self.lock = threading.Lock()

    def run(self, seed):
        rng = random.Random(seed)
        fast = [self.good] * 6 + [self.break_off] * 3 + [self.half_close, self.nonsense, self.flipped]
        slow = [self.stall, self.slow_reader, self.no_reader]
        begin = time.monotonic()
        while not self.ended.is_set():
            # Scans that are broken off fill the caches; with slow clients among them that takes more than the warm-up.
            deed = rng.choice(fast if time.monotonic() - begin < WARM_UP_S / 2 else fast + slow)
            try:
                deed(rng)
            except Exception as error:
                with self.lock:
                    self.failures.append(f"{deed.__name__}: {type(error).__name__}: {error}"[:500])
                return
            with self.lock:
                self.done[deed.__name__] += 1

    def stream(self, rng):
        return self.streams[rng.choice(list(self.streams))][0]

    def good(self, rng):
        name = rng.choice(list(self.streams))
        stream, exact = self.streams[name]
        reply = wire.parse(talk(self.server.address, stream))
        assert not reply.errors(), (name, reply.errors())
        truth = self.truth[name]
        if exact:
            assert bits(reply.images) == bits(truth), name
        else:
            assert len(reply.images) == len(truth), name
            assert all(reference.nrmse(a.pixels, b.pixels) < 1e-3 for a, b in zip(reply.images, truth)), name

    def break_off(self, rng):
        stream = self.stream(rng)
        with socket.create_connection(self.server.address, timeout=60) as client:
            client.sendall(stream[: rng.randrange(len(stream) + 1)])
            if rng.random() < 0.5:
                linger_zero(client)

    def half_close(self, rng):
        stream = self.stream(rng)
        with Proxy(self.server.address, up=Fault(half_close_at=rng.randrange(1, len(stream)))) as proxy:
            reply = wire.parse(talk(proxy.address, stream))
        assert any("incomplete" in text for text in reply.texts), reply.texts

    def nonsense(self, rng):
        stream = self.stream(rng)
        talk(self.server.address, stream[: rng.choice((0, rng.randrange(len(stream))))] + rng.randbytes(1 << 16))

    def flipped(self, rng):
        """Any well-formed reply is right."""
        stream = bytearray(self.stream(rng))
        for _ in range(rng.randrange(1, 50)):
            stream[rng.randrange(len(stream))] ^= 1 << rng.randrange(8)
        talk(self.server.address, bytes(stream))

    def stall(self, rng):
        stream = self.stream(rng)
        with socket.create_connection(self.server.address, timeout=60) as client:
            client.sendall(stream[: rng.randrange(1, 1000)])
            while client.recv(1 << 16):  # until the server has had enough
                pass

    def slow_reader(self, rng):
        with Proxy(self.server.address, down=Fault(rate=8e6, fragment=1 << 14), receive_buffer=1 << 14) as proxy:
            reply = wire.parse(talk(proxy.address, b"".join(self.echo[0])))
        assert bits(reply.images) == self.echo[1]

    def no_reader(self, rng):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            client.settimeout(60)
            client.connect(self.server.address)
            try:
                client.sendall(b"".join(self.echo[0]) * 2)
                while client.send(b"\0"):
                    time.sleep(0.05)
            except OSError as error:
                assert not isinstance(error, TimeoutError), "a client that does not read is not cut off"


def fitted(times, values):
    """(slope, standard error of the slope) by least squares."""
    x, y = np.asarray(times) - np.mean(times), np.asarray(values, float)
    slope = x @ (y - y.mean()) / (x @ x)
    residual = y - y.mean() - slope * x
    return slope, np.sqrt(residual @ residual / (len(x) - 2) / (x @ x))


def test_soak(server, tmp_path, capsys):
    streams = {name: simulated(tmp_path, name) for name in SCANS}
    soak = Soak(server, streams, echo_scan(30))
    witness, vitals = Witness(server), Vitals(server)
    clients = [threading.Thread(target=soak.run, args=(seed,), daemon=True) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    samples, begin = [], time.monotonic()
    while time.monotonic() - begin < 60 * MINUTES and not soak.failures:
        time.sleep(SAMPLE_S)
        assert server.process.poll() is None, server.text()[-4000:]
        held = [vitals.resident() / 2**20, vitals.descriptors(), vitals.threads()]
        samples.append((time.monotonic() - begin, *held, *([gpu_mib()] if BACKEND == "cuda" else [])))
    soak.ended.set()
    for client in clients:
        client.join(120)
    assert not soak.failures, soak.failures
    assert "internal error" not in server.text()

    kept = np.array([sample for sample in samples if sample[0] > WARM_UP_S])
    span = kept[-1, 0] - kept[0, 0]
    connections = f"{sum(soak.done.values())} connections: {dict(soak.done)}"
    lines = [f"soak: {MINUTES:g} minutes on {BACKEND}, {CLIENTS} clients, {connections}"]
    steep = []
    for column, (name, (share, floor)) in enumerate(FLAT.items(), 1):
        values = kept[:, column]
        slope, error = fitted(kept[:, 0], values)
        allowed = share * values.mean() + floor
        lines.append(
            f"{name}: mean {values.mean():.1f}, from {values.min():.0f} to {values.max():.0f}; slope "
            f"{3600 * slope:+.2f} +- {3600 * error:.2f} per hour, rise {slope * span:+.2f} in {span / 60:.1f} minutes, "
            f"{allowed:.1f} allowed"
        )
        if slope * span > allowed:
            steep.append(lines[-1])
    witness.at_rest(60)
    idle_mib = vitals.resident() / 2**20
    lines.append(f"afterwards: threads, descriptors {vitals.counts()}, as at first; {idle_mib:.0f} MiB")
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert not steep, steep
    witness.scan_is_good()
