"""What clients can make a server do before and after it lets them in, by what the machine sees: seconds that others wait,
CPU time, resident memory, bytes of log."""

import contextlib
import http.client
import json
import os
import select
import socket
import struct
import threading
import time

import numpy as np
import pytest

import scans
import stopping
import wire
from programs import Server
from vitals import in_time, Vitals, wait_until

TOKEN = "0123456789abcdef"
HOSTILE, OTHER, GOOD = "127.0.0.2", "127.0.0.3", "127.0.0.1"
MEMORY_MIB, SLACK_MIB = 1024, 256


@pytest.fixture
def start(tmp_path):
    servers = []

    def begin(*options):
        environment = {"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}
        servers.append(Server(tmp_path, "--backend", "cpu", *options, environment=environment))
        return servers[-1]

    yield begin
    for server in servers:
        assert server.stop() == 0, server.text()[-4000:]


def cpu_seconds(server):
    fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scan_of(matrix=16, coils=2):
    kspace = np.random.default_rng(5).standard_normal((1, coils, matrix, matrix, 2)).astype("<f4").view("<c8")[..., 0]
    return scans.cartesian(kspace)


def connect(server, source, *messages):
    connection = socket.create_connection(server.address, timeout=60, source_address=(source, 0))
    try:
        connection.sendall(b"".join(messages))
    except OSError:
        pass  # the server may have ended it
    return connection


def host_json(parameters):
    values = {f"p{i:x}": i for i in range(parameters)}
    return json.dumps({"parameters": {"config": "cartesian_plain", **values}})


def long_config(size=256 << 10):
    """A text of empty lines inside a value: it takes an eighth of a second of one core to read."""
    begin = "echotrain: 1\nname: mine\npipeline: [passthrough]\ndescription: x"
    return wire.config_text(begin + "\n" * (size - len(begin)))


class Meanwhile:
    """A thread that does `work` until `stop` is set, while a test goes on."""

    def __init__(self, work):
        self.stop, self.thread = threading.Event(), threading.Thread(target=work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Waits(Meanwhile):
    """How long answers of /livez take meanwhile [s], asked every 10 ms."""

    def __init__(self, server):
        super().__init__(self.ask)
        self.address, self.times = server.admin, []

    def ask(self):
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        while not self.stop.wait(0.01):
            began = time.monotonic()
            connection.request("GET", "/livez")
            assert connection.getresponse().read()
            self.times.append(time.monotonic() - began)
        connection.close()


def test_a_hosts_json_of_any_length_holds_up_nobody(start):
    server = start()
    scan = scan_of()
    # Made before the watch begins: Python makes this text while it lets no other thread run.
    messages = [wire.config_text(host_json(100)), wire.header(scan.xml), wire.text(host_json(60000)), *scan.messages, wire.close()]
    before = cpu_seconds(server)
    with Waits(server) as waits:
        wait_until(lambda: len(waits.times) >= 5, what="the first answers of /livez")
        reply = wire.exchange(server.address, messages, source=HOSTILE)
        seen = len(waits.times)
        wait_until(lambda: len(waits.times) >= seen + 5, what="answers of /livez afterwards")
    # 60,000 names that are compared with each other take 10 s and more of one core.
    assert cpu_seconds(server) - before <= 1
    in_time(max(waits.times), 0.05, sorted(waits.times)[-5:])
    assert not reply.images and "bytes; at most 65536 are read" in reply.errors()[0], reply.texts
    many = wire.exchange(server.address, [wire.config_text(host_json(1100)), wire.header(scan.xml), wire.close()])
    assert "1101 parameters; at most 1024 are read" in many.errors()[0], many.texts
    assert len(wire.exchange(server.address, scan.stream(wire.config_text(host_json(1000)))).images) == 1


@pytest.mark.parametrize("sources", [[HOSTILE], [f"127.0.1.{i}" for i in range(1, 201)]], ids=["one", "many"])
def test_a_scanner_waits_for_nobodys_long_configs(start, sources):
    """The configs come from one address, or from 200."""
    server = start("--max-connecting", 250)
    config = long_config()
    hostile = [connect(server, sources[i % len(sources)], config) for i in range(200)]
    scan = scan_of()
    xml = scan.xml.replace("</ismrmrdHeader>", "<!--" + "x" * 100000 + "--></ismrmrdHeader>")  # read beside the others'
    messages = [wire.config_file("cartesian_plain"), wire.header(xml), *scan.messages, wire.close()]
    times = []
    for _ in range(5):
        began = time.monotonic()
        assert len(wire.exchange(server.address, messages, source=GOOD).images) == 1
        times.append(time.monotonic() - began)
    assert sorted(times)[2] <= 0.5, times
    before = cpu_seconds(server)
    for connection in hostile:  # by RST
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    time.sleep(2)
    # What was in line is dropped, and what had begun is read to its end.
    assert cpu_seconds(server) - before <= 2


def test_nothing_is_read_before_the_token(start, tmp_path):
    (tmp_path / "tokens").write_text(TOKEN + "\n")
    server = start("--token-file", tmp_path / "tokens", "--max-connecting", 200)
    before = cpu_seconds(server)
    for _ in range(40):
        with connect(server, HOSTILE, long_config()) as connection:
            received = b""
            while chunk := connection.recv(1 << 16):
                received += chunk
        assert b"unauthorized" in received
    assert cpu_seconds(server) - before <= 1, "such a config takes 0.12 s to read"
    scan = scan_of()
    for refused in (wire.text("x" * 20000), wire.header(scan.xml + " " * 20000), wire.query("ismrmrd::version") * 500):
        assert "unauthorized" in wire.exchange(server.address, [refused]).errors()[-1]
    # Behind a token that is known, a text may be as long as elsewhere.
    text = f"token: {TOKEN}\nuse: cartesian_plain\n" + "# x\n" * 60000
    assert len(wire.exchange(server.address, scan.stream(wire.config_text(text))).images) == 1
    as_json = json.dumps({"token": TOKEN, "parameters": {"config": "cartesian_plain"}})
    assert len(wire.exchange(server.address, scan.stream(wire.config_text(as_json))).images) == 1
    late = "# x\n" * 20 + f"token: {TOKEN}\nuse: cartesian_plain\n"
    assert "unauthorized" in wire.exchange(server.address, scan.stream(wire.config_text(late))).errors()[0]


def noise_scan(coils, name):
    noise = np.random.default_rng(1).standard_normal((4, coils, 256, 2)).astype("<f4").view("<c8")[..., 0]
    xml = scans.header_xml("cartesian", (256, 4, 1), readouts=4).replace(
        "<experimentalConditions>",
        f"<measurementInformation><measurementID>{name}</measurementID><patientPosition>HFS</patientPosition>"
        "</measurementInformation><experimentalConditions>", 1)  # fmt: skip
    readouts = [wire.acquisition(one, flags=wire.NOISE, step1=i) for i, one in enumerate(noise)]
    return scans.Scan(xml, readouts)


def test_a_noise_matrix_is_for_clients_with_a_session(start):
    server = start()
    scan = noise_scan(64, "n1")
    wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")))
    question = wire.query("echotrain::noise_matrix/n1")
    before = wire.exchange(server.address, [question * 20, wire.close()]).responses
    assert len(before) == 20 and all(len(text) < 100 for _, text in before), "62 bytes in, no more out"
    after = wire.exchange(server.address, [wire.config_file("cartesian_plain"), question * 3, wire.close()]).responses
    assert len(after) == 3 and all(text.startswith("coils 64 ") and text.count("\n") == 129 for _, text in after)


def test_the_log_is_bounded_and_holds_nothing_of_who_was_not_let_in(start):
    server = start()
    secret = "PATIENT^NAME token 0123456789"
    written = server.log_path.stat().st_size
    for i in range(400):
        with connect(server, HOSTILE, wire.text(secret + "x" * 900) * 20, wire.config_text(f"{secret}: {i}"), wire.close()):
            pass
    for _ in range(3000):
        with connect(server, OTHER, b"GET / HTTP/1.1\r\n"):
            pass
    scan = scan_of()
    assert len(wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain"))).images) == 1
    server.wait_for("summary: complete")  # another address's line
    assert "PATIENT" not in server.text()
    # 2,000 lines of each address at once and 20 a second, none of which is longer than 160 bytes.
    assert server.log_path.stat().st_size - written <= 2 * 2600 * 160
    connection = http.client.HTTPConnection(*server.admin)
    connection.request("GET", "/metrics")
    metrics = connection.getresponse().read().decode()
    left_out = float(metrics.split("\nechotrain_log_suppressed_total ")[1].split()[0])
    assert left_out >= 500 and "lines about clients were left out" in server.text()


def zeros_by_zfp(samples, channels):
    """A ZFP stream of zeros: its head, and a bit for each 4 x 4 numbers."""
    nx, ny = 2 * samples, channels
    meta = (((ny - 1) << 24 | (nx - 1)) << 2 | 1) << 2 | 2  # 2D, float
    head = int.from_bytes(b"zfp\x05", "little") | meta << 32 | (2048 + 31) << 84  # fixed precision of 32 bits
    blocks = -(-nx // 4) * -(-ny // 4)
    return head.to_bytes(-(-(96 + blocks) // 64) * 8, "little")


def zfp_readout(samples, channels, step1=0):
    block = zeros_by_zfp(samples, channels)
    plain = wire.acquisition(np.zeros((channels, samples), np.complex64), flags=1 << 52, step1=step1)
    return plain[:342] + struct.pack("<I", len(block)) + block


@pytest.mark.parametrize("samples, channels, expected", [(8192, 1024, "at most 64 times its size"), (128, 1000, None)])
def test_compressed_readouts_stay_within_the_memory(start, samples, channels, expected):
    server = start("--memory-mib", MEMORY_MIB)
    assert len(wire.exchange(server.address, [*scan_of().stream(wire.config_file("cartesian_plain"))]).images) == 1
    bomb = zfp_readout(samples, channels)
    assert len(bomb) <= 131500
    vitals = Vitals(server)
    vitals.forget_peak()
    opening = [wire.config_file("cartesian_plain"), wire.header(scans.header_xml("cartesian", (64, 64, 1), readouts=64))]
    replies = []

    def attack():
        replies.append(wire.exchange(server.address, [*opening, *[bomb] * 200, wire.close()], source=HOSTILE))

    clients = [threading.Thread(target=attack) for _ in range(16)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert vitals.peak() <= (MEMORY_MIB + SLACK_MIB) << 20, vitals.peak() >> 20
    assert len(replies) == 16
    if expected:
        assert all(expected in reply.errors()[0] or "budget" in reply.errors()[0] for reply in replies), replies[0].texts


def test_memory_that_nobody_uses_goes_to_who_waits(start):
    """Two addresses reserve all of the memory by headers and send a readout now and then: a third gets its share."""
    server = start("--memory-mib", MEMORY_MIB, "--pause-s", 1)
    huge = [wire.config_file("cartesian_3d"), wire.header(scans.header_xml("cartesian", (512, 256, 32), readouts=256))]
    readout = wire.acquisition(np.zeros((1, 512), np.complex64))
    holders = [connect(server, source, *huge) for source in (HOSTILE, OTHER) for _ in range(4)]
    stop = threading.Event()

    def talk():
        while not stop.wait(0.3):
            for holder in holders:
                try:
                    holder.sendall(readout)
                except OSError:
                    pass

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        time.sleep(1)
        scan = scan_of(matrix=256, coils=16)  # reserves 26 MiB
        began = time.monotonic()
        reply = wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")), source=GOOD)
        assert len(reply.images) == 1 and time.monotonic() - began <= 10, reply.texts
    finally:
        stop.set()
        talker.join()
        for holder in holders:
            holder.close()


class Tricklers(Meanwhile):
    """Scans that reserve by headers, each of which sends up to 21 KiB/s of readouts for which no frame is opened."""

    def __init__(self, server):
        super().__init__(self.trickle)
        self.server, self.holders = server, []
        self.readout = wire.changed(wire.acquisition(np.zeros((1, 512), np.complex64)), encoding_space_ref=7)  # 4.3 KiB

    def reserve(self, source, mib):
        """A Cartesian scan of one channel, whose arrays take 3 x V x 8 bytes; lines and the scan itself, a tenth more."""
        slices = round((mib - 1) * (1 << 20) / (3 * 8 * 256 * 256))
        system = "<receiverChannels>1</receiverChannels>"
        header = scans.header_xml("cartesian", (256, 256, slices), readouts=256, system=system)
        self.holders.append(connect(self.server, source, wire.config_file("cartesian_3d"), wire.header(header)))

    def trickle(self):
        while not self.stop.wait(0.2):
            for holder in self.holders:
                try:
                    holder.sendall(self.readout)
                except OSError:
                    pass

    def __exit__(self, *error):
        super().__exit__(*error)
        for holder in self.holders:
            holder.close()


def memory_taken(server):
    """MiB, with all reservations."""
    connection = http.client.HTTPConnection(*server.admin)
    connection.request("GET", "/metrics")
    metrics = connection.getresponse().read().decode()
    return float(metrics.split("\nechotrain_memory_taken_bytes ")[1].split()[0]) / (1 << 20)


def test_many_addresses_that_send_a_little_do_not_hold_the_memory(start):
    """Two addresses reserve all that they may, four what is kept for first scans. What a large one sends would fill its
    reservation in six hours."""
    server = start("--memory-mib", MEMORY_MIB, "--pause-s", 1)
    with Tricklers(server) as tricklers:
        for source in ("127.0.0.2", "127.0.0.3"):
            tricklers.reserve(source, 600)  # cut to 448
        wait_until(lambda: memory_taken(server) >= 896, what="the large reservations")
        for n in range(4, 8):
            tricklers.reserve(f"127.0.0.{n}", 28)
        wait_until(lambda: memory_taken(server) >= MEMORY_MIB - 10, what="the small reservations")
        time.sleep(2)  # all of them trickle in a whole period before anybody waits
        waited = 0
        for source in (GOOD, "127.0.0.8"):
            scan = scan_of(matrix=256, coils=16)  # reserves 14 MiB
            began = time.monotonic()
            reply = wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")), source=source)
            assert len(reply.images) == 1, reply.texts
            waited += any("waiting for memory" in text for text in reply.texts)
            # A pace is known after one of its periods, of which one has begun; who regains memory is waited for for 10 s.
            in_time(time.monotonic() - began, 15, reply.texts)
        assert waited >= 1


class Crawlers(Tricklers):
    """Tricklers that use three quarters of what they have reserved: each of their first two readouts opens a volume, and
    none is completed."""

    def reserve(self, source, mib):
        super().reserve(source, mib)
        readout = wire.acquisition(np.zeros((1, 256), np.complex64))
        for contrast in range(2):
            self.holders[-1].sendall(wire.changed(readout, contrast=contrast))

    def trickle(self):
        readout = wire.acquisition(np.zeros((1, 256), np.complex64))  # 2.3 KiB
        while not self.stop.wait(1.5):
            for holder in self.holders:
                try:
                    holder.sendall(readout)
                except OSError:
                    pass


def test_who_opens_frames_and_completes_none_does_not_keep_the_memory(start):
    """Two addresses use 330 of the 448 MiB that they may reserve, and send a readout now and then: 1.5 KiB/s each, where 2
    would fill it within two days. What they lend is not enough."""
    server = start("--memory-mib", MEMORY_MIB, "--pause-s", 3, "--idle-timeout-s", 3, "--wait-timeout-s", 90)
    with Crawlers(server) as crawlers:
        for source in (HOSTILE, OTHER):
            crawlers.reserve(source, 448)
        wait_until(lambda: memory_taken(server) >= 890, what="the large reservations")
        scan = scan_of(matrix=1280, coils=8)  # reserves 301 MiB
        reply = wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")), source=GOOD)
        assert len(reply.images) == 1, reply.texts
        assert any("waiting for memory" in text for text in reply.texts), reply.texts
        assert "in 9 s (three times idle_timeout_s) fewer data of this scan have come" in server.text()


def hold_by_borrowing(server, matrix, channels):
    """A scan whose header says one channel and whose readouts have more; its frame lacks a line. None: it was ended.
    One that waits for memory is told so, and nothing is read of it."""
    system = "<receiverChannels>1</receiverChannels>"
    header = scans.header_xml("cartesian", (matrix, matrix, 1), readouts=matrix, system=system)
    lines = [wire.acquisition(np.ones((channels, matrix), np.complex64), step1=y) for y in range(matrix - 1)]
    holder = connect(server, HOSTILE, wire.config_file("cartesian_plain"), wire.header(header))
    rest = memoryview(b"".join(lines))
    with contextlib.suppress(OSError):
        while rest and not select.select([holder], [holder], [], 60)[0]:
            rest = rest[holder.send(rest) :]
    holder.settimeout(0.5)
    try:
        received = holder.recv(1 << 16)
    except TimeoutError:
        return holder
    except OSError:
        received = b"ERROR"
    if b"ERROR" not in received:
        return holder
    holder.close()
    return None


def test_memory_that_an_address_borrows_comes_back(start):
    """One address borrows all that there is, and falls silent: those who wait for memory get it after pause_s."""
    server = start("--memory-mib", MEMORY_MIB, "--pause-s", 3)
    holders = []
    for channels, matrix in ((64, 512), (32, 512), (16, 256), (8, 128)):
        while len(holders) < 30 and (holder := hold_by_borrowing(server, matrix, channels)):
            holders.append(holder)
    assert holders
    try:
        for matrix, source in ((64, GOOD), (512, OTHER)):
            scan = scan_of(matrix=matrix, coils=8)
            began = time.monotonic()
            reply = wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")), source=source)
            assert len(reply.images) == 1, reply.texts
            in_time(time.monotonic() - began, 15, reply.texts)
    finally:
        for holder in holders:
            holder.close()


def test_a_small_first_scan_overtakes_who_holds_all_memory(start):
    """Two addresses reserve all that they may: a third's first scan does not wait until that is called back."""
    server = start("--memory-mib", MEMORY_MIB)  # pause_s is 10
    huge = [wire.config_file("cartesian_3d"), wire.header(scans.header_xml("cartesian", (512, 256, 32), readouts=256))]
    holders = [connect(server, source, *huge) for source in (HOSTILE, OTHER) for _ in range(8)]
    try:
        time.sleep(1)
        scan = scan_of(matrix=256, coils=16)  # reserves 14 MiB, of 32 that a first one may
        began = time.monotonic()
        reply = wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain")), source=GOOD)
        assert len(reply.images) == 1 and not any("waiting" in text for text in reply.texts), reply.texts
        in_time(time.monotonic() - began, 5)
    finally:
        for holder in holders:
            holder.close()


def test_scans_end_at_their_bounds(start):
    server = start("--max-scan-s", 1)
    scan = scan_of()
    stream = scan.stream(wire.config_file("cartesian_plain"))
    with connect(server, GOOD, *stream[:4]) as connection:
        received = b""
        while chunk := connection.recv(1 << 16):
            received += chunk
    assert "(max_scan_s)" in wire.parse(received).errors()[0]


def test_computing_ends_at_its_bound(start):
    server = start("--max-compute-s", 0.5)
    stream = stopping.shipped_scan("kooshball_3d", None, large=True)  # minutes of computing
    began = time.monotonic()
    received = b""
    with connect(server, GOOD, stream) as connection:
        while chunk := connection.recv(1 << 16):
            received += chunk
    reply = wire.parse(received)
    assert "timeout: " in reply.errors()[0] and "(max_compute_s)" in reply.errors()[0], reply.texts
    in_time(time.monotonic() - began, 60, "the end of the scan")
    scan = scan_of()
    assert len(wire.exchange(server.address, scan.stream(wire.config_file("cartesian_plain"))).images) == 1
