"""Processes that wait for scans with their modules loaded."""

import os
import re
import shutil
import signal
import time

import pytest
import steps
import wire
from programs import ends_well
from python_client import PACKAGE

STEP = steps.python("warm", function="who", takes="CoilImages", gives="CoilImages")
CHAIN = ("cartesian_kspace", "fft: {direction: inverse}", STEP, "coil_combine: {method: rss}", "image")


@pytest.fixture
def modules(tmp_path):
    folder = tmp_path / "modules"
    folder.mkdir()
    shutil.copy(steps.MODULES / "warm.py", folder)
    (folder / "echotrain").symlink_to(PACKAGE / "echotrain")
    return folder


@pytest.fixture
def server(tmp_path, modules):
    yield from ends_well(steps.start_server(tmp_path, "--python-memory-mib", "300", modules=modules, warm=1))


def loaded(modules):
    file = modules.parent / "loaded"
    return [int(each) for each in file.read_text().split()] if file.exists() else []


def scan(server, chain=CHAIN):
    messages = steps.readouts(steps.random_kspace())
    reply = wire.exchange(server.address, [steps.pipeline(*chain), steps.header(), *messages, wire.close()])
    assert not reply.errors() and len(reply.images) == 1, reply.texts
    return dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)</value>", reply.images[0].attributes))


def warm_scan(server, modules, chain=CHAIN):
    """A scan by a process that had loaded its module before. The server looks once a second."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        before = loaded(modules)
        found = scan(server, chain)
        if int(found["Process"]) in before:
            return found
        time.sleep(1.5)
    raise AssertionError(f"no process waits: {loaded(modules)}, {found}")


def waiting(modules, but=()):
    """The process that waits, which has not served a scan."""
    alive = [each for each in loaded(modules) if each not in but and os.path.exists(f"/proc/{each}")]
    return alive[0] if len(alive) == 1 else None


def test_a_process_waits_with_its_module_loaded_and_serves_one_scan(server, modules):
    scan(server)
    found = [warm_scan(server, modules) for _ in range(2)]
    assert [each["Scans"] for each in found] == ["0", "0"]
    assert found[0]["Process"] != found[1]["Process"]
    steps.wait_until(lambda: not os.path.exists(f"/proc/{found[1]['Process']}"), "the process of a scan has ended")


def test_a_process_that_has_died_is_replaced(server, modules):
    scan(server)
    steps.wait_until(lambda: waiting(modules), "a process waits")
    killed = waiting(modules)
    time.sleep(1.5)  # it is ready
    os.kill(killed, signal.SIGKILL)
    steps.wait_until(lambda: waiting(modules, [killed]), "another one waits")
    assert int(warm_scan(server, modules)["Process"]) != killed


def test_files_that_change_are_loaded_anew(server, modules):
    scan(server)
    steps.wait_until(lambda: waiting(modules), "a process waits")
    time.sleep(1.5)
    text = (modules / "warm.py").read_text()
    (modules / "warm.py").write_text(text.replace('VERSION = "1"', 'VERSION = "2.0"'))
    assert scan(server)["Version"] == "2.0"
    assert warm_scan(server, modules)["Version"] == "2.0"


def test_a_module_that_cannot_be_loaded_is_not_tried_again_and_again(server, modules):
    scan(server)
    steps.wait_until(lambda: waiting(modules), "a process waits")
    time.sleep(1.5)
    text = (modules / "warm.py").read_text()
    (modules / "warm.py").write_text(text + "raise ValueError('broken')\n")
    time.sleep(5)
    assert len(loaded(modules)) <= 3  # of the scan, of the good module, of the bad one
    (modules / "warm.py").write_text(text)
    assert scan(server)["Version"] == "1"
    warm_scan(server, modules)


def test_modules_of_messages_wait_too(server, modules):
    warm_scan(server, modules, (*CHAIN[:2], *CHAIN[3:], steps.python("warm")))


def test_a_scan_that_wants_the_memory_gets_it(tmp_path, modules):
    server = steps.start_server(tmp_path, "--python-memory-mib", "300", "--memory-mib", "1000", modules=modules, warm=1)
    warm_scan(server, modules)
    steps.wait_until(lambda: waiting(modules), "a process waits")
    large = STEP.replace("}", ", shared_mib: 200}")
    assert int(scan(server, (*CHAIN[:2], large, *CHAIN[3:]))["Process"]) > 0
    assert server.stop() == 0
    steps.wait_until(lambda: not waiting(modules), "no process is left")
