"""A real PACS for tests: Orthanc, on free ports of this machine, with a folder of its own. And peers that misbehave."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from programs import free_ports, started

PROGRAM = shutil.which("Orthanc") or ("/usr/sbin/Orthanc" if pathlib.Path("/usr/sbin/Orthanc").exists() else None)


def wait_until(condition, what, timeout_s=60):
    """Waits for what other processes bring about: long, as they may get little of the machine."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited too long for: {what}"
        time.sleep(0.05)


class Orthanc:
    """Skips where Orthanc is not installed. Another process may take a port before it: then others are tried."""

    def __init__(self, folder, dicom_port=None, **configuration):
        if PROGRAM is None:
            pytest.skip("orthanc is not installed (./run setup test)")
        self.folder = pathlib.Path(folder)
        self.configuration = configuration
        for _ in range(5):
            self.dicom, self.http = free_ports(2)
            self.dicom = dicom_port or self.dicom
            if self.start():
                break
        else:
            pytest.fail(f"Orthanc does not start:\n{self.log()}")

    def start(self):
        self.folder.mkdir(exist_ok=True)
        options = {
            "Name": "test", "StorageDirectory": str(self.folder / "db"), "IndexDirectory": str(self.folder / "db"),
            "DicomAet": "ORTHANC", "DicomPort": self.dicom, "HttpPort": self.http, "RemoteAccessAllowed": False,
            "AuthenticationEnabled": False, "DicomCheckCalledAet": True, "DicomAlwaysAllowEcho": True,
            "DicomAlwaysAllowStore": True, "OverwriteInstances": False, "Plugins": [],
            **self.configuration,
        }  # fmt: skip
        path = self.folder / "orthanc.json"
        path.write_text(json.dumps(options))
        with open(self.folder / "orthanc.log", "ab") as log:
            self.process = started(subprocess.Popen([PROGRAM, str(path)], stdout=log, stderr=subprocess.STDOUT))
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.get("/system")
                return True
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)
        self.stop()
        return False

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=20) as answer:
            return json.loads(answer.read())

    def file(self, instance):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/instances/{instance}/file", timeout=20) as answer:
            return answer.read()

    def instances(self):
        return self.get("/instances")

    def wait_for(self, count):
        wait_until(lambda: len(self.instances()) >= count, f"{count} images in Orthanc")
        return self.instances()

    def peer(self, name="pacs"):
        return f"{name}=ORTHANC@127.0.0.1:{self.dicom}"

    def log(self):
        return (self.folder / "orthanc.log").read_text(errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class DeadPeer:
    """A port on which nobody listens, and that nobody else gets."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def stop(self):
        self.socket.close()


class MutePeer:
    """Takes connections and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.taken = []
        self.thread = threading.Thread(target=self.take, daemon=True)
        self.thread.start()

    def take(self):
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        for each in self.taken:
            each.close()


def spooled(folder, peer="pacs"):
    return sorted(name for name in os.listdir(folder / peer) if name.endswith(".dcm"))
