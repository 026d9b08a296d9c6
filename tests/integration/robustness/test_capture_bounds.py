"""What peers can make the server write to the disk of its captures: measured there, and in what the process writes."""

import contextlib
import pathlib
import re
import socket
import threading
import time

import numpy as np
import pytest

import scans
import wire
from faulty_clients import bits
from programs import Server, run_client
from vitals import wait_until

MIB = 1 << 20
NOISE = 1 << 18  # the log's lines, and what the file system takes for a folder
COILS, MATRIX = 16, 128


class Disk:
    """The most that a server's captures have taken of the disk, sampled, and all that it has written since."""

    def __init__(self, server, folder):
        self.io = pathlib.Path(f"/proc/{server.process.pid}/io")
        self.folder, self.peak, self.over = folder, 0, False
        self.before = self.counted()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def counted(self):
        return int(re.search(r"write_bytes: (\d+)", self.io.read_text())[1])

    def now(self):
        total = 0
        for path in self.folder.iterdir():
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                pass
        return total

    def sample(self):
        while not self.over:
            self.peak = max(self.peak, self.now())
            time.sleep(0.002)

    def most(self):
        """Stops sampling. Where the kernel counts bytes for the disk (not on a tmpfs), what was removed again counts."""
        self.over = True
        self.thread.join()
        return max(self.peak, self.counted() - self.before)


@pytest.fixture
def start(tmp_path):
    servers = []

    def start(*arguments):
        server = Server(tmp_path, "--backend", "cpu", "--capture-directory", tmp_path / "captures", *arguments)
        server.peers = []
        servers.append(server)
        return server

    yield start
    for server in servers:
        for peer in server.peers:
            peer.close()
        assert server.stop() == 0, server.text()


def flood(server, opening, mebibytes, source="127.0.0.1", seconds=20.0):
    """Connects from `source`, sends `opening` and zeros until the server takes no more; the open socket, what it took."""
    peer = socket.create_connection(server.address, timeout=10, source_address=(source, 0))
    server.peers.append(peer)
    sent = 0
    try:
        peer.sendall(opening)
        peer.settimeout(1)
        chunk = bytes(MIB)
        end = time.monotonic() + seconds
        while sent < mebibytes * MIB and time.monotonic() < end:
            sent += peer.send(chunk)
    except (TimeoutError, OSError):
        pass
    return peer, sent


def scan(frames=1, seed=3):
    rng = np.random.default_rng(seed)
    shape = (frames, COILS, MATRIX, MATRIX)
    return scans.cartesian(rng.standard_normal((*shape, 2)).astype("<f4").view("<c8")[..., 0])


def serves(server, messages):
    reply = wire.exchange(server.address, messages)
    assert not reply.texts and len(reply.images) == 1, reply.texts


def captures(folder):
    return sorted((folder / "captures").glob("*.mrd"))


def test_an_address_that_is_not_allowed_writes_nothing(start, tmp_path):
    server = start("--allow", "127.0.0.1/32")
    disk = Disk(server, tmp_path / "captures")
    for opening in (b"", b"".join(scan().stream(wire.config_file("cartesian_plain"))[:-1])):
        peer, _ = flood(server, opening, 48, "127.0.0.2")
        time.sleep(0.2)
        peer.close()
    assert disk.most() < NOISE
    assert "not-allowed" in server.text()
    serves(server, scan().stream(wire.config_file("cartesian_plain")))


def test_a_peer_without_a_token_writes_nothing(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    server = start("--token-file", tokens, "--default-pipeline", "cartesian_plain")
    disk = Disk(server, tmp_path / "captures")
    rest = scan().stream(b"")[1:-1]
    texts = wire.text("x" * (MIB - 100)) * 40
    for opening in (
        b"".join([wire.config_file("cartesian_plain"), *rest]),
        b"".join([wire.config_text("token: fedcba9876543210\nuse: cartesian_plain"), *rest]),
        b"".join(rest),
        wire.config_text("token: fedcba9876543210\nuse: cartesian_plain") + b"\xff" * 1000,
        texts,  # before any configuration
        wire.config_file("cartesian_plain") + texts,
    ):
        peer, _ = flood(server, opening, 48)
        time.sleep(0.2)
        peer.close()
    assert disk.most() < NOISE
    wait_until(lambda: not captures(tmp_path), what="an empty folder")
    serves(server, scan().stream(wire.config_text("token: 0123456789abcdef\nuse: cartesian_plain")))


def test_a_client_for_whom_there_is_no_place_writes_nothing(start, tmp_path):
    server = start("--cpu-scans", 1, "--max-waiting", 1, "--pause-s", 600)
    opening = b"".join(scan().stream(wire.config_file("cartesian_plain"))[:4])
    flood(server, opening, 0)
    server.wait_for("config: pipeline")
    wait_until(lambda: len(captures(tmp_path)) == 1, what="the first scan")
    flood(server, opening, 0)
    server.wait_for("waiting for a place")
    wait_until(lambda: len(captures(tmp_path)) == 2, what="the one in line")
    disk = Disk(server, tmp_path / "captures")
    peer, _ = flood(server, opening, 48)
    time.sleep(0.2)
    assert disk.most() < NOISE
    assert "busy" in peer.recv(1 << 16).decode(errors="replace")


def test_what_a_waiting_client_sends_is_bounded(start, tmp_path):
    """Beyond the bound TCP holds it back; it loses nothing and its scan is done when there is a place."""
    server = start("--cpu-scans", 1, "--capture-waiting-mib", 16, "--pause-s", 600)
    holder, _ = flood(server, b"".join(scan().stream(wire.config_file("cartesian_plain"))[:4]), 0)
    wait_until(lambda: len(captures(tmp_path)) == 1, what="the first scan")
    disk = Disk(server, tmp_path / "captures")
    scan_of_64 = scan(frames=32, seed=4)
    stream = b"".join(scan_of_64.stream(wire.config_file("cartesian_plain")))
    with socket.create_connection(server.address, timeout=30) as peer:
        peer.settimeout(1)
        sent, before = 0, -1
        while disk.peak != before:  # until nothing moves for a second
            before = disk.peak
            with contextlib.suppress(TimeoutError):
                while sent < len(stream):
                    sent += peer.send(stream[sent : sent + MIB])
        assert sent < len(stream)
        most = disk.most()
        print(f"{most / MIB:.1f} MiB on the disk, {sent / MIB:.1f} MiB taken")
        assert 16 * MIB - NOISE <= most < 18 * MIB
        holder.close()
        peer.settimeout(60)
        sender = threading.Thread(target=peer.sendall, args=(stream[sent:],), daemon=True)
        sender.start()
        received = []
        while chunk := peer.recv(1 << 20):
            received.append(chunk)
        sender.join(10)
    reply = wire.parse(b"".join(received))
    assert len(reply.images) == 32 and not reply.errors(), reply.texts
    assert captures(tmp_path)[-1].read_bytes() == stream
    assert bits(reply.images) == bits(wire.exchange(server.address, [stream]).images)


@pytest.mark.parametrize("when_full", ["stop_capture", "end_session"])
def test_a_capture_has_a_bound(start, tmp_path, when_full):
    server = start("--capture-max-mib", 3, "--capture-when-full", when_full)
    disk = Disk(server, tmp_path / "captures")
    stream = b"".join(scan(frames=4).stream(wire.config_file("cartesian_plain")))
    reply = wire.exchange(server.address, [stream])
    (capture,) = captures(tmp_path)
    assert disk.most() < 3 * MIB + NOISE
    assert capture.read_bytes() == stream[: 3 * MIB]
    if when_full == "stop_capture":
        assert len(reply.images) == 4
        assert [text for text in reply.texts if "WARNING" in text and "it has reached capture.max_mib = 3" in text]
    else:
        assert any("capture: the raw data cannot be kept: it has reached" in text for text in reply.errors())
    done = run_client("verify", capture)
    assert done.returncode == 0 and "right: all 3145728 bytes" in done.stdout, done.stdout


def test_space_stays_free(start, tmp_path):
    server = start("--capture-reserve-mib", 1 << 30)  # more than there is
    disk = Disk(server, tmp_path / "captures")
    reply = wire.exchange(server.address, scan().stream(wire.config_file("cartesian_plain")))
    assert len(reply.images) == 1
    assert any("capture.reserve_mib = 1073741824 stay free" in text for text in reply.texts), reply.texts
    assert disk.most() < NOISE
