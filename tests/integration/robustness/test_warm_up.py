"""What a server does after its start, before the first scan comes."""

import re
import time

import numpy as np
import pytest

import scans
from programs import Server, simulated_scan
from vitals import Vitals

WARM = {"ECHOTRAIN_WARM_UP": "true"}
DONE = r"warm-up: (\d+) of (\d+) steps in [\d.]+ s"


def start(folder, *arguments, environment=WARM):
    folder.mkdir()
    return Server(folder, "--log-level", "debug", *arguments, environment=environment)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    options = ("--trajectory", "cartesian", "--matrix", 78, "--coils", 5, "--acceleration", 3, "--calibration", 24)
    return simulated_scan(path, *options, "--noise", 1)


def test_every_step_is_taken_and_gives_its_images(tmp_path, backend):
    server = start(tmp_path / "server", "--backend", backend)
    taken, all_steps = server.wait_for(DONE, 60).groups()
    lines = re.findall(r"warm-up: (\S+) on (\w+) \d+, [\d.]+ ms(.*)", server.text())
    assert taken == all_steps == str(len(lines))
    assert {name for name, *_ in lines} >= {"cartesian_plain", "cartesian_grappa", "epi_2d", "radial_2d", "cg_sense_2d"}
    assert {place for _, place, _ in lines} == {backend}
    assert [line for line in lines if line[2]] == []
    assert server.stop() == 0


def test_images_are_those_of_a_server_that_does_not_warm_up(tmp_path, scan):
    """A scan that comes meanwhile, one that comes later, and one of a server that was told to leave it."""
    cold = start(tmp_path / "cold", "--backend", "cpu", environment={"ECHOTRAIN_WARM_UP": "false"})
    assert cold.send(scan, "cartesian_grappa", tmp_path / "cold.h5").returncode == 0
    warm = start(tmp_path / "warm", "--backend", "cpu")
    for name in ("meanwhile", "later"):
        assert warm.send(scan, "cartesian_grappa", tmp_path / f"{name}.h5").returncode == 0
        images = [scans.read_images(tmp_path / f"{w}.h5")[1] for w in ("cold", name)]
        np.testing.assert_array_equal(*images)
        warm.wait_for(DONE, 60)
    assert "warm-up" not in cold.text()
    assert (cold.stop(), warm.stop()) == (0, 0)


def test_it_leaves_little_behind(tmp_path):
    """It leaves no more memory than a server may take beyond `memory_mib` (docs/limits.md), no threads and descriptors."""
    plain = start(tmp_path / "plain", "--backend", "cpu", environment={"ECHOTRAIN_WARM_UP": "false"})
    warm = start(tmp_path / "warm", "--backend", "cpu")
    warm.wait_for(DONE, 60)
    time.sleep(0.5)  # its thread ends
    assert Vitals(warm).resident() - Vitals(plain).resident() < 256 << 20
    assert Vitals(warm).counts() == Vitals(plain).counts()
    assert (plain.stop(), warm.stop()) == (0, 0)


def test_a_server_that_warms_up_ends_when_it_is_told(tmp_path):
    server = start(tmp_path / "server", "--backend", "cpu")
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 10  # it does not finish what it has begun
