"""docs/dicom.md takes a newcomer from nothing to a picture in Orthanc: its commands run, on free ports."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from orthanc import PROGRAM, wait_until
from programs import BIN, SOURCE, free_ports, run_client


def blocks():
    text = (SOURCE / "docs" / "dicom.md").read_text()
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def test_the_commands_of_the_page_bring_a_picture_into_orthanc(tmp_path):
    if PROGRAM is None or shutil.which("curl") is None:
        pytest.skip("orthanc or curl is not installed (./run setup test)")
    if "built without DICOM" in run_client("export", "/nonexistent.h5", "--dicom", "/nonexistent").stderr:
        pytest.skip("the programs were built without DICOM (./run setup test, then build again)")
    orthanc, server, scan, export = blocks()
    dicom, http, port, admin = free_ports(4)

    def run(text, check=True):
        for old, new in (("4242", str(dicom)), ("8042", str(http)),
                         ("echotrain-server ", f"echotrain-server --port {port} --admin-port {admin} "),
                         ("send scan.h5", f"send scan.h5 -p {port}"), ("health ", f"health -p {admin} "),
                         ("Orthanc pacs", f"{PROGRAM} pacs")):  # fmt: skip
            text = text.replace(old, new)
        # What a block leaves running tells its number.
        text = "set -e\n" + text + ("\necho $!\n" if text.rstrip().endswith("&") else "")
        done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def answers(*command):
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    running = []
    try:
        running.append(int(run(orthanc)))
        wait_until(lambda: answers("curl", "-sf", f"http://127.0.0.1:{http}/system"), "Orthanc")
        running.append(int(run(server)))
        wait_until(lambda: answers(str(BIN / "echotrain"), "health", "-p", str(admin)), "the server")
        wait_until(lambda: answers(str(BIN / "echotrain"), "health", "-p", str(admin), "--path", "/dicom"), "the peer")
        assert "images" in run(scan)
        wait_until(lambda: len(json.loads(subprocess.run(["curl", "-s", f"http://127.0.0.1:{http}/instances"],
                                                         capture_output=True, timeout=60).stdout)) == 1,
                   "the picture in Orthanc")  # fmt: skip
        assert "1 DICOM file written" in run(export)
    finally:
        for process in filter(alive, reversed(running)):
            os.kill(process, signal.SIGTERM)
    wait_until(lambda: not any(alive(process) for process in running), "the programs' end")


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = re.search(r"State:\s+(\w)", (open(f"/proc/{process}/status").read()))
    return state is None or state[1] != "Z"  # nobody may wait for what bash has left behind
