"""What a test leaves to those after it: no process where it fails, no time where it waits for ever, and to other files nothing that
programs keep."""

import os
import pathlib
import re
import subprocess
import sys

TESTS = """
import subprocess

import pytest

from programs import started

def sleeper(name):
    process = started(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    print(f"{name} {process.pid}", flush=True)
    return process

@pytest.fixture(scope="module")
def shared():
    process = sleeper("shared")
    yield process
    assert process.poll() is None
    process.kill()
    process.wait()

def test_that_fails(shared):
    sleeper("left")
    assert False

def test_after_it(shared):
    assert shared.poll() is None
"""


WAITS = """
import time

import conftest

conftest.SECONDS = 1

def test_that_waits():
    time.sleep(60)

def test_after_it():
    pass
"""
KEEPS = """
import os

def test_where():
    print("kept in", os.environ["ECHOTRAIN_CACHE_DIR"], flush=True)
"""


def run(folder, **files):
    """pytest's output for these files, in one session with the fixtures of the integration tests."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    tests = pathlib.Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "-p", "conftest", folder]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(tests)}, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_what_a_failing_test_has_started_is_ended(tmp_path):
    output = run(tmp_path, fails=TESTS)
    assert "1 failed, 1 passed" in output, output
    pids = dict(re.findall(r"(?m)^(shared|left) (\d+)$", output))
    assert set(pids) == {"shared", "left"}
    for name, pid in pids.items():
        assert not pathlib.Path(f"/proc/{pid}").exists(), name


def test_a_test_that_waits_for_ever_fails_by_its_name(tmp_path):
    output = run(tmp_path, waits=WAITS)
    assert "1 failed, 1 passed" in output, output
    assert "FAILED test_waits.py::test_that_waits - conftest.Stuck: it took more than 1 s" in output, output


def test_what_programs_keep_is_not_there_for_other_files(tmp_path):
    folders = re.findall(r"kept in (\S+)", run(tmp_path, one=KEEPS, other=KEEPS))
    assert len(folders) == 2 and folders[0] != folders[1]
