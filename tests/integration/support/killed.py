"""Servers that are killed while clients send: what was acknowledged must be there, and be right."""

import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import numpy as np
import pytest

import scans
import wire
from orthanc import wait_until
from programs import Server, free_ports, run_client, started

COILS, MATRIX, FRAMES = 8, 96, 4
READOUT = 2 + 340 + 8 * COILS * MATRIX


class Clients:
    """Sends one scan after another until the server is gone. Each has samples of its own, so that its capture tells
    which it is; `acknowledged` has the numbers of those that were answered with CLOSE and no word of a capture.
    """

    def __init__(self, server, rng):
        shape = (FRAMES, COILS, MATRIX, MATRIX, 2)
        scan = scans.cartesian(rng.standard_normal(shape).astype("<f4").view("<c8")[..., 0])
        self.opening = wire.config_file("cartesian_plain") + wire.header(scan.xml)
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


NOISE = 256  # samples
STORESCP = shutil.which("storescp")


class Peer:
    """DCMTK's storescp: a real peer, which names files by their instance's UID."""

    def __init__(self, folder):
        if STORESCP is None:
            pytest.skip("dcmtk is not installed (./run setup test)")
        self.folder = folder
        folder.mkdir()
        (self.port,) = free_ports(1)
        self.process = started(subprocess.Popen([STORESCP, "-od", str(folder), str(self.port)], stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL))  # fmt: skip

    def uids(self):
        return {name.split(".", 1)[1] for name in os.listdir(self.folder) if name.startswith("MR.")}

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class Stores:
    """Servers that keep noise covariances and send images to a DICOM peer: what a client was told is kept must be there,
    and no image that has reached the spool may get lost or damaged. One cache folder, one spool and one peer, and the servers that use them one after the other."""

    coils, matrix = 4, 48

    def __init__(self, folder, rng):
        self.folder, self.rng, self.scans = folder, rng, 0
        self.peer = Peer(folder / "peer")
        self.spool, self.seen = folder / "spool", folder / "seen"
        self.seen.mkdir()
        self.kept = {}  # measurement ID: its noise, once the client was told that all is done
        white = rng.standard_normal((1, self.coils, self.matrix, self.matrix, 2)).astype("<f4").view("<c8")[..., 0]
        self.scan = scans.cartesian(white)

    def start(self):
        return Server(self.folder, "--backend", "cpu", "--dicom-spool", self.spool, "--dicom-retry-s", 1,
                      "--dicom-peers", f"pacs=ANY@127.0.0.1:{self.peer.port}", "--dicom-send-to", "pacs",
                      environment={"ECHOTRAIN_CACHE_DIR": str(self.folder / "cache")})  # fmt: skip

    def send_all(self, server):
        """One scan with noise and images after the other, until the server is gone."""
        while True:
            self.scans += 1
            name = f"killed-{self.scans}"
            noise = self.rng.standard_normal((self.coils, NOISE, 2)).astype("<f4").view("<c8")[..., 0]
            about = f"<measurementInformation><measurementID>{name}</measurementID>"
            about += "<patientPosition>HFS</patientPosition></measurementInformation>"
            begin = "<acquisitionSystemInformation>"
            xml = self.scan.xml.replace(begin, about + begin)
            opening = [wire.config_file("cartesian_plain"), wire.header(xml), wire.acquisition(noise, flags=wire.NOISE)]
            try:
                reply = wire.exchange(server.address, [*opening, *self.scan.messages, wire.close()], 20)
            except (OSError, AssertionError):  # the server is gone; a reply without its end is an AssertionError
                return
            if len(reply.images) != 1 or reply.errors():
                self.failure = reply.texts
                return
            self.kept[name] = noise
            time.sleep(0.02)  # storescp takes 25 images in a second

    def watch(self, stop):
        """Every file that has its name in the spool gets another one, by which it can be looked at for ever."""
        waiting = self.spool / "pacs"
        while not stop.is_set():
            for name in os.listdir(waiting) if waiting.is_dir() else ():
                if name.endswith(".dcm"):
                    try:
                        os.link(waiting / name, self.seen / name)
                    except (FileExistsError, FileNotFoundError):  # seen before; sent meanwhile
                        pass
            time.sleep(0.002)

    def kill_once(self, longest_s=0.6):
        """Checks what the servers before have left, and kills the one that is started for it."""
        server = self.start()
        self.check_noise(server)
        self.failure = None
        stop = threading.Event()
        threads = [threading.Thread(target=self.send_all, args=(server,), daemon=True),
                   threading.Thread(target=self.watch, args=(stop,), daemon=True)]  # fmt: skip
        for thread in threads:
            thread.start()
        time.sleep(self.rng.uniform(0.02, longest_s))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(10)
        server.log.close()
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert self.failure is None, self.failure

    def check_noise(self, server, most=8):
        """Asks for the newest: others have been asked for before."""
        for name in list(self.kept)[-most:]:
            question = wire.query(f"echotrain::noise_matrix/{name}")
            messages = [wire.config_file("cartesian_plain"), question, wire.close()]
            ((_, text),) = wire.exchange(server.address, messages).responses
            assert text.startswith(f"coils {self.coils} samples {NOISE} "), (name, text[:200])
            rows = [np.array(line.split(), float) for line in text.splitlines()[1 + self.coils :]]
            noise = self.kept[name].astype(complex)
            truth = noise @ noise.conj().T / (NOISE - 1)
            for a, row in enumerate(rows):  # written with six digits
                error = np.abs(row[0::2] + 1j * row[1::2] - truth[a, : a + 1]).max()
                assert error < 1e-5 * np.abs(truth).max(), (name, error)
            assert len(rows) == self.coils

    def waiting(self):
        return sum(name.endswith(".dcm") for name in os.listdir(self.spool / "pacs"))

    def check_all(self):
        """The last server sends what is left; then the peer has every image that was ever in the spool, whole."""
        pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
        server = self.start()
        while left := self.waiting():  # thousands, after a thousand kills
            wait_until(lambda: self.waiting() < left, "an image that leaves the spool", 60)
        assert server.stop() == 0, server.text()
        self.peer.stop()
        assert not os.listdir(self.spool / "pacs" / "refused")
        assert not [name for name in os.listdir(self.spool / "pacs") if name.endswith(".part")]
        arrived = self.peer.uids()
        images = [pydicom.dcmread(path) for path in sorted(pathlib.Path(self.seen).iterdir())]
        for one in images:
            assert one.pixel_array.shape == (self.matrix, self.matrix) and one.SOPInstanceUID in arrived, one.SOPInstanceUID
        return {"kept": len(self.kept), "seen": len(images), "arrived": len(arrived)}
