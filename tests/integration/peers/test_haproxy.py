"""Three servers behind HAProxy (docker/haproxy.cfg): what happens to scans when servers, links and the balancer go."""

import signal
import time

import numpy as np
import pytest

import balanced
import scans
from balanced import INTERVAL_S, wait_until
from programs import Server, simulated_scan
from vitals import in_time

PIPELINE = "cartesian_plain"  # the same bits however its data arrive
CAPACITIES = (1, 2, 3)
SLOW = 150  # readouts per second; the scan has 512
# A loaded machine may need this much for a scan that takes 0.1 s on a free one.
SLACK_S = 8.0


@pytest.fixture(scope="module", autouse=True)
def possible():
    balanced.require()


@pytest.fixture(scope="module")
def scan(possible, tmp_path_factory):
    return simulated_scan(tmp_path_factory.mktemp("scan") / "scan.h5", "--trajectory", "cartesian", "--matrix", 64,
                          "--coils", 4, "--frames", 8, "--noise", 1)  # fmt: skip


@pytest.fixture(scope="module")
def expected(scan, tmp_path_factory):
    """The images of one server, without a balancer."""
    folder = tmp_path_factory.mktemp("single")
    server = Server(folder, "--backend", "cpu")
    output = folder / "images.h5"
    sent = server.send(scan, PIPELINE, output)
    assert server.stop() == 0 and sent.returncode == 0, sent.stderr
    heads, pixels = scans.read_images(output)
    assert len(heads) == 8
    return heads, pixels


@pytest.fixture(scope="module")
def cluster(possible, tmp_path_factory):
    cluster = balanced.Cluster(tmp_path_factory.mktemp("cluster"), CAPACITIES)
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def all_up(cluster):
    """Each test begins with all servers up and idle."""
    for i, process in cluster.servers.items():
        if process.poll() is not None:
            cluster.start_server(i)
    cluster.wait_for_all()
    wait_until(lambda: sum(cluster.running().values()) == 0, "the servers to be idle")


def finished(client, expected):
    """The client ended well, and its images are those of one server, bit by bit."""
    text = client.communicate(timeout=60)[0]
    if client.returncode != 0:
        print(text)  # shown when the test fails
        return False
    heads, pixels = scans.read_images(client.output)
    assert np.array_equal(pixels, expected[1]) and pixels.dtype == expected[1].dtype, text
    # The last field is the length of the attributes, which hold the server's own times.
    for name in heads.dtype.names[:-1]:
        assert np.array_equal(heads[name], expected[0][name]), name
    return True


def seconds(client):
    return time.monotonic() - client.began


def test_unequal_capacity_is_used_and_not_exceeded(cluster, scan, expected):
    first = [cluster.start_scan(scan, PIPELINE, SLOW) for _ in range(sum(CAPACITIES))]
    wait_until(lambda: cluster.running() == {1: 1, 2: 2, 3: 3}, "each server to run what it can")
    over = cluster.start_scan(scan, PIPELINE)
    wait_until(lambda: cluster.waiting() == 1, "the scan too many to wait")
    assert cluster.running() == {1: 1, 2: 2, 3: 3}
    assert all(finished(client, expected) for client in [*first, over])


def test_the_servers_know_who_the_client_is(cluster, scan, expected):
    """The balancer says so: in the admin page, the log, and for the networks that are allowed (the client's only)."""
    client = cluster.start_scan(scan, PIPELINE, SLOW)
    wait_until(lambda: sum(cluster.running().values()) == 1, "the scan to run")
    (i,) = (i for i, n in cluster.running().items() if n)
    wait_until(lambda: cluster.peers(i) == [f"{balanced.FRONT}.2"], "the client's address")
    assert finished(client, expected)
    assert f"peer={balanced.FRONT}.2:" in (cluster.folder / f"server{i}.log").read_text()


def test_a_killed_server_costs_its_own_scans_only(cluster, scan, expected):
    begun = [cluster.start_scan(scan, PIPELINE, SLOW) for _ in range(5)]
    wait_until(lambda: sum(cluster.running().values()) == 5, "all scans to run")
    running = cluster.running()
    cluster.servers[3].kill()
    cluster.servers[3].wait()
    later = cluster.start_scan(scan, PIPELINE)
    assert finished(later, expected), "a scan that came after the kill was lost"
    assert seconds(later) < 2 * INTERVAL_S + SLACK_S
    lost = sum(not finished(client, expected) for client in begun)
    assert lost == running[3] > 0
    assert cluster.stats()[3]["status"] == "DOWN"


def test_a_link_that_is_cut_for_a_while_costs_nothing(cluster, scan, expected):
    begun = [cluster.start_scan(scan, PIPELINE, SLOW) for _ in range(3)]
    wait_until(lambda: sum(cluster.running().values()) == 3, "all scans to run")
    assert cluster.running()[2] > 0
    cluster.network.set_link("s2", "down")
    try:
        for _ in range(2):
            later = cluster.start_scan(scan, PIPELINE)
            assert finished(later, expected), "a scan that came after the cut was lost"
            assert seconds(later) < 2 * INTERVAL_S + SLACK_S
        wait_until(lambda: cluster.stats()[2]["status"] == "DOWN", "the balancer to notice")
        before = cluster.total(2)
        assert finished(cluster.start_scan(scan, PIPELINE), expected)
        assert cluster.total(2) == before
    finally:
        cluster.network.set_link("s2", "up")
    assert all(finished(client, expected) for client in begun)


def test_draining_loses_nothing_and_is_taken_back(cluster, scan, expected):
    begun = [cluster.start_scan(scan, PIPELINE, SLOW) for _ in range(3)]
    wait_until(lambda: cluster.running() == {1: 1, 2: 1, 3: 1}, "a scan on each server")
    cluster.servers[3].send_signal(signal.SIGTERM)
    asked = time.monotonic()
    states = ("DRAIN", "DOWN")
    during = []
    while not cluster.stats()[3]["status"].startswith(states):
        during.append(cluster.start_scan(scan, PIPELINE))
        assert finished(during[-1], expected), "a scan was lost before the balancer knew"
        in_time(time.monotonic() - asked, 2 * INTERVAL_S + SLACK_S)
    before = cluster.total(3)
    for _ in range(3):
        assert finished(cluster.start_scan(scan, PIPELINE), expected)
    assert cluster.total(3) == before, "a scan was given to a server that drains"
    assert all(finished(client, expected) for client in begun)
    assert cluster.servers[3].wait(30) == 0
    # Started again at its address, it gets scans again, though its last message was "drain".
    cluster.start_server(3)
    cluster.wait_for_all()
    again = []

    def is_used():
        # The first may go elsewhere: the balancer hears the check and the agent one after the other.
        again.append(cluster.start_scan(scan, PIPELINE, SLOW))
        time.sleep(0.5)
        return cluster.total(3) > before

    wait_until(is_used, "a scan on the server that is back")
    assert all(finished(client, expected) for client in again)


def test_reloading_the_balancer_loses_nothing(cluster, scan, expected):
    begun = [cluster.start_scan(scan, PIPELINE, SLOW) for _ in range(3)]
    wait_until(lambda: sum(cluster.running().values()) == 3, "all scans to run")
    for _ in range(2):
        during = [cluster.start_scan(scan, PIPELINE) for _ in range(2)]
        cluster.reload_balancer()
        during.append(cluster.start_scan(scan, PIPELINE))
        assert all(finished(client, expected) for client in during)
    assert all(finished(client, expected) for client in begun)
