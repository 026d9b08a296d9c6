"""The Python client's server of its own: local=True."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from python_client import PACKAGE, echotrain, environment

SCRIPT = """
import asyncio, os, sys
import numpy as np
import echotrain

kspace = np.zeros((1, 16, 16), complex)
kspace[0, 8, 8] = 1  # k = 0: an even image
images = echotrain.reconstruct(kspace, pipeline="cartesian_plain", local=True)
assert len(images) == 1 and np.ptp(images[0].data) < 1e-6 * images[0].data.max()
first = echotrain.Client(local=True)
assert echotrain.Client(local=True).port == echotrain.AsyncClient(local=True).port == first.port
assert first.query("echotrain::version") == echotrain.__version__
print(first.port, flush=True)
sys.stdin.readline()
"""


def start(script=SCRIPT, **variables):
    variables = {**environment(), **variables}
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=variables)  # fmt: skip


def fails(message, script=SCRIPT, **variables):
    process = start(script, **variables)
    _, told = process.communicate()
    assert process.returncode == 1 and message in told, told
    return told


@pytest.mark.parametrize("end", ["it ends", "it is killed"])
def test_the_server_is_one_and_private_and_ends_with_python(tmp_path, end):
    process = start(TMPDIR=str(tmp_path))
    port = int(process.stdout.readline() or pytest.fail(process.stderr.read()))
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    # The host's other users do not know its token.
    with pytest.raises(echotrain.ServerError, match="unauthorized"):
        echotrain.reconstruct(echotrain.make_scan([], header="<a/>"), pipeline="cartesian_plain", port=port)
    if end == "it is killed":
        process.send_signal(signal.SIGKILL)
    _, told = process.communicate()
    assert told == ""
    # The server and what lay in its folder: at once, or a few seconds later.
    while folder.exists():
        time.sleep(0.02)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_has_died_is_started_again():
    script = """
import echotrain
from echotrain.link import local
before = echotrain.Client(local=True)
local._running.process.kill()
local._running.process.wait()
after = echotrain.Client(local=True)
assert after.port != before.port or after.token != before.token
assert after.query("echotrain::version")
"""
    process = start(script)
    assert process.communicate() == ("", "") and process.returncode == 0


def test_without_a_program_it_is_said_where_it_was_looked_for(tmp_path):
    package = shutil.copytree(PACKAGE / "echotrain", tmp_path / "echotrain", ignore=shutil.ignore_patterns("bin"))
    told = fails("there is no program echotrain-server", ECHOTRAIN_SERVER="", PATH="", PYTHONPATH=str(tmp_path))
    assert "./run package" in told and str(package / "bin" / "echotrain-server") in told
    fails("no program is there", ECHOTRAIN_SERVER=str(tmp_path / "nothing"))


def test_the_programs_own_words_are_told_where_it_does_not_start(tmp_path):
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 3\n")
    program.chmod(0o700)
    assert "out of luck" in fails("it has ended", ECHOTRAIN_SERVER=str(program), TMPDIR=str(tmp_path))
    while [each for each in tmp_path.iterdir() if each.name.startswith("echotrain-")]:
        time.sleep(0.02)


def test_it_is_found_in_the_wheel_first_and_in_the_path_last(tmp_path, monkeypatch):
    from echotrain.link import local

    monkeypatch.delenv("ECHOTRAIN_SERVER", raising=False)
    places = [tmp_path / name / local.PROGRAM for name in ("wheel", "build", "path")]
    for place in places:
        place.parent.mkdir()
        place.write_text("")
        place.chmod(0o700)
    monkeypatch.setattr(local, "places", lambda: places[:2])
    monkeypatch.setenv("PATH", str(places[2].parent))
    for place in places:
        assert local.find_server() == str(place)
        place.unlink()
    with pytest.raises(echotrain.ConnectionFailed):
        local.find_server()


@pytest.mark.parametrize("other", [{"host": "recon"}, {"port": 9003}, {"token": "x"}, {"tls": True}])
def test_it_is_no_other_server(other):
    with pytest.raises(ValueError, match="of its own"):
        echotrain.Client(local=True, **other)


def test_the_build_of_the_sources_is_a_place():
    from echotrain.link import local

    assert pathlib.Path(os.path.realpath(PACKAGE)).parents[1] / "build" / "bin" / local.PROGRAM in local.places()
