"""Clients that do not play by the rules, the small scan they share, and the check that a server came through."""

import contextlib
import socket
import threading
import time

import numpy as np

import reference
import scans
import wire
from vitals import Vitals, wait_until

REPETITIONS, COILS, MATRIX = 2, 2, 16
# For a server whose memory must be as before: images of earlier scans stay for the live page (within recent_images_mib).
KEEPS_NONE = ("--recent-images-mib", 0)


def small_scan(seed=5):
    """(scan, k-space [repetition, coil, y, x])"""
    kspace = scans.random_kspace((REPETITIONS, COILS, MATRIX, MATRIX), seed)
    return scans.cartesian(kspace), kspace


def echo_scan(count):
    """(messages, pixels): images of 256 KiB each, which come back unchanged."""
    rng = np.random.default_rng(4)
    messages = [wire.config_file("passthrough"), wire.header("Dummy XML header")]
    pixels = rng.standard_normal((count, 1, 1, 256, 256)).astype(np.float32)
    for i, image in enumerate(pixels):
        messages.append(wire.image(image, field_of_view=(256, 256, 1), image_type=1, image_index=i + 1))
    return [*messages, wire.close()], [image.tobytes() for image in pixels]


def bits(images):
    return [image.pixels.tobytes() for image in images]


def talk(address, data, timeout_s=60):
    """Sends while reading; whatever was received, however the connection ended."""
    received = []
    try:
        opened = socket.create_connection(address, timeout=timeout_s)
    except ConnectionResetError:  # so early that the connection itself fails
        return b""
    with opened as connection:

        def send():
            with contextlib.suppress(OSError):
                connection.sendall(data)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 20):
                received.append(chunk)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # nobody reads what is still being sent
        sender.join(timeout_s)
    return b"".join(received)


class Witness:
    """Sends good scans to a server, whose images must keep the bits they had at first, and knows what the server held
    when it was idle. The first images are checked against a Fourier transform in double precision.
    """

    def __init__(self, server, warm_up=5):
        self.server, self.vitals = server, Vitals(server)
        self.scan, kspace = small_scan()
        self.messages = self.scan.stream(wire.config_file("cartesian_plain"))
        self.stream = b"".join(self.messages)
        self.truth = bits(wire.exchange(server.address, self.messages).images)
        for image, one in zip(self.truth, kspace, strict=True):
            pixels = np.frombuffer(image, np.float32).reshape(MATRIX, MATRIX)
            assert reference.nrmse(pixels, reference.rss(reference.centred_fft(one, MATRIX))) <= 1e-5
        for _ in range(warm_up):
            self.scan_is_good()
        # A thread of the shared pool may still be starting; a session of the warm-up may still be ending.
        wait_until(lambda: len({self._a_little_later() for _ in range(5)}) == 1, what="a quiet server")
        self.idle = self.vitals.counts()
        self.resident = self.vitals.resident()

    def _a_little_later(self):
        time.sleep(0.02)
        return self.vitals.counts()

    def scan_is_good(self):
        assert self.server.process.poll() is None, f"the server is gone:\n{self.server.text()}"
        reply = wire.exchange(self.server.address, self.messages)
        assert not reply.texts, reply.texts
        assert bits(reply.images) == self.truth, "a good scan's images have other bits than before"

    def at_rest(self, timeout_s=20):
        """Waits until threads and descriptors are as they were."""
        try:
            wait_until(lambda: self.vitals.counts() == self.idle, timeout_s)
        except AssertionError:
            raise AssertionError(f"threads and descriptors {self.vitals.counts()}, at first {self.idle}") from None

    def recovers(self, memory_noise, timeout_s=60):
        """The server has recovered: it serves, and threads, descriptors and memory are as before."""
        end = time.monotonic() + timeout_s
        while True:
            self.scan_is_good()
            self.at_rest(timeout_s)
            if self.grown() < memory_noise:
                return
            assert time.monotonic() < end, f"{self.grown() >> 10} KiB more memory than at first"
            time.sleep(0.3)  # free memory goes back to the machine after a session's end, but not after each

    def grown(self):
        """Resident memory above what it was at first [bytes]."""
        return self.vitals.resident() - self.resident
