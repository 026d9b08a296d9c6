"""Servers that are killed while clients send: what was acknowledged must be there, and be right."""

import re
import signal
import socket
import struct
import threading
import time

import numpy as np

import scans
import wire
from programs import Server, run_client

COILS, MATRIX, FRAMES = 8, 96, 4
READOUT = 2 + 340 + 8 * COILS * MATRIX


class Clients:
    """Sends one scan after another until the server is gone. Each has samples of its own, so that its capture tells
    which it is; `acknowledged` has the numbers of those that were answered with CLOSE and no word of a capture.
    """

    def __init__(self, server, rng):
        shape = (FRAMES, COILS, MATRIX, MATRIX, 2)
        scan = scans.cartesian(rng.standard_normal(shape).astype("<f4").view("<c8")[..., 0])
        self.opening = wire.config_file("cartesian_2d") + wire.header(scan.xml)
        self.data = b"".join(scan.messages)
        self.server, self.begun, self.acknowledged, self.failure = server, 0, [], None
        self.thread = threading.Thread(target=self.send_all, daemon=True)
        self.thread.start()

    def stream(self, number):
        """The first sample says the number."""
        at = 2 + 340
        return self.opening + self.data[:at] + struct.pack("<f", number) + self.data[at + 4 :] + wire.close()

    def send_all(self):
        try:
            while True:
                stream = self.stream(self.begun)
                self.begun += 1
                self.send(stream)
                self.acknowledged.append(self.begun - 1)
        except OSError:  # the server is gone
            pass
        except AssertionError as failure:
            self.failure = failure

    def send(self, stream):
        with socket.create_connection(self.server.address, timeout=20) as connection:
            for at in range(0, len(stream), 1 << 18):
                connection.sendall(stream[at : at + (1 << 18)])
                time.sleep(0.001)
            received = []
            while chunk := connection.recv(1 << 20):
                received.append(chunk)
        received = b"".join(received)
        if not received.endswith(wire.close()):
            raise ConnectionResetError
        reply = wire.parse(received)
        assert len(reply.images) == FRAMES and not reply.texts, reply.texts


def kill_once(folder, rng, longest_s=0.8):
    """Starts a server, kills it at a random moment, and checks every capture. Returns counts of what was found."""
    captures = folder / "captures"
    server = Server(folder, "--backend", "cpu", "--capture-directory", captures, "--capture-sync", "before_close",
                    "--capture-reserve-mib", "0")  # fmt: skip
    clients = Clients(server, rng)
    time.sleep(rng.uniform(0.02, longest_s))
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(10)
    server.log.close()
    clients.thread.join(30)
    assert not clients.thread.is_alive() and not clients.failure, clients.failure
    found = {int(re.search(r"-s(\d+)-", path.name)[1]) - 1: path for path in captures.glob("*.mrd")}
    counts = {"acknowledged": 0, "cut": 0}
    for number in clients.acknowledged:
        assert found[number].read_bytes() == clients.stream(number), number
    if clients.acknowledged:
        done = run_client("verify", *(found.pop(number) for number in clients.acknowledged))
        assert done.returncode == 0, done.stdout
        counts["acknowledged"] = len(clients.acknowledged)
    for number, path in found.items():
        counts["cut"] += rescue(path, clients.stream(number), len(clients.opening))
    for path in captures.iterdir():
        path.unlink(missing_ok=True)  # the server may remove it, too
    return counts


def rescue(path, stream, opening):
    """What was not acknowledged: the beginning of what was sent, of which all whole readouts come back."""
    data = path.read_bytes()
    assert stream.startswith(data)
    done = run_client("verify", path)
    assert done.returncode == (0 if "right: all" in done.stdout else 1), done.stdout
    assert "damaged" not in done.stdout, done.stdout
    if len(data) < opening + READOUT:
        return 0
    whole = min(len(data) - opening, FRAMES * MATRIX * READOUT) // READOUT
    done = run_client("convert", path, path.with_suffix(".h5"))
    assert done.returncode == 0 and f"{whole} readouts" in done.stdout, done.stdout + done.stderr
    _, _, _, lines = scans.read_acquisitions(path.with_suffix(".h5"))
    sent = np.frombuffer(stream[opening : opening + whole * READOUT], np.uint8).reshape(whole, READOUT)[:, 342:]
    np.testing.assert_array_equal(np.stack(lines).reshape(whole, -1).view(np.uint8), sent)
    return 1
