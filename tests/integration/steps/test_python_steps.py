"""Python modules as steps of a pipeline."""

import re
import resource
import signal
import socket
import struct
import sys
import threading
import time

import ismrmrd
import numpy as np
import pytest
import steps
import wire
from programs import Server, ends_well, run_client, simulated_scan
from vitals import in_time

IMAGES = ("cartesian_kspace", "fft: {direction: inverse}", "coil_combine: {method: rss}", "image")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from ends_well(steps.start_server(tmp_path_factory.mktemp("steps"), "--python-memory-mib", "512",
                                            "--python-write", tmp_path_factory.getbasetemp()))  # fmt: skip


def scan(server, pipeline, messages, header=None):
    reply = wire.exchange(server.address, [pipeline, header or steps.header(), *messages, wire.close()])
    return reply


def good(reply, images):
    assert not reply.errors() and len(reply.images) == images, reply
    return reply.images


def no_children(server):
    steps.wait_until(lambda: not steps.children(server.process.pid), "the steps' processes are gone")


# --- what modules do --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(wire.PIXELS))
def test_a_module_changes_images_of_the_client(server, kind):
    pixels = (100 * np.random.default_rng(kind).random((2, 3, 5, 7))).astype(wire.PIXELS[kind])
    meta = "<ismrmrdMeta><meta><name>Purpose</name><value>test</value></meta></ismrmrdMeta>"
    sent = [steps.image(pixels * (i + 1), index=i + 1, attributes=meta, kind=kind, slice=i, user_int=range(8))
            for i in range(3)]  # fmt: skip
    reply = scan(server, steps.pipeline(steps.python("invert", config="soft")), sent)
    for i, image in enumerate(good(reply, 3)):
        want = pixels * (i + 1)
        np.testing.assert_array_equal(image.pixels, want.max() - want)
        assert image.pixels.dtype == want.dtype
        assert (image.head["image_series_index"], image.head["image_index"], image.head["slice"]) == (99, i + 1, i)
        assert list(image.head["user_int"]) == list(range(8))
        found = ismrmrd.Meta.deserialize(image.attributes)
        assert (found["Purpose"], found["ImageProcessingHistory"]) == ("test", ["PYTHON", "INVERT"])
    assert reply.said("INFO") == ["INFO     inverting, config soft"]


def test_images_pass_without_a_header(server):
    pixels = np.ones((1, 1, 4, 4))
    no_header = wire.header("Dummy XML header")
    reply = scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(pixels)], no_header)
    np.testing.assert_array_equal(good(reply, 1)[0].pixels, pixels)


@pytest.mark.parametrize("before", [(), ("noise_adjust",)])
def test_a_module_reconstructs_readouts(server, before):
    kspace = [steps.random_kspace(seed) for seed in range(3)]
    messages = [m for i, each in enumerate(kspace) for m in steps.readouts(each, i)]
    reply = scan(server, steps.pipeline(*before, steps.python("recon")), messages)
    for image, data in zip(good(reply, 3), kspace):
        want = steps.root_sum_of_squares(data)
        assert np.linalg.norm(image.pixels[0, 0] - want) <= 1e-5 * np.linalg.norm(want)


def test_a_module_filters_readouts(server):
    kspace = steps.random_kspace(4)
    first = steps.python("filter_readouts", gives="readouts")
    window = np.hanning(steps.N + 1)[:-1]
    want = steps.root_sum_of_squares(kspace * window)
    for chain in ((first, *IMAGES), ("noise_adjust", first, *IMAGES)):
        reply = scan(server, steps.pipeline(*chain), steps.readouts(kspace))
        found = good(reply, 1)[0].pixels[0, 0]
        assert np.linalg.norm(found - want) <= 1e-5 * np.linalg.norm(want)


def test_steps_follow_each_other(server):
    kspace = [steps.random_kspace(seed) for seed in range(5)]
    messages = [m for i, each in enumerate(kspace) for m in steps.readouts(each, i)]
    chain = (steps.python("pass_on", gives="readouts"), *IMAGES, steps.python("pass_on"), steps.python("invert"))
    reply = scan(server, steps.pipeline(*chain), messages)
    plain = scan(server, steps.pipeline(*IMAGES), messages)
    for i, (image, same) in enumerate(zip(good(reply, 5), good(plain, 5))):
        np.testing.assert_array_equal(image.pixels, same.pixels.max() - same.pixels)
        assert image.head["repetition"] == i


def test_waveforms_reach_a_module_and_go_on(server):
    head = struct.pack("<H6xQIIIHHfH2x", 1, 0, 1, 2, 3, 4, 1, 2.5, 0)
    waveform = struct.pack("<H", wire.WAVEFORM) + head + np.arange(4, dtype="<u4").tobytes()
    reply = scan(server, steps.pipeline(steps.python("count_items")), [waveform, waveform])
    assert reply.said("INFO") == ["INFO     2 Waveform of [0, 1, 2, 3]"]


def test_results_come_before_the_scan_goes_on(server):
    lines = steps.readouts(steps.random_kspace())
    with socket.create_connection(server.address, timeout=60) as connection:
        config = steps.pipeline(steps.python("misbehave", config="early"))
        connection.sendall(b"".join([config, steps.header(), lines[0]]))
        (number,) = struct.unpack("<H", connection.recv(2, socket.MSG_WAITALL))
        assert number == wire.IMAGE  # nothing more was sent
        steps.reset(connection)
    no_children(server)


def test_results_of_a_paused_scan_come_too(tmp_path):
    server = steps.start_server(tmp_path, "--pause-s", "0.2")
    config = f"'{{\"how\": \"late\", \"file\": \"{tmp_path / 'now'}\"}}'"
    connection, _ = begin_scan(server, "late", config)
    server.wait_for("for 0.2 s: its place on", 30)
    (tmp_path / "now").touch()
    (number,) = struct.unpack("<H", connection.recv(2, socket.MSG_WAITALL))
    assert number == wire.IMAGE
    connection.sendall(wire.close())
    while connection.recv(1 << 16):
        pass
    connection.close()
    assert server.stop() == 0


def test_recon_runs_steps_too(tmp_path):
    scan_file, config, out = tmp_path / "scan.h5", tmp_path / "steps.yaml", tmp_path / "out.h5"
    simulated_scan(scan_file, "--trajectory", "cartesian", "--matrix", 32, "--coils", 2)
    config.write_text("echotrain: 1\nname: steps\ndescription: A test\npipeline:\n"
                      "  - python: {module: recon}\n  - python: {module: invert}\n")  # fmt: skip
    done = run_client("recon", scan_file, "-c", config, "-o", out, "--python", sys.executable, "--python-modules",
                      steps.MODULES)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with ismrmrd.Dataset(str(out), create_if_needed=False) as file:
        image = file.read_image("image_99", 0)
    assert image.data.shape == (1, 1, 32, 32) and image.data.min() == 0 < image.data.max()


# --- modules that go wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how, why, line",
    [
        ("raise", "has ended with exit code 1", "ValueError: the phantom has no head"),
        ("crash", r"was ended by signal 11 \(Segmentation fault\)", "will crash"),
        ("exit", "has ended with exit code 7", "will exit"),
        ("garbage", "has sent bytes that are no MRD message", "will garbage"),
        ("half", "has ended with exit code 0", "will half"),
        ("child", "has ended with exit code 5", r"child \d+"),
        ("memory", "has ended with exit code 1", "MemoryError"),
        ("files", "has ended with exit code 1", "Too many open files"),
        ("hang", r"has neither taken nor given anything for 1 s \(timeout_s\)", ""),
        ("spin", r"has neither taken nor given anything for 1 s \(timeout_s\)", ""),
    ],
)
def test_a_module_that_goes_wrong_ends_its_scan_and_says_why(server, how, why, line):
    # Starting Python may take more than a second, too.
    step = steps.python("misbehave", config=how, timeout_s=1 if how in ("hang", "spin") else 60)
    reply = scan(server, steps.pipeline(step), steps.readouts(steps.random_kspace()))
    assert re.search(f"ERROR    recon-failed: python module 'misbehave' {why}", reply.errors()[0]), reply
    assert any(re.search(line, text) for text in reply.texts), reply
    no_children(server)
    assert good(scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(np.ones((1, 1, 2, 2)))]), 1)


def test_a_module_that_returns_early_ends_the_scan_when_more_comes(server):
    connection, process = begin_scan(server, "return")
    steps.wait_until(lambda: not steps.lives(process), "the module has returned")
    connection.sendall(steps.readouts(steps.random_kspace())[1] + wire.close())
    reply = wire.parse(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    connection.close()
    assert "python module 'misbehave' has ended, and yet the scan goes on" in reply.errors()[0], reply
    # One that has seen all that comes may return before the end.
    connection, process = begin_scan(server, "return")
    steps.wait_until(lambda: not steps.lives(process), "the module has returned")
    connection.sendall(wire.close())
    assert not wire.parse(b"".join(iter(lambda: connection.recv(1 << 16), b""))).errors()
    connection.close()


def test_a_flood_of_images_is_held_back_and_ends_with_its_client(server):
    config = steps.pipeline(steps.python("misbehave", config="flood"))
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"".join([config, steps.header(), steps.readouts(steps.random_kspace(n=256), 0)[0]]))
        for _ in range(64):  # then the client reads no more
            connection.recv(1 << 16)
        (leader,) = steps.wait_until(lambda: steps.children(server.process.pid), "the module runs")
        flooding = steps.family(leader)
        # All buffers are full when nothing more is written, though there is no end to it.
        steps.wait_until(lambda: rests(flooding), "the module is held back")
        assert resident(server.process.pid) < 1 << 30
        steps.reset(connection)
    no_children(server)


def test_a_flood_of_texts_is_bounded(server):
    flood = steps.pipeline(steps.python("misbehave", config="text_flood"))
    reply = scan(server, flood, steps.readouts(steps.random_kspace()))
    assert not reply.errors() and 50 < len(reply.texts) <= 210


def rests(processes, for_s=1):
    """Whether processes use no time of a processor for a while."""
    before = [spent(each) for each in processes]
    time.sleep(for_s)
    return before == [spent(each) for each in processes]


def spent(process):
    """CPU time of a process so far [ticks]."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident(process, name="VmRSS"):
    with open(f"/proc/{process}/status") as file:
        return int(re.search(rf"{name}:\s+(\d+)", file.read())[1]) << 10


def peak(process):
    return resident(process, "VmHWM")


# --- nothing is left --------------------------------------------------------------------------------------------------


def begin_scan(server, how, config=None):
    """A scan whose module is at work; the process that watches over it, and ends after all that it watches over."""
    connection = socket.create_connection(server.address, timeout=60)
    before = set(steps.children(server.process.pid))
    step = steps.python("misbehave", config=config or how)
    connection.sendall(b"".join([steps.pipeline(step), steps.header(), steps.readouts(steps.random_kspace())[0]]))
    (process,) = steps.wait_until(lambda: set(steps.children(server.process.pid)) - before, "the module runs")
    return connection, process


@pytest.mark.parametrize("how", ["hang", "spin", "early"])
def test_a_module_ends_within_half_a_second_of_a_reset(server, how):
    connection, process = begin_scan(server, how)
    if how == "early":
        connection.recv(2)
    began = time.monotonic()
    steps.reset(connection)
    steps.wait_until(lambda: not steps.lives(process), "the module has ended")
    in_time(time.monotonic() - began, 0.5)


def test_no_module_outlives_a_killed_server(tmp_path):
    server = steps.start_server(tmp_path)
    begun = tmp_path / "begun"
    connection, process = begin_scan(server, "spin", f"'{{\"how\": \"spin\", \"begun\": \"{begun}\"}}'")
    steps.wait_until(begun.exists, "the module spins")  # and does not see that its socket ends
    family = steps.family(process)
    assert len(family) == 2
    steps.kill(server.process.pid)
    server.process.wait()
    all_end(family)
    connection.close()
    server.log.close()


def begin_family(server, folder, how):
    """A scan whose module has started a process of its own; all processes."""
    file = folder / "family"
    connection, process = begin_scan(server, how, f"'{{\"how\": \"{how}\", \"file\": \"{file}\"}}'")
    steps.wait_until(file.exists, "the module has a child")
    return connection, [*steps.family(process), int(file.read_text())]


def all_end(processes):
    try:
        steps.wait_until(lambda: not any(steps.lives(each) for each in processes), "all have ended")
    finally:
        for each in processes:
            if steps.lives(each):
                steps.kill(each)


@pytest.mark.parametrize("how", ["family", "daemon"])
def test_what_a_module_has_started_ends_with_the_scan(server, tmp_path, how):
    connection, family = begin_family(server, tmp_path, how)
    assert steps.lives(family[0]) and steps.lives(family[-1])  # a daemon's parent, between them, may just end
    steps.reset(connection)
    all_end(family)


@pytest.mark.parametrize("how", ["exit", "crash", "return"])
def test_what_a_module_has_started_ends_with_the_module(server, tmp_path, how):
    file = tmp_path / "daemon"
    config = f"'{{\"how\": \"{how}\", \"daemon\": \"{file}\"}}'"
    scan(server, steps.pipeline(steps.python("misbehave", config=config)), steps.readouts(steps.random_kspace())[:1])
    all_end([int(file.read_text())])


@pytest.mark.parametrize("how", ["family", "daemon"])
def test_what_a_module_has_started_ends_with_a_killed_server(tmp_path, how):
    server = steps.start_server(tmp_path)
    connection, family = begin_family(server, tmp_path, how)
    steps.kill(server.process.pid)
    server.process.wait()
    all_end(family)
    connection.close()
    server.log.close()


def test_a_server_that_was_started_with_sigchld_ignored_hears_how_modules_end(tmp_path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        server = steps.start_server(tmp_path)
    finally:
        signal.signal(signal.SIGCHLD, before)
    step = steps.python("misbehave", config="exit")
    reply = scan(server, steps.pipeline(step), steps.readouts(steps.random_kspace()))
    assert "has ended with exit code 7" in reply.errors()[0], reply
    good(scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(np.ones((1, 1, 2, 2)))]), 1)
    assert server.stop() == 0


def test_limits_above_the_machines_are_lowered_with_a_warning(tmp_path):
    server = steps.start_server(tmp_path, "--python-files", 300)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (200, 200))
    reply = scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(np.ones((1, 1, 2, 2)))])
    good(reply, 1)
    (warning,) = reply.said("WARNING")
    assert "this machine allows 200 open files (RLIMIT_NOFILE), not the 300 of python_files" in warning
    assert server.stop() == 0


def test_a_message_without_an_end_is_bounded_by_the_budget(tmp_path):
    server = steps.start_server(tmp_path, "--memory-mib", 800, "--python-memory-mib", 256)
    before = resident(server.process.pid)
    step = steps.python("misbehave", config="endless")
    reply = scan(server, steps.pipeline(step), steps.readouts(steps.random_kspace()))
    (error,) = reply.errors()
    assert "python module 'misbehave' has sent or been sent more than there is memory for" in error, reply
    assert peak(server.process.pid) - before < 800 << 20
    good(scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(np.ones((1, 1, 2, 2)))]), 1)
    assert server.stop() == 0


def test_no_process_stays_after_good_scans(server):
    for _ in range(3):
        good(scan(server, steps.pipeline(steps.python("pass_on")), [steps.image(np.ones((1, 1, 2, 2)))]), 1)
    no_children(server)


# --- which modules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../invert", "/etc/passwd", "a.b", "''", "invert.py", "modules/invert", "-c"])
def test_names_that_are_no_modules_are_refused(server, name):
    reply = scan(server, steps.pipeline(steps.python(name)), [])
    assert "no module's name" in reply.errors()[0], reply


def test_modules_come_from_the_folder_only(tmp_path):
    folder, outside = tmp_path / "modules", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "inside.py").write_text((steps.MODULES / "pass_on.py").read_text())
    (outside / "secret.py").write_text((steps.MODULES / "pass_on.py").read_text())
    (folder / "linked.py").symlink_to(outside / "secret.py")
    (folder / "package").symlink_to(outside)
    (outside / "__init__.py").write_text("from secret import process\n")
    (folder / "alias.py").symlink_to(folder / "inside.py")
    server = steps.start_server(tmp_path, modules=folder)
    image = [steps.image(np.ones((1, 1, 2, 2)))]
    for name in ("linked", "package"):
        assert "link out of the folder" in scan(server, steps.pipeline(steps.python(name)), image).errors()[0]
    missing = scan(server, steps.pipeline(steps.python("json")), image).errors()[0]
    assert "has no module 'json'" in missing and "inside" in missing
    for name in ("inside", "alias"):
        good(scan(server, steps.pipeline(steps.python(name)), image), 1)
    wrong = scan(server, steps.pipeline(steps.python("inside", function="nothing")), image)
    assert "no function 'nothing'" in wrong.errors()[0]
    (folder / "inside.py").chmod(0o666)
    assert "every user of this machine" in scan(server, steps.pipeline(steps.python("inside")), image).errors()[0]
    assert server.stop() == 0


def test_without_a_folder_there_are_no_modules(tmp_path):
    server = Server(tmp_path, "--client-pipelines", "all")
    reply = scan(server, steps.pipeline(steps.python("invert")), [])
    assert "option python_modules" in reply.errors()[0]
    assert server.stop() == 0


def test_the_memory_of_modules_is_in_the_budget(tmp_path):
    bounds = ("--memory-mib", "1500", "--python-memory-mib", "512", "--wait-timeout-s", "60")
    server = steps.start_server(tmp_path, *bounds)
    held, _ = begin_scan(server, "hang")
    replies = []
    image = [steps.image(np.ones((1, 1, 2, 2)))]
    pass_on = steps.pipeline(steps.python("pass_on"))
    other = threading.Thread(target=lambda: replies.append(scan(server, pass_on, image)))
    other.start()
    server.wait_for("waiting for memory")  # of one address only half of the budget is reserved: one module at a time
    assert len(steps.children(server.process.pid)) == 1 and not replies
    steps.reset(held)
    other.join(60)
    good(replies[0], 1)
    assert server.stop() == 0


def test_a_module_that_never_fits_is_refused(tmp_path):
    server = steps.start_server(tmp_path, "--memory-mib", "512", "--python-memory-mib", "1024")
    reply = scan(server, steps.pipeline(steps.python("pass_on")), [])
    assert reply.errors()[0].startswith("ERROR    budget:"), reply
    assert server.stop() == 0
