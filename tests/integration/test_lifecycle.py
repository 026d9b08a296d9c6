"""The server's life: clients that die, scans at the same time, and SIGTERM."""

import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import scans
import wire
from programs import BIN, Server, simulated_scan
from vitals import Vitals, in_time, wait_until


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    options = ("--trajectory", "cartesian", "--matrix", 64, "--coils", 4, "--frames", 5, "--noise", 1)
    return simulated_scan(path, *options)


@pytest.fixture
def own_server(tmp_path):
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--backend", "cpu", "--shutdown-timeout-s", "5")
    yield server
    server.stop()


def start_slow_client(server, scan, output, rate=100):
    command = [BIN / "echotrain", "send", scan, "-c", "cartesian_plain", "-p", server.port, "-o", output, "--rate", rate]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([str(c) for c in command], **pipes)


def resources(server):
    """Threads and open descriptors of the server."""
    return Vitals(server).counts()


def test_killed_client_leaves_the_server_serving(own_server, scan, tmp_path):
    assert own_server.send(scan, "cartesian_plain", tmp_path / "before.h5").returncode == 0
    own_server.wait_for("summary: complete")
    before = resources(own_server)
    for _ in range(3):
        client = start_slow_client(own_server, scan, tmp_path / "killed.h5")
        wait_until(lambda: resources(own_server)[1] > before[1])
        time.sleep(0.2)  # some readouts are on their way
        client.send_signal(signal.SIGKILL)
        client.communicate()
        wait_until(lambda: resources(own_server) == before)
    wait_until(lambda: own_server.text().count("summary:") == 4, what="a summary of each, which is the last thing")
    assert own_server.send(scan, "cartesian_plain", tmp_path / "after.h5").returncode == 0
    np.testing.assert_array_equal(*(scans.read_images(tmp_path / f"{w}.h5")[1] for w in ("before", "after")))
    assert own_server.stop() == 0


def test_sigterm_lets_a_running_scan_finish(own_server, scan, tmp_path):
    idle = resources(own_server)[1]
    client = start_slow_client(own_server, scan, tmp_path / "images.h5", rate=400)
    wait_until(lambda: resources(own_server)[1] > idle)
    time.sleep(0.2)
    assert client.poll() is None
    own_server.process.send_signal(signal.SIGTERM)
    out, err = client.communicate(timeout=20)
    assert client.returncode == 0, out + err
    assert len(scans.read_images(tmp_path / "images.h5")[1]) == 5
    assert own_server.process.wait(20) == 0  # a second signal would end it at once
    assert own_server.stop() == 0


def test_sigterm_ends_a_scan_that_goes_on_too_long(tmp_path, scan):
    server = Server(tmp_path, "--backend", "cpu", "--shutdown-timeout-s", "0.5")
    idle = resources(server)[1]
    client = start_slow_client(server, scan, tmp_path / "images.h5", rate=50)
    wait_until(lambda: resources(server)[1] > idle)
    time.sleep(0.2)
    begin = time.monotonic()
    assert server.stop() == 0
    in_time(time.monotonic() - begin, 8)
    _, err = client.communicate(timeout=20)
    assert client.returncode == 1
    assert "shutting down" in err


def test_sigterm_when_idle_and_with_silent_connections(tmp_path):
    server = Server(tmp_path, "--shutdown-timeout-s", "0.5", "--drain-timeout-s", "0.5")
    with socket.create_connection(server.address), socket.create_connection(server.address) as half:
        half.sendall(wire.config_file("radial_2d")[:500])
        time.sleep(0.1)
        assert server.stop() == 0


def test_scans_at_the_same_time_do_not_mix(server, tmp_path):
    """Four clients with different noise each get the images that they get alone."""
    clients = []
    for seed in range(4):
        path = tmp_path / f"scan{seed}.h5"
        options = ("--trajectory", "spiral", "--matrix", 32, "--coils", 2, "--frames", 3, "--noise", 2, "--seed", seed)
        simulated_scan(path, *options)
        command = [BIN / "echotrain", "send", path, "-c", "spiral_2d", "-p", server.port, "-o", tmp_path / f"{seed}.h5"]
        clients.append(subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL))
    assert [client.wait(60) for client in clients] == [0] * 4
    images = [scans.read_images(tmp_path / f"{seed}.h5")[1] for seed in range(4)]
    for seed, together in enumerate(images):
        assert server.send(tmp_path / f"scan{seed}.h5", "spiral_2d", tmp_path / "alone.h5").returncode == 0
        # Readouts are gridded as they come, in any batches, so the images agree up to rounding.
        np.testing.assert_allclose(together, scans.read_images(tmp_path / "alone.h5")[1], rtol=0, atol=1e-5)
    assert not np.array_equal(images[0], images[1])


def test_summary_line_per_scan(own_server, scan, tmp_path):
    assert own_server.send(scan, "cartesian_plain", tmp_path / "images.h5").returncode == 0
    line = own_server.wait_for("summary: complete.*")[0]
    for fact in ("pipeline=cartesian_plain", "backend=cpu", "readouts=320", "images=5", "in=", "after_last_readout_ms=", "queue_ms=", "compute_ms=", "copy_ms=",
                 "send_ms=", "(median/p99/max)", "peak="):
        assert fact in line, line


def test_port_in_use_is_told(own_server):
    command = [BIN / "echotrain-server", "--port", own_server.port]
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=20)
    assert result.returncode != 0
    assert str(own_server.port) in result.stderr and "in use" in result.stderr, result.stderr
