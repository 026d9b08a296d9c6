"""A server of detached scans in plain Python (docs/protocol.md), which loses connections when a test says so, in the
middle of whatever it is at. Its images are made of the readouts' checksums, so that they tell what has reached it."""

import collections
import dataclasses
import json
import socket
import struct
import threading
import zlib

import numpy as np

import wire
from chaos import linger_zero

FRAME = 8  # readouts for an image


def image_of(readouts, number):
    sum_of = np.array([[zlib.crc32(b"".join(readouts)), len(readouts)]], "<u4").astype("<u4")
    return wire.image(sum_of.reshape(1, 1, 1, 2), image_series_index=1, image_index=number + 1, image_type=1)


def images_of(messages):
    """The images of a whole scan, as head, then pixels."""
    readouts = [message for message in messages if message[:2] == struct.pack("<H", wire.ACQUISITION)]
    return [image_of(readouts[at : at + FRAME], at // FRAME) for at in range(0, len(readouts), FRAME)]


@dataclasses.dataclass
class Cut:
    """One connection's end: before its first answer, once it has brought so many messages of data, or once so many images
    have left. Data that is not acknowledged is then lost, as a killed server's."""

    answer: bool = False
    messages: int | None = None
    images: int | None = None
    how: str = "reset"  # "end" (FIN), "inside": of a message; "silence": it stays open, and nothing happens any more
    error: str = ""  # a text before it


class Gone(Exception):
    """The connection is over."""


class Scan:
    def __init__(self, server):
        self.id, self.server = f"{len(server.scans) + 1:032x}", server
        self.journal, self.state, self.lock = [], "receiving", threading.Lock()

    def images(self):
        whole = images_of(self.journal)
        return whole if self.state == "done" else whole[: self.readouts() // FRAME]

    def readouts(self):
        return sum(message[:2] == struct.pack("<H", wire.ACQUISITION) for message in self.journal)

    def told(self):
        return {"id": self.id, "state": self.state, "pipeline": "fake", "begun": 1.0e9, "received": len(self.journal),
                "images": len(self.images()), "keep_until": 1.1e9, "failure": ""}  # fmt: skip


class DetachedServer:
    """knows: "" (all of it), "unknown" (an older server's answer), "refused" or "nothing" (it ends connections that begin
    with a question). acknowledge: after how many messages; cuts: of connections, one after the other; computes: a scan is
    still being computed when it has come whole, so that it is resumed, not fetched."""

    def __init__(self, knows="", acknowledge=1, cuts=(), computes=False):
        self.computes = computes
        self.knows, self.acknowledge, self.cuts = knows, acknowledge, collections.deque(cuts)
        self.scans, self.questions, self.connections, self.failure = {}, [], 0, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.port = self.address[1]
        self.stopped = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        assert self.failure is None, self.failure

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client:
                Connection(self, client).talk()
        except (Gone, OSError):
            pass
        except Exception as failure:  # the test's, at the end
            self.failure = failure


class Connection:
    def __init__(self, server, client):
        self.server, self.client, self.stream = server, client, client.makefile("rb")
        self.scan, self.correlation, self.wanted, self.came, self.left = None, 0, False, 0, 0
        self.cut = None

    def take(self, n):
        data = self.stream.read(n)
        if len(data) < n:
            raise Gone
        return data

    def message(self):
        """(id, its bytes)"""
        start = self.take(2)
        (number,) = struct.unpack("<H", start)
        if start == b"\x16\x03":  # TLS: a client that has had no answer tries whether it is wanted
            raise Gone
        if number == wire.CONFIG_FILE:
            return number, start + self.take(1024)
        if number in (wire.CONFIG_TEXT, wire.HEADER, wire.TEXT):
            count = self.take(4)
            return number, start + count + self.take(struct.unpack("<I", count)[0])
        if number == wire.QUERY:
            head = self.take(24)
            return number, start + head + self.take(struct.unpack_from("<Q", head, 16)[0])
        if number == wire.ACQUISITION:
            head = self.take(340)
            of = wire.head_of(start + head)
            samples = int(of["number_of_samples"])
            rest = 4 * samples * int(of["trajectory_dimensions"]) + 8 * samples * int(of["active_channels"])
            return number, start + head + self.take(rest)
        assert number == wire.CLOSE, number
        return number, start

    def say(self, data):
        self.client.sendall(data)

    def respond(self, text):
        self.say(struct.pack("<HQQ", wire.RESPONSE, self.correlation, len(text)) + text.encode())

    def break_off(self, half=b""):
        cut = self.cut
        if cut.error:
            self.say(wire.text(f"ERROR    {cut.error}\n\0"))
            self.finish()
            raise Gone
        if cut.how == "inside":
            self.say(half[: len(half) // 2])
        if cut.how == "silence":
            self.server.stopped.wait()
        if cut.how == "reset":
            linger_zero(self.client)
        else:
            self.drain()
        raise Gone

    def begin(self, scan):
        self.scan = scan
        self.cut = self.server.cuts.popleft() if self.server.cuts else None
        if self.cut and self.cut.answer:
            self.break_off()

    def talk(self):
        while True:
            number, data = self.message()
            if number == wire.QUERY:
                if self.server.knows == "nothing":
                    raise Gone
                self.correlation = struct.unpack_from("<Q", data, 10)[0]
                if self.asked(data[26:].decode()):
                    return
            elif number == wire.HEADER:
                self.begin(Scan(self.server))
                if self.wanted:
                    self.server.scans[self.scan.id] = self.scan
                    self.respond(f"detached {self.scan.id}")
            elif self.scan is None and number == wire.CLOSE:
                self.finish()
                return
            elif self.scan is not None and self.data(number, data):
                return

    def asked(self, text):
        """True when nothing follows."""
        self.server.questions.append(text)
        what, *rest = text.split("\n")[0].removeprefix("echotrain::").split("/")
        if self.server.knows or (what == "detach" and rest[0] == "new"):
            if self.server.knows:
                self.respond("unknown" if self.server.knows == "unknown" else "refused: no room")
            self.wanted = not self.server.knows
            return False
        if what == "scans":
            self.respond(json.dumps([scan.told() for scan in self.server.scans.values()]))
            return False
        if what == "detach":
            rest = rest[1:]
        scan = self.server.scans.get(rest[0])
        if scan is None:
            self.respond("unknown")
        elif what == "scan":
            self.respond(json.dumps(scan.told()))
        elif what == "cancel":
            scan.state = "cancelled"
            del self.server.scans[scan.id]
            self.respond("cancelled")
        elif what == "detach" and (scan.state == "receiving" or self.server.computes):
            self.begin(scan)
            self.left = int(rest[1])
            self.respond(f"resumed {len(scan.journal)}")
            self.give()
            if scan.state == "receiving":
                return False
            rest = self.finish()
            assert not rest, f"{len(rest)} bytes after all of the scan"
            return True
        elif what == "detach":
            self.respond(f"ended {scan.state}")
        else:
            self.begin(scan)
            self.left = int(rest[1])
            self.respond(f"fetching {scan.state}")
            self.give()
            self.finish()
            return True
        return False

    def data(self, number, message):
        """True after CLOSE."""
        scan = self.scan
        self.came += 1
        if self.cut and self.cut.messages is not None and self.came > self.cut.messages:
            self.break_off(struct.pack("<HQQ", wire.RESPONSE, self.correlation, 14) + b"acknowledged 0")
        self.unsafe = [*getattr(self, "unsafe", []), message]
        if len(self.unsafe) >= self.server.acknowledge or number == wire.CLOSE:
            scan.journal += self.unsafe
            self.unsafe = []
            if number == wire.CLOSE:
                scan.state = "done"
            if self.wanted or scan.id in self.server.scans:
                self.respond(f"acknowledged {len(scan.journal)}")
            self.give()
        if number != wire.CLOSE:
            return False
        self.finish()
        return True

    def give(self):
        for image in self.scan.images()[self.left :]:
            if self.cut and self.cut.images is not None and self.left >= self.cut.images:
                self.break_off(image)
            self.say(image)
            self.left += 1

    def finish(self):
        self.say(wire.close())
        return self.drain()

    def drain(self):
        """Without this, what was sent last would be lost with what was not read."""
        self.client.shutdown(socket.SHUT_WR)
        return self.stream.read()
