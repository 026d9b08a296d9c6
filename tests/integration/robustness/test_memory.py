"""The one memory budget: what the machine sees, under what clients can do to it. docs/limits.md, "Memory"."""

import concurrent.futures
import contextlib
import itertools
import socket
import struct
import threading
import time
import urllib.request

import numpy as np
import pytest

import exposition
import scans
import stopping
import trajectories
import wire
from faulty_clients import small_scan, talk
from programs import Server
from vitals import Vitals, wait_until

MIB = 1 << 20
SLACK = 256  # MiB that the process may take beyond memory_mib


@pytest.fixture
def make_server(tmp_path):
    servers = []

    def make(memory_mib, *options):
        bound = ("--memory-mib", memory_mib, "--queue-mib", "16", "--spare-memory-s", "1", "--shutdown-timeout-s", "1")
        environment = {"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}
        server = Server(tmp_path, "--backend", "cpu", *bound, *options, environment=environment)
        servers.append(server)
        return server, Vitals(server)

    yield make
    for server in servers:
        assert server.stop() == 0, server.text()[-4000:]


def metrics(server):
    with urllib.request.urlopen("http://{}:{}/metrics".format(*server.admin), timeout=30) as answer:
        return exposition.Metrics(answer.read().decode())


def from_address(server, address, messages):
    """A connection from another loopback address that has sent `messages`."""
    connection = socket.create_connection(server.address, timeout=60, source_address=(address, 0))
    connection.sendall(b"".join(messages))
    return connection


def cartesian_header(matrix, coils=1):
    system = f"<receiverChannels>{coils}</receiverChannels>"
    return wire.header(scans.header_xml("cartesian", matrix, readouts=matrix[1], system=system))


def test_new_trajectories_leave_nothing_but_what_the_caches_say(make_server):
    server, vitals = make_server(1024)
    at_first = vitals.resident()
    for seed in range(5):
        assert len(wire.exchange(server.address, trajectories.random_3d(seed, 48)).images) == 1
    peak = vitals.peak()

    def left():
        return vitals.resident() - at_first - metrics(server)["echotrain_cache_bytes"]

    wait_until(lambda: left() < 64 * MIB, timeout_s=15, what="memory of ended scans to go back")
    assert peak < (1024 + SLACK) * MIB


def test_plans_that_are_being_made_are_within_the_budget(make_server):
    server, vitals = make_server(384, "--session-memory-mib", "192")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(
            pool.map(
                lambda seed: wire.parse(talk(server.address, b"".join(trajectories.random_3d(seed, 64, 2)))), range(8)
            )
        )
    assert vitals.peak() < (384 + SLACK) * MIB, vitals.peak() / MIB
    for reply in replies:  # each has its reservation, after waiting in line, or is told what was missing
        assert len(reply.images) == 1 or any(" budget: " in text or " resources: " in text for text in reply.errors())
    assert sum(len(reply.images) for reply in replies) >= 4, [reply.texts for reply in replies]


def test_headers_are_within_the_budget(make_server):
    server, vitals = make_server(256)
    filler = b"<!--" + b"x" * (MIB - 5000) + b"-->"
    xml = scans.header_xml("cartesian", (16, 16, 1), readouts=16).encode().replace(b"</ismrmrdHeader>", filler) + (
        b"</ismrmrdHeader>"
    )
    start = wire.config_file("cartesian_plain") + wire.header(xml)
    assert len(start) < MIB
    connections = []
    for _ in range(40):
        connections.append(socket.create_connection(server.address, timeout=60))
        threading.Thread(target=connections[-1].sendall, args=(start,), daemon=True).start()
    time.sleep(2)
    assert vitals.peak() < (256 + SLACK) * MIB, vitals.peak() / MIB
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
            connection.shutdown(socket.SHUT_RDWR)  # ends its thread's sendall()
        connection.close()
    wait_until(lambda: not stopping.sessions(server), 30, "the end of all sessions")
    giant = wire.config_file("cartesian_plain") + struct.pack("<HI", wire.HEADER, 16 * MIB) + bytes(4096)
    assert "bad-header" in "".join(wire.parse(talk(server.address, giant)).errors())


def test_one_client_does_not_end_the_scans_of_another(make_server):
    server, vitals = make_server(512)
    # 512 x 512 x 255 voxels are 535 MB; one readout makes the frame.
    readout = wire.acquisition(np.zeros((1, 512), np.complex64))
    hostile = [wire.config_file("cartesian_3d"), cartesian_header((512, 512, 255)), readout]
    hostiles = [from_address(server, "127.0.0.2", hostile) for _ in range(3)]
    time.sleep(0.5)
    messages = scans.cartesian(trajectories.noise(np.random.default_rng(1), 1, 8, 160, 160)).stream(
        wire.config_file("cartesian_plain")
    )
    for _ in range(38):
        reply = wire.exchange(server.address, messages)
        assert not reply.errors() and len(reply.images) == 1, reply.texts
    assert vitals.peak() < (512 + SLACK) * MIB
    for connection in hostiles:
        connection.close()


def test_a_scan_that_does_not_fit_waits_and_is_told_so(make_server):
    server, _ = make_server(256)
    # 3 x 256 x 256 x 64 x 8 bytes are 96 MiB, and lines and the scan itself 11 more, of 128 that one address may reserve.
    start = [wire.config_file("cartesian_3d"), cartesian_header((256, 256, 64))]
    first = from_address(server, "127.0.0.2", start)
    wait_until(lambda: metrics(server)["echotrain_memory_taken_bytes"] > 96 * MIB, what="the first reservation")
    second = from_address(server, "127.0.0.2", start)
    assert b"waiting for memory, 107 MiB" in second.recv(1000)
    assert metrics(server)["echotrain_memory_taken_bytes"] < 128 * MIB
    small = small_scan()[0].stream(wire.config_file("cartesian_plain"))
    assert len(wire.exchange(server.address, small).images) == 2, "who waits for his own holds up nobody else"
    third = from_address(server, "127.0.0.3", start)
    wait_until(lambda: metrics(server)["echotrain_memory_taken_bytes"] > 192 * MIB, what="the third reservation")
    first.close()
    time.sleep(0.5)
    # The second has it now, and what it sends is taken.
    wait_until(lambda: metrics(server)["echotrain_memory_taken_bytes"] > 192 * MIB, what="the second reservation")
    second.close()
    third.close()
    wait_until(lambda: metrics(server)["echotrain_memory_taken_bytes"] < 64 * MIB, what="reservations to end")


def batches(items, count):
    """The bytes of `count` items at a time."""
    items = iter(items)
    return iter(lambda: b"".join(map(bytes, itertools.islice(items, count))), b"")


def many_images():
    """Images of one pixel, each of a slice and a series of its own, which images_display holds for their stacks."""
    image = bytearray(wire.image(np.ones((1, 1, 1, 1), "f4"), field_of_view=1, image_type=1, **wire.AXES))
    head = wire.head_of(image)
    for number in range(600_000):
        head["slice"], head["image_series_index"] = number % 65536, number % 60000
        yield image


def many_frames():
    """Frames of one readout of two samples, which grasp_2d holds as members of series."""
    line = np.array([[-0.5, -0.15], [0.49, 0.147]], np.float32)
    flags = wire.FIRST_IN_SLICE | wire.LAST_IN_SLICE
    readout = bytearray(wire.acquisition(np.ones((2, 2), np.complex64), line, flags))
    counters = wire.head_of(readout)["idx"]
    for number in range(1_000_000):
        counters["slice"], counters["contrast"] = number % 65536, number // 65536
        yield readout


@pytest.mark.parametrize(
    "pipeline, kind, matrix, items",
    [("images_display", "cartesian", 1, many_images), ("grasp_2d", "radial", 2, many_frames)],
    ids=["images", "frames"],
)
def test_what_is_known_of_frames_that_gadgets_hold_is_within_the_budget(make_server, pipeline, kind, matrix, items):
    server, vitals = make_server(256)
    limit = "<minimum>0</minimum><maximum>65535</maximum><center>0</center>"
    limits = f"<slice>{limit}</slice><contrast>{limit}</contrast></encodingLimits>"
    xml = scans.header_xml(kind, (matrix, matrix, 1), readouts=matrix).replace("</encodingLimits>", limits)
    replies = []
    with socket.create_connection(server.address, timeout=120) as client:
        reader = threading.Thread(target=lambda: replies.append(b"".join(iter(lambda: client.recv(1 << 16), b""))))
        reader.start()
        with contextlib.suppress(ConnectionError):  # the server ends the scan when the budget is spent
            client.sendall(wire.config_file(pipeline) + wire.header(xml))
            for chunk in batches(items(), 1024):
                client.sendall(chunk)
            client.shutdown(socket.SHUT_WR)
        reader.join()
    assert vitals.peak() < (256 + SLACK) * MIB, vitals.peak() / MIB
    assert "budget: " in "".join(wire.parse(replies[0]).errors()), "the test sends more than the budget holds"


def test_many_attributes_are_read_within_the_budget(make_server):
    """Forty clients at a time send images with 20,000 attributes each, of which images_display holds all."""
    server, vitals = make_server(512, "--queue-mib", "64")
    metas = "".join(f"<meta><name>a{number}</name><value>b</value></meta>" for number in range(20_000))
    image = wire.image(np.zeros((1, 1, 1, 1), "f4"), attributes=f"<ismrmrdMeta>{metas}</ismrmrdMeta>", field_of_view=1,
                       image_type=1)  # fmt: skip
    start = wire.config_file("images_display") + cartesian_header((1, 1, 1))

    def send(number):
        replies = []
        with from_address(server, f"127.0.0.{2 + number % 3}", [start]) as client:
            reader = threading.Thread(target=lambda: replies.extend(iter(lambda: receive(client), b"")))
            reader.start()
            with contextlib.suppress(OSError):  # the server ends the scan when the budget is spent
                for slice_number in range(40):
                    client.sendall(wire.changed(image, slice=slice_number))
                client.shutdown(socket.SHUT_WR)
            reader.join()
        return b"".join(replies)

    def receive(client):
        try:
            return client.recv(1 << 16)
        except OSError:
            return b""

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        replies = list(pool.map(send, range(40)))
    assert vitals.peak() < (512 + SLACK) * MIB, vitals.peak() / MIB
    assert b"budget" in b"".join(replies), "the test sends more than the budget holds"


def test_what_waits_for_slow_scans_is_within_the_budget(make_server):
    """Readouts of one sample, which come faster than their windows become images: heads are most of what waits."""
    server, vitals = make_server(512, "--queue-mib", "64")
    xml = scans.header_xml("radial", (32, 32, 1), readouts=32)
    start = wire.config_file("radial_realtime") + wire.header(xml)
    chunk = 1000 * wire.acquisition(np.ones((1, 1), np.complex64), np.full((1, 2), 0.1, np.float32))

    def flood(number):
        with from_address(server, f"127.0.0.{2 + number}", [start]) as connection:
            connections.append(connection)
            try:
                while not over.is_set():
                    connection.sendall(chunk)
            except OSError:  # the server ended the scan
                over.set()

    def spent():
        return over.is_set() or metrics(server)["echotrain_memory_taken_bytes"] > 425 * MIB  # 24 of 25 parts are 430

    over, connections = threading.Event(), []
    floods = [threading.Thread(target=flood, args=(number,)) for number in range(24)]
    for each in floods:
        each.start()
    wait_until(spent, 120, "the budget to be spent")
    peak = vitals.peak()
    over.set()
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
            connection.shutdown(socket.SHUT_RDWR)  # ends its thread's sendall()
    for each in floods:
        each.join()
    assert peak < (512 + SLACK) * MIB, peak / MIB


# Frames that stay open until their last readout, each with what is known of its readouts.
OPEN_FRAMES = """echotrain: 1
name: open_frames
description: many frames that are open at a time
frame: {until: last_in_slice}
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {method: ramp, normalize: area}
  - gridding: {kernel_width: 3, oversampling: 1.5}
  - fft: {direction: inverse}
  - deapodization
  - coil_combine: {method: rss}
  - image: {component: magnitude, type: float}
"""


def of_slices(readout, slices):
    """The bytes of a readout of each slice."""
    counters, at = wire.ACQUISITION_HEAD.fields["idx"]
    at += 2 + counters.fields["slice"][1]
    all_of_them = np.tile(np.frombuffer(readout, np.uint8), (len(slices), 1))
    all_of_them[:, at : at + 2] = np.asarray(slices, "<u2")[:, None].view(np.uint8)
    return all_of_them.tobytes()


def test_pages_that_few_blocks_keep_are_within_the_budget(make_server):
    """Readouts of 1,400 frames by turns: each page has blocks of many. Then all frames but each 14th end: their blocks
    are free, and hardly a page is. Ten scans of some 100 MiB do so one after the other, and stay."""
    server, vitals = make_server(256)
    limit = "<minimum>0</minimum><maximum>65535</maximum><center>0</center>"
    xml = scans.header_xml("radial", (16, 16, 1), readouts=16).replace(
        "</encodingLimits>", f"<slice>{limit}</slice></encodingLimits>"
    )
    line = np.stack([np.linspace(-0.5, 0.49, 8), np.zeros(8)], 1).astype(np.float32)
    slices = np.arange(1400)
    each = of_slices(wire.acquisition(np.ones((1, 8)), line), slices)
    last = of_slices(wire.acquisition(np.ones((1, 8)), line, wire.LAST_IN_SLICE), slices[slices % 14 != 0])
    start = [wire.config_text(OPEN_FRAMES), wire.header(xml)]
    connections, stalled = [], 0
    while len(connections) < 10 and stalled < 2:
        connections.append(from_address(server, "127.0.0.2", start))
        connections[-1].settimeout(6)
        try:
            connections[-1].sendall(80 * each + last)
        except TimeoutError:  # the server takes no more of this address
            stalled += 1
        except OSError:  # it has ended the scan
            pass
        time.sleep(0.25)
    small = small_scan()[0].stream(wire.config_file("cartesian_plain"))
    wait_until(lambda: len(wire.exchange(server.address, small).images) == 2, what="memory for others")
    peak = vitals.peak()
    for connection in connections:
        connection.close()
    assert peak < (256 + SLACK) * MIB, peak / MIB


# One frame for minutes.
LONG = """echotrain: 1
name: long
description: more steps than anybody waits for
backend: cpu
pipeline:
  - cartesian_kspace
  - encoding
  - regularised: {prior: total_variation, iterations: 10000, tolerance: 0, inner: 1000}
  - coil_combine: {method: rss}
  - image: {component: magnitude, type: float}
"""


def minutes_of_computing():
    """A small scan that takes long, with more memory reserved for it than it needs."""
    xml = scans.header_xml("cartesian", (64, 64, 1), readouts=64, system="<receiverChannels>32</receiverChannels>")
    lines = scans.cartesian(trajectories.noise(np.random.default_rng(1), 1, 1, 64, 64)).messages
    return [wire.config_text(LONG), wire.header(xml), *lines]


def takes_no_more(connection, data):
    """Sends what the server takes, until it takes nothing for 4 s. What is left."""
    view = memoryview(data)
    connection.settimeout(4)
    with contextlib.suppress(TimeoutError):
        while view:
            view = view[connection.send(view) :]
    connection.settimeout(60)
    return view


def flood(server, clients, start, data):
    """So many clients of one address, and what each could not send."""
    connections = [from_address(server, "127.0.0.2", start) for _ in range(clients)]
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return connections, list(pool.map(lambda each: takes_no_more(each, data), connections))


def test_answers_that_nobody_reads_are_within_the_budget(make_server):
    """Questions before any config, each as small as it can be; who reads at last has all the answers."""
    server, vitals = make_server(256, "--queue-mib", "64", "--connect-timeout-s", "120")
    connections, left = flood(server, 8, [], 4_000_000 * wire.query("x"))  # more than buffers of 32 MiB (tcp_rmem) hold
    assert vitals.peak() < (256 + SLACK) * MIB, vitals.peak() / MIB
    assert all(left), "the server takes no more questions"
    count = 1_500_000
    with from_address(server, "127.0.0.3", []) as reads:
        left = takes_no_more(reads, count * wire.query("x", 7))
        assert left, "the system's buffers hold fewer"
        sender = threading.Thread(target=reads.sendall, args=(bytes(left) + wire.close(),))
        sender.start()
        reply = wire.parse(b"".join(iter(lambda: reads.recv(1 << 20), b"")))
        sender.join()
    assert len(reply.responses) == count and {number for number, _ in reply.responses} == {7}
    for each in connections:
        each.close()


def test_waveforms_that_wait_are_within_the_budget(make_server):
    """Readouts of one sample each wait behind a frame that takes minutes."""
    server, vitals = make_server(256, "--queue-mib", "64")
    head = bytearray(40)
    struct.pack_into("<H26xHH", head, 0, 1, 1, 1)
    waveform = struct.pack("<H", wire.WAVEFORM) + head + bytes(4)
    connections, _ = flood(server, 8, minutes_of_computing(), 500_000 * waveform)
    assert vitals.peak() < (256 + SLACK) * MIB, vitals.peak() / MIB
    for each in connections:
        each.close()


def test_input_of_one_address_leaves_others_memory_to_borrow(make_server):
    """Readouts behind a frame that takes minutes; scans of 64 coils, where the header lets the server reserve for 8."""
    server, _ = make_server(256, "--queue-mib", "64")
    readouts = 4000 * wire.acquisition(np.ones((1, 4096), np.complex64))
    connections, left = flood(server, 6, minutes_of_computing(), readouts)
    assert all(left), "the test sends more than the server holds"
    kspace = trajectories.noise(np.random.default_rng(1), 1, 64, 128, 128)
    small = scans.cartesian(kspace).stream(wire.config_file("cartesian_plain"))
    for source in 3 * ["127.0.0.3"] + ["127.0.0.2"]:  # the flood's address, too: an idle pipeline gets its readouts
        reply = wire.exchange(server.address, small, source=source)
        assert not reply.errors() and len(reply.images) == 1, (source, reply.texts)
    for each in connections:
        each.close()
