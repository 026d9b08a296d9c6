"""Clients that attack a server from another address: tests/support/hostile says how."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

from programs import BIN

PROGRAM = BIN / "hostile_clients"


class Hostile:
    """`clients` at once for `seconds` or until the block ends, on `cores` if given. Afterwards `did` says what each
    attack has done: connections, refused, errors, bytes. `attacks`: names, with commas between; all if there are none."""

    def __init__(self, server, clients, seconds, cores=None, seed=1, attacks=None):
        if not PROGRAM.exists():
            pytest.fail(f"{PROGRAM} is not built (it comes with the tests)", pytrace=False)
        where = ["--port", server.port, "--address", server.host, "--source", "127.0.0.2"]
        command = [PROGRAM, *where, "--clients", clients, "--seconds", seconds, "--seed", seed]
        command += ["--attacks", attacks] if attacks else []
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        )
        self.did = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            out, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        with contextlib.suppress(json.JSONDecodeError):
            self.did = json.loads(out)
        assert kind or self.did, f"hostile_clients ended with {self.process.returncode}: {out}"

    def total(self, what):
        return sum(counts[what] for counts in self.did.values())
