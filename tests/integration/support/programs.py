"""The programs under test, a running server, and where measured data lies."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

SOURCE = pathlib.Path(os.environ.get("ECHOTRAIN_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[3])
BIN = pathlib.Path(os.environ.get("ECHOTRAIN_BIN_DIR") or SOURCE / "build" / "bin")
SHIPPED = SOURCE / "config" / "pipelines"
DATA = pathlib.Path(os.environ.get("ECHOTRAIN_DATA") or SOURCE.parent / "shared" / "data")
ADDRESS = re.compile(r"listening on ([^\s\"]+?):(\d+)(?=\s|\")")


def measured(name):
    """A file of the measured data, which does not come with the sources."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"measured data not found: {path} (set ECHOTRAIN_DATA)")
    return path


_started = []


def started(process):
    """Notes a process that must not outlive a test that fails (conftest.py); returns it."""
    _started.append(process)
    return process


class Left:
    """The noted processes from here on."""

    def __init__(self):
        self.first = len(_started)
        self.last = self.first

    def end(self):
        self.last = len(_started)

    def kill(self):
        for process in _started[self.first : self.last]:
            if process.poll() is None:
                process.kill()
                process.wait()


def run_client(*arguments, timeout=120):
    """Runs `echotrain ARGUMENTS` to its end."""
    command = [str(BIN / "echotrain"), *(str(a) for a in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def simulated_scan(path, *options):
    """Makes the file with `echotrain simulate`; returns its path."""
    made = run_client("simulate", "-o", path, *options)
    assert made.returncode == 0, made.stderr
    return path


def variant(name, *changes):
    """The text of a shipped pipeline with parts replaced. Each part must occur, so a changed pipeline is noticed."""
    text = (SHIPPED / f"{name}.yaml").read_text()
    text = re.sub(r"(?m)^(#|aliases:).*\n", "", text)
    for old, new in changes:
        assert old in text, f"{name}.yaml has no '{old}'"
        text = text.replace(old, new)
    return text


def plain_variant(name, *changes, completes=False):
    """`variant` of a finished pipeline without what finishes its images: coils by the root of the sum of squares, nothing
    completed, turned or scaled, so that values are those of the formulas. completes: partial Fourier is completed, and
    coils are joined with their phase, which that needs."""
    text = re.sub(r"(?m)^  - (intensity|orient|scale)\b.*\n", "", variant(name))
    if not completes:
        text = text.replace("coil_combine: {method: adaptive}", "coil_combine: {method: rss}")
        text = re.sub(r"(?m)^  - partial_fourier\b.*\n", "", text)
    for old, new in changes:
        assert old in text, f"{name}.yaml has no '{old}'"
        text = text.replace(old, new)
    return text


def raw_coils(name, backend="cpu"):
    """A shipped pipeline that gives complex coil images."""
    return variant(
        name,
        ("backend: auto", f"backend: {backend}"),
        ("coil_combine: {method: rss}", "coil_combine: {method: none}"),
        ("component: magnitude", "component: complex"),
    )


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A server process of its own on a free loopback port. `environment` adds to this process's."""

    def __init__(self, folder, *arguments, environment=None, program=BIN / "echotrain-server"):
        self.log_path = folder / "server.log"
        self.log = open(self.log_path, "wb")
        command = [program, "--port", "0", "--admin-port", "0", "--log-level", "info", *arguments]
        self.process = started(
            subprocess.Popen(
                [str(c) for c in command],
                stdout=self.log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        )
        found = self.wait_for(ADDRESS)
        self.host, self.port = found[1], int(found[2])
        self.address = (self.host, self.port)
        admin = re.search(ADDRESS.pattern.replace("listening", "admin"), self.text())
        self.admin = (admin[1], int(admin[2])) if admin else None

    def text(self):
        return self.log_path.read_text(errors="replace")

    def wait_for(self, pattern, timeout_s=10):
        """Waits until the log holds `pattern`; returns the match."""
        end = time.monotonic() + timeout_s
        while True:
            found = re.search(pattern, self.text())
            if found:
                return found
            if self.process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"no {pattern!r} in the server's log:\n{self.text()}")
            time.sleep(0.01)

    def send(self, path, config, output, *arguments, timeout=120):
        return run_client("send", path, "-c", config, "-a", self.host, "-p", self.port, "-o", output, *arguments,
                          timeout=timeout)  # fmt: skip

    def stop(self):
        """Sends SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"the server ignored SIGTERM for 20 s:\n{self.text()}")
        finally:
            self.log.close()


def ends_well(server):
    """What fixtures yield from: the server for their tests, after which SIGTERM must end it with 0."""
    yield server
    code = server.stop()
    assert code == 0, f"SIGTERM must end the server with 0, not {code}:\n{server.text()}"
    assert "internal error" not in server.text(), server.text()
