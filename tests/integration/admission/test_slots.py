"""Clients that keep slots without using them: talk without data, pauses, one address with many connections, and
addresses behind a balancer. Others are served meanwhile, with the right bits."""

import contextlib
import json
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request

import pytest

import reference
import scans
import wire
from faulty_clients import MATRIX, bits, small_scan
from programs import Server
from vitals import in_time, wait_until

ATTACKER, GOOD, BALANCER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
CLIENT = "203.0.113.7"
QUERY = struct.pack("<HQQQ", wire.QUERY, 0, 1, 16) + b"ismrmrd::version"


@pytest.fixture(scope="module")
def scan():
    """(messages, images): a good scan, whose images are checked against a Fourier transform in double precision."""
    made, kspace = small_scan()
    truth = [reference.rss(reference.centred_fft(one, MATRIX)) for one in kspace]
    return made.stream(wire.config_file("cartesian_plain")), truth


@contextlib.contextmanager
def running(folder, *options):
    server = Server(folder, "--backend", "cpu", *options)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()
    assert "internal error" not in server.text(), server.text()


def is_right(reply, truth):
    assert not reply.errors(), reply.texts
    assert len(reply.images) == len(truth)
    for image, expected in zip(reply.images, truth, strict=True):
        assert reference.nrmse(image.pixels[0, 0], expected) <= 1e-5


class Talker:
    """Connects from an address, sends `start`, then `again` every `period_s`, and begins anew soon after it is ended:
    not at once, for each connection keeps a port of this machine for a minute."""

    PAUSE_S = 0.02

    def __init__(self, address, source, start, again, period_s):
        self.address, self.source, self.start, self.again, self.period_s = address, source, start, again, period_s
        self.stopped = threading.Event()
        self.began = threading.Event()
        self.received = b""
        self.thread = threading.Thread(target=self.talk, daemon=True)
        self.thread.start()

    def talk(self):
        while not self.stopped.is_set():
            with contextlib.suppress(OSError):
                with socket.create_connection(self.address, timeout=10, source_address=(self.source, 0)) as client:
                    client.sendall(self.start + self.again)
                    self.began.set()
                    client.settimeout(self.period_s)
                    while not self.stopped.is_set():
                        with contextlib.suppress(TimeoutError):
                            chunk = client.recv(1 << 16)
                            self.received += chunk
                            if not chunk:
                                break
                            continue
                        client.sendall(self.again)
            self.stopped.wait(self.PAUSE_S)

    def stop(self):
        self.stopped.set()
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def talkers(count, *arguments):
    all_of_them = [Talker(*arguments) for _ in range(count)]
    try:
        for one in all_of_them:
            assert one.began.wait(10)
        time.sleep(0.3)  # the server has seen what they sent
        yield all_of_them
    finally:
        for one in all_of_them:
            one.stop()


def test_two_addresses_do_not_have_all_sessions(tmp_path, scan):
    messages, truth = scan
    start = b"".join(messages[:2])
    with running(tmp_path, "--max-sessions", 16) as server:
        with talkers(8, server.address, ATTACKER, start, wire.text(""), 1) as some:
            with talkers(8, server.address, "127.0.0.4", start, wire.text(""), 1) as others:
                refused = lambda: sum(b"for addresses that have none" in one.received for one in [*some, *others])
                wait_until(lambda: len(sessions(server)) + refused() >= 16, what="who gets in")
                is_right(wire.exchange(server.address, messages, 20, GOOD), truth)


def test_queries_before_the_config_hold_no_session(tmp_path, scan):
    messages, truth = scan
    with running(tmp_path, "--max-sessions", 8, "--connect-timeout-s", 4) as server:
        with talkers(8, server.address, ATTACKER, QUERY, QUERY, 1.5):
            for _ in range(20):
                is_right(wire.exchange(server.address, messages, 20, GOOD), truth)


def test_texts_hold_no_place(tmp_path, scan):
    messages, truth = scan
    with running(tmp_path, "--cpu-scans", 1, "--idle-timeout-s", 3) as server:
        with talkers(1, server.address, ATTACKER, b"".join(messages[:2]), wire.text(""), 2) as (attacker,):
            began = time.monotonic()
            is_right(wire.exchange(server.address, messages, 20, GOOD), truth)
            in_time(time.monotonic() - began, 8)
            wait_until(lambda: b"neither a readout nor an image came within 3 s" in attacker.received, what="its end")


def test_one_address_does_not_have_all_sessions(tmp_path, scan):
    messages, truth = scan
    start = b"".join(messages[:2])
    with running(tmp_path, "--max-sessions", 8, "--idle-timeout-s", 30) as server:
        with talkers(8, server.address, ATTACKER, start, wire.text(""), 1) as attackers:
            wait_until(lambda: any(b"busy" in one.received for one in attackers), what="a refusal")
            refused = next(one.received for one in attackers if b"busy" in one.received)
            assert b"127.0.0.1 already has 4 sessions" in refused and b"max_sessions_per_address" in refused
            for _ in range(5):
                is_right(wire.exchange(server.address, messages, 20, GOOD), truth)
    with running(tmp_path, "--max-sessions", 2, "--per-address-exempt", "127.0.0.0/30") as server:
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                client = stack.enter_context(socket.create_connection(server.address, timeout=10))
                client.sendall(start)
            wait_until(lambda: sum(one["state"] == "scanning" for one in sessions(server)) == 2, what="two scans")
            (error,) = wire.exchange(server.address, messages, 20, GOOD).errors()
            assert "busy: the server already runs 2 sessions, its limit" in error


def test_silent_connections_make_room(tmp_path, scan):
    """The oldest of the address that has most goes, and what it has beyond; others wait as long as they may."""
    messages, truth = scan
    began = time.monotonic()
    with running(tmp_path, "--max-connecting", 4, "--connect-timeout-s", 20) as server, contextlib.ExitStack() as stack:

        def silent(source):
            return stack.enter_context(
                socket.create_connection(server.address, timeout=10, source_address=(source, 0)))

        patient = silent(GOOD)
        time.sleep(0.2)
        crowd = [silent(ATTACKER) for _ in range(3)]
        time.sleep(0.5)
        for _ in range(5):
            is_right(wire.exchange(server.address, messages, 20, "127.0.0.4"), truth)
        crowd += [silent(ATTACKER) for _ in range(30)]

        def silent_still():
            return len(crowd) - len(select.select(crowd, [], [], 0)[0])

        wait_until(lambda: silent_still() <= 3, what="the end of those that are too many")
        for client in crowd[:2]:  # the oldest
            with contextlib.suppress(ConnectionResetError):
                assert not client.recv(1)
        wait_until(lambda: "max_connecting" in server.text(), what="a line in the log")
        assert server.text().count("max_connecting") <= 1 + (time.monotonic() - began) / 10
        patient.sendall(b"".join(messages))
        is_right(wire.parse(b"".join(iter(lambda: patient.recv(1 << 20), b""))), truth)


def test_a_pause_gives_the_place_to_others_and_does_not_show(tmp_path):
    """A breath hold in the middle of a frame."""
    messages = scans.cartesian(scans.random_kspace((4, 2, 16, 16), seed=3)).stream(wire.config_file("cartesian_plain"))
    with running(tmp_path, "--cpu-scans", 1, "--pause-s", 0.3) as server:
        expected = bits(wire.exchange(server.address, messages).images)
        assert len(expected) == 4
        half = len(messages) // 2 + 3
        with socket.create_connection(server.address, timeout=20) as client:
            client.sendall(b"".join(messages[:half]))
            for _ in range(3):  # another scan is served, and another one goes on afterwards
                assert bits(wire.exchange(server.address, messages, 20, GOOD).images) == expected
            wait_until(lambda: [one["state"] for one in sessions(server)] == ["paused"], what="one session, paused")
            client.sendall(b"".join(messages[half:]))
            reply = wire.parse(b"".join(iter(lambda: client.recv(1 << 20), b"")))
        assert bits(reply.images) == expected and not reply.errors()


def sessions(server):
    host, port = server.admin
    with urllib.request.urlopen(f"http://{host}:{port}/sessions", timeout=10) as answer:
        return json.load(answer)["sessions"]


# What a balancer says first, from haproxy.org/download/3.0/doc/proxy-protocol.txt.
# ----------------------------------------------------------------------------------------------------------------------

LOCAL = wire.PROXY_SIGNATURE + struct.pack(">BBH", 0x20, 0, 0)


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A server behind a balancer, for clients of a network that the balancer is not in."""
    with running(tmp_path_factory.mktemp("behind"), "--proxy-from", BALANCER, "--allow", "203.0.113.0/24", "--allow",
                 "2001:db8::/32", "--allow", GOOD, "--max-sessions", 4, "--connect-timeout-s", 2) as server:  # fmt: skip
        yield server


@pytest.mark.parametrize("client", [CLIENT, "2001:db8::5"])
def test_the_client_behind_a_balancer_is_known(behind, scan, client):
    messages, truth = scan
    with socket.create_connection(behind.address, timeout=20, source_address=(BALANCER, 0)) as connection:
        connection.sendall(wire.proxy_header(client) + b"".join(messages[:-1]))
        name = f"[{client}]:40000" if ":" in client else f"{client}:40000"
        wait_until(lambda: [one["peer"] for one in sessions(behind)] == [name], what="the client's address")
        connection.sendall(messages[-1])
        is_right(wire.parse(b"".join(iter(lambda: connection.recv(1 << 20), b""))), truth)
    wait_until(lambda: f"peer={name}" in behind.text(), what="the summary")


def test_networks_and_limits_go_by_the_client(behind, scan):
    messages, truth = scan
    (error,) = wire.exchange(behind.address, messages, 20, BALANCER, wire.proxy_header("198.51.100.1")).errors()
    assert "not-allowed: the address 198.51.100.1" in error
    (error,) = wire.exchange(behind.address, messages, 20, BALANCER, LOCAL).errors()  # it speaks for itself
    assert f"not-allowed: the address {BALANCER}" in error


    def states():
        return [one["state"] for one in sessions(behind) if one["peer"].startswith(CLIENT)]

    wait_until(lambda: not states(), what="the end of sessions of other tests")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(
                socket.create_connection(behind.address, timeout=20, source_address=(BALANCER, 0)))
            client.sendall(wire.proxy_header(CLIENT) + b"".join(messages[:2]))
        wait_until(lambda: states() == ["scanning"] * 2, what="two scans")
        (error,) = wire.exchange(behind.address, messages, 20, BALANCER, wire.proxy_header(CLIENT)).errors()
        assert f"busy: {CLIENT} already has 2 sessions" in error
        is_right(wire.exchange(behind.address, messages, 20, BALANCER, wire.proxy_header("203.0.113.8")), truth)


def test_only_a_balancer_names_its_clients(behind, scan):
    messages, truth = scan
    (error,) = wire.exchange(behind.address, [wire.proxy_header(CLIENT), *messages], 20, GOOD).errors()
    assert "unknown-message" in error
    is_right(wire.exchange(behind.address, messages, 20, GOOD), truth)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"PROXY TCP4 203.0.113.7 10.0.0.1 40000 9002\r\n", "does not begin with the signature"),
        (wire.config_file("cartesian_plain"), "does not begin with the signature"),
        (wire.PROXY_SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 8) + bytes(8), "8 bytes are too few"),
        (wire.PROXY_SIGNATURE + struct.pack(">BBH", 0x21, 0x31, 216) + bytes(216), "family and transport are 0x31"),
        (wire.PROXY_SIGNATURE + struct.pack(">BBH", 0x21, 0x11, 5000) + bytes(5000), "5000 bytes long"),
        (wire.proxy_header(CLIENT)[:20], "did not come within 2 s"),
        (b"", "did not come within 2 s"),
    ],
)
def test_a_header_that_is_none_closes_the_connection(behind, scan, sent, reason):
    messages, truth = scan
    before = behind.text().count(reason)
    with socket.create_connection(behind.address, timeout=20, source_address=(BALANCER, 0)) as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    wait_until(lambda: behind.text().count(reason) == before + 1, what="a line in the log")
    assert f"closed a connection of {BALANCER}" in behind.text()
    is_right(wire.exchange(behind.address, messages, 20, BALANCER, wire.proxy_header(CLIENT)), truth)


def test_silent_connections_of_balancers_keep_nobody_out(tmp_path, scan):
    """Neither other clients, who come through the same port, nor a balancer that speaks."""
    messages, truth = scan
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(tmp_path, "--proxy-from", BALANCER, "--max-connecting", 2,
                                             "--connect-timeout-s", 60))  # fmt: skip
        silent = [socket.create_connection(server.address, timeout=20, source_address=(BALANCER, 0)) for _ in range(6)]
        for client in silent:
            stack.enter_context(client)
        is_right(wire.exchange(server.address, messages, 20, GOOD), truth)
        is_right(wire.exchange(server.address, messages, 20, BALANCER, wire.proxy_header(CLIENT)), truth)
        for client in silent[:4]:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        assert server.text().count("PROXY") == 1, "a line in the log, and the rest within 10 s is not told"


def test_a_balancer_that_says_nothing_does_not_keep_the_server_from_stopping(tmp_path):
    with running(tmp_path, "--proxy-from", BALANCER, "--connect-timeout-s", 60) as server:
        clients = [socket.create_connection(server.address, timeout=20, source_address=(BALANCER, 0)) for _ in range(3)]
        clients[0].sendall(wire.PROXY_SIGNATURE)
        time.sleep(0.2)
        began = time.monotonic()
        assert server.stop() == 0
        in_time(time.monotonic() - began, 5)
        assert "PROXY" not in server.text()
        for client in clients:
            client.close()


def test_the_balancer_speaks_before_tls(tmp_path, scan):
    messages, truth = scan
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=recon.example", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)  # fmt: skip
    with running(tmp_path, "--proxy-from", BALANCER, "--tls-port", 0, "--tls-certificate", tmp_path / "cert.pem",
                 "--tls-key", tmp_path / "key.pem") as server:  # fmt: skip
        port = int(server.wait_for(r"listening with TLS on 127.0.0.1:(\d+)")[1])
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(BALANCER, 0)) as plain:
            plain.sendall(wire.proxy_header(CLIENT))
            with context.wrap_socket(plain) as client:
                client.sendall(b"".join(messages))
                is_right(wire.parse(b"".join(iter(lambda: client.recv(1 << 20), b""))), truth)
        wait_until(lambda: f"peer={CLIENT}:40000" in server.text(), what="the summary")
