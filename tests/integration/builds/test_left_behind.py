"""A test that fails leaves no process behind, and those of its module's fixtures live on."""

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


def test_what_a_failing_test_has_started_is_ended(tmp_path):
    path = tmp_path / "test_fails.py"
    path.write_text(TESTS)
    folder = str(pathlib.Path(__file__).parents[1])
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "-p", "conftest", path]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    pids = dict(re.findall(r"(?m)^(shared|left) (\d+)$", done.stdout))
    assert set(pids) == {"shared", "left"}
    for name, pid in pids.items():
        assert not pathlib.Path(f"/proc/{pid}").exists(), name
