"""Connections that break, drip, stall or fall silent: the server ends that session only, and gives everything back."""

import itertools
import random
import resource
import socket
import struct
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import exposition
import scans
import steps
import wire
from chaos import Fault, Proxy, linger_zero
from faulty_clients import KEEPS_NONE, MATRIX, REPETITIONS, Witness, bits, echo_scan, talk
from programs import Server, ends_well, variant
from vitals import in_time, wait_until

MESSAGE_TIMEOUT_S, SEND_TIMEOUT_S = 2, 2
# What glibc's arenas and the kernel's page counts may add to an idle server; a lost slab is 1 MiB, a lost session more.
MEMORY_NOISE = 16 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = {"connect": 2, "message": MESSAGE_TIMEOUT_S, "send": SEND_TIMEOUT_S, "drain": 2, "idle": 60}
    options = [*itertools.chain(*((f"--{name}-timeout-s", value) for name, value in limits.items()))]
    options += ["--queue-mib", 1, "--spare-memory-s", 0.5]
    options += ["--python", sys.executable, "--python-modules", steps.MODULES, "--python-memory-mib", 256,
                "--python-warm", 0, "--client-pipelines", "all"]
    yield from ends_well(Server(tmp_path_factory.mktemp("chaos"), "--backend", "cpu", *KEEPS_NONE, *options))


@pytest.fixture(autouse=True)
def unharmed(witness):
    """After each test the server serves, with the same bits, and holds no more than before."""
    yield
    witness.recovers(MEMORY_NOISE)


def boundaries(messages):
    """Offsets between messages, without the last one."""
    return list(itertools.accumulate(len(m) for m in messages[:-1]))


def everywhere(witness):
    """Every message boundary and 100 random offsets."""
    rng = random.Random(7)
    return [0, *boundaries(witness.messages), *(rng.randrange(1, len(witness.stream)) for _ in range(100))]


@pytest.mark.parametrize("fault", [Fault(fragment=1), Fault(fragment=7, delay_s=1e-4)], ids=["1_byte", "7_bytes_paced"])
def test_fragments_give_the_same_bits(witness, server, fault):
    with Proxy(server.address, up=fault, down=fault) as proxy:
        reply = wire.exchange(proxy.address, witness.messages)
    assert bits(reply.images) == witness.truth


def test_fragments_of_a_radial_scan_give_the_same_bits(server):
    """Frames are gridded at their end: gridding readouts as they come may differ by rounding."""
    config = wire.config_text(variant("radial_2d", ("incremental: true", "incremental: false")))
    rng = np.random.default_rng(3)
    angle = np.arange(40)[:, None] * np.pi * 0.618
    line = np.linspace(-0.5, 0.5, 32, endpoint=False)[None, :, None]
    trajectory = line * np.stack([np.cos(angle), np.sin(angle)], -1)
    data = (rng.standard_normal((40, 2, 32, 2)).astype(np.float32)).view(np.complex64)[..., 0]
    stream = scans.non_cartesian("radial", (24, 24, 1), trajectory.astype(np.float32), data).stream(config)
    whole = wire.exchange(server.address, [b"".join(stream)])
    assert len(whole.images) == 1 and np.all(np.isfinite(whole.images[0].pixels)) and not whole.errors()
    with Proxy(server.address, up=Fault(fragment=1)) as proxy:
        assert bits(wire.exchange(proxy.address, stream).images) == bits(whole.images)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_reset_everywhere(witness, server, direction):
    """RST after so many bytes from the client, or after so many bytes of the reply."""
    offsets = everywhere(witness)
    if direction == "down":
        length = len(talk(server.address, witness.stream))
        offsets = [*range(0, 8), *random.Random(8).sample(range(8, length), 30)]
    for offset in offsets:
        with Proxy(server.address, **{direction: Fault(reset_at=offset)}) as proxy:
            talk(proxy.address, witness.stream)
        witness.scan_is_good()
        witness.at_rest()


def test_half_close_everywhere(witness, server):
    """Whole images still come, and the client is told that the rest is missing."""
    ends = boundaries(witness.messages)
    # An image is whole when the last readout of its repetition has come; two messages come before the first readout.
    last_readouts = [ends[1 + (r + 1) * MATRIX] for r in range(REPETITIONS)]
    for offset in everywhere(witness):
        with Proxy(server.address, up=Fault(half_close_at=offset)) as proxy:
            reply = wire.parse(talk(proxy.address, witness.stream))
        assert bits(reply.images) == witness.truth[: sum(end <= offset for end in last_readouts)], offset
        if offset == 0:
            assert not reply.texts, reply.texts  # some clients only check whether a server listens
        else:
            *dropped, incomplete = reply.texts
            assert "incomplete" in incomplete, (offset, reply.texts)
            assert all("unfinished frame" in text for text in dropped), (offset, reply.texts)
            assert len(reply.errors()) == (offset < ends[1]), (offset, reply.texts)
        witness.scan_is_good()
        witness.at_rest()


def test_stalls_inside_messages_time_out(witness, server):
    rng = random.Random(9)
    offsets = set(rng.sample(range(1, len(witness.stream)), 12)) - set(boundaries(witness.messages))

    def stalled(offset):
        with Proxy(server.address, up=Fault(stall_at=offset)) as proxy:
            return wire.parse(talk(proxy.address, witness.stream))

    with ThreadPoolExecutor(len(offsets)) as pool:
        replies = [pool.submit(stalled, offset) for offset in offsets]
        while not all(reply.done() for reply in replies):
            witness.scan_is_good()
    for reply in replies:
        assert len(reply.result().errors()) == 1 and "timeout" in reply.result().errors()[0], reply.result().texts


def test_slow_loris(witness, server):
    """Clients that send a byte now and then, inside messages that never end, keep nobody else from being served."""
    ends = [0, *boundaries(witness.messages)]
    inside = [ends[0], ends[1], ends[2], ends[10]]  # the config, the header, the first readout, a later one
    clients = []
    for start in inside * 8:
        client = socket.create_connection(server.address)
        client.sendall(witness.stream[:start])
        client.setblocking(False)
        clients.append([client, start, b"", True])
    begin = time.monotonic()
    while any(open_ for *_, open_ in clients):
        in_time(time.monotonic() - begin, 10 * MESSAGE_TIMEOUT_S, "a client that drips is not ended")
        for one in clients:
            client, at, _, open_ = one
            if not open_:
                continue
            try:
                while chunk := client.recv(1 << 16):
                    one[2] += chunk
                one[3] = False
            except BlockingIOError:
                client.send(witness.stream[at : at + 1])
                one[1] += 1
        witness.scan_is_good()
        time.sleep(0.02)
    for client, at, received, _ in clients:
        client.close()
        # No message was finished, so these sessions ended because they were slow.
        assert min(abs(at - end) for end in ends) > 0
        reply = wire.parse(received)
        assert len(reply.errors()) == 1 and "timeout" in reply.errors()[0], reply.texts


def test_a_refused_client_may_finish_sending(witness, server):
    """Clients that read only when all is sent would lose the reason if the connection were reset before."""
    stream = b"".join(witness.messages[:2]) + struct.pack("<HH", wire.ACQUISITION, 99) + bytes(8 << 20)
    for _ in range(5):
        with socket.create_connection(server.address, timeout=60) as client:
            client.sendall(stream)
            client.shutdown(socket.SHUT_WR)
            reply = wire.parse(b"".join(iter(lambda: client.recv(1 << 16), b"")))
        assert len(reply.errors()) == 1 and "bad-version" in reply.errors()[0], reply.texts


@pytest.fixture(scope="module")
def echo():
    """A scan whose reply is larger than all buffers between a server and a client."""
    return echo_scan(40)


def silent_reader(address, data, close_early=False):
    """Sends and never reads; returns when the server has cut the connection."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        client.settimeout(60)
        client.connect(address)
        try:
            client.sendall(data)
            while client.send(b"\0"):  # the server ignores everything after CLOSE, until it closes the connection
                time.sleep(0.05)
        except OSError as error:
            return error


def test_clients_that_never_read(witness, server, echo):
    """Clients that do not read are cut off, whether the server still takes their data or not, and hold up nobody."""
    data = b"".join(echo[0])
    with ThreadPoolExecutor(4) as pool:
        silent = [pool.submit(silent_reader, server.address, part) for part in (data, data, data[:-2], data)]
        while not all(one.done() for one in silent):
            witness.scan_is_good()
    for one in silent:
        assert isinstance(one.result(), (ConnectionResetError, BrokenPipeError)), one.result()
    assert server.text().count("client is not reading") == len(silent)


def test_a_slow_reader_gets_everything(witness, server, echo):
    messages, pixels = echo
    with Proxy(server.address, down=Fault(rate=4e6, fragment=1 << 14), receive_buffer=1 << 14) as proxy:
        reply = wire.exchange(proxy.address, messages)
    assert bits(reply.images) == pixels
    assert not reply.errors()


@pytest.mark.parametrize("how", ["reset", "close"])
def test_vanishing_after_close(witness, server, echo, how):
    for stream in [witness.stream] * 20 + [b"".join(echo[0])] * 3:
        client = socket.create_connection(server.address, timeout=60)
        if stream is not witness.stream:  # too large for any buffer
            with ThreadPoolExecutor(1) as pool:
                sent = pool.submit(client.sendall, stream)
                received = 0
                while not sent.done():
                    received += len(client.recv(1 << 20))
        else:
            client.sendall(stream)
        if how == "reset":
            linger_zero(client)
        client.close()
        witness.scan_is_good()
    witness.at_rest()


# What a module does, what the client is told, and what happens to the client's connection meanwhile.
BROKEN_STEPS = {
    "crash": ("crash", "was ended by signal 11", {}),
    "raises_in_fragments": ("raise", "ValueError: the phantom has no head", {"up": Fault(fragment=7)}),
    "garbage": ("garbage", "bytes that are no MRD message", {}),
    "hang": ("hang", "has neither taken nor given anything for 1 s", {}),
    "hang_of_a_client_that_is_gone": ("hang", None, {"up": Fault(reset_at=4000)}),
    "spin_of_a_client_that_stalls": ("spin", "timeout", {"up": Fault(stall_at=4000)}),
    "flood_of_texts": ("text_flood", "text 10", {}),
    "flood_to_a_client_that_is_gone": ("flood", None, {"down": Fault(reset_at=200000)}),
    "flood_to_a_client_that_never_reads": ("flood", None, None),
}


def test_sessions_with_steps_that_go_wrong(witness, server):
    """Several at once, again and again: each ends by itself, good scans keep their bits, and nothing stays."""
    lines = steps.readouts(steps.random_kspace(n=64))

    def broken(how, faults):
        config = steps.pipeline(steps.python("misbehave", config=how, timeout_s=1 if how == "hang" else 60))
        data = b"".join([config, steps.header(64), *lines, wire.close()])
        if faults is None:
            return silent_reader(server.address, data)
        with Proxy(server.address, **faults) as proxy:
            return talk(proxy.address, data)

    with ThreadPoolExecutor(3) as pool:
        for _ in range(2):
            replies = {name: pool.submit(broken, how, faults) for name, (how, _, faults) in BROKEN_STEPS.items()}
            while not all(reply.done() for reply in replies.values()):
                witness.scan_is_good()
            for name, (_, told, _) in BROKEN_STEPS.items():
                reply = replies[name].result()
                if told is not None:
                    texts = wire.parse(reply).texts
                    assert any(told in text for text in texts), (name, texts)
    steps.wait_until(lambda: not steps.children(server.process.pid), "the steps' processes are gone", 60)
    witness.at_rest(60)


def sessions(server, **labels):
    with urllib.request.urlopen("http://{}:{}/metrics".format(*server.admin), timeout=30) as answer:
        return exposition.Metrics(answer.read().decode())["echotrain_sessions", labels]


def test_a_thousand_silent_connections(tmp_path, witness):
    """Eight scans among 1,000 clients that say nothing after the header; one connection more is refused."""
    silent, scanning = 1000, 8
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * silent:
        pytest.skip(f"needs {2 * silent} descriptors; the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * silent), hard))
    try:
        server = Server(tmp_path, "--backend", "cpu", "--max-sessions", silent + scanning, "--per-address-exempt",
                        "127.0.0.1", "--log-level", "warning", *KEEPS_NONE)  # fmt: skip
        own = Witness(server)
        head = b"".join(own.messages[:2])
        idle = []
        for _ in range(silent):
            idle.append(socket.create_connection(server.address, timeout=60))
            idle[-1].sendall(head)
        wait_until(lambda: own.vitals.descriptors() == own.idle[1] + silent, 60, "all connections")

        half = len(own.stream) // 2
        busy = [socket.create_connection(server.address, timeout=60) for _ in range(scanning)]
        for client in busy:
            client.sendall(own.stream[:half])
        wait_until(lambda: own.vitals.descriptors() == own.idle[1] + silent + scanning, 60, "all scans")
        # A connection counts once its config has been read.
        wait_until(lambda: sessions(server) - sessions(server, state="connecting") == silent + scanning, 60, "all configs")
        refused = wire.parse(talk(server.address, own.stream))
        assert len(refused.errors()) == 1 and "busy" in refused.errors()[0], refused.texts
        assert str(silent + scanning) in refused.errors()[0] and not refused.images
        for client in busy:
            client.sendall(own.stream[half:])
            reply = wire.parse(b"".join(iter(lambda: client.recv(1 << 20), b"")))
            assert bits(reply.images) == own.truth
            client.close()

        per_connection = own.grown() / silent
        assert per_connection < 1 << 20, f"{per_connection / 1024:.0f} KiB for a connection that says nothing"
        for client in idle:
            client.close()
        own.recovers(MEMORY_NOISE)
        assert server.stop() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
