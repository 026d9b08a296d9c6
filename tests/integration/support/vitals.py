"""What a server process holds: threads, descriptors and resident memory, from /proc; memory in use on a GPU, from
nvidia-smi. Waits, and bounds in seconds.
"""

import os
import pathlib
import re
import subprocess
import time


class Vitals:
    def __init__(self, server):
        self.process = pathlib.Path("/proc") / str(server.process.pid)

    def threads(self):
        return len(os.listdir(self.process / "task"))

    def descriptors(self):
        return len(os.listdir(self.process / "fd"))

    def counts(self):
        return self.threads(), self.descriptors()

    def _kib(self, name):
        return int(re.search(rf"{name}:\s+(\d+) kB", (self.process / "status").read_text())[1])

    def resident(self):
        """Resident memory now [bytes]."""
        return self._kib("VmRSS") << 10

    def virtual(self):
        """Address space [bytes]."""
        return self._kib("VmSize") << 10

    def forget_peak(self):
        (self.process / "clear_refs").write_text("5")

    def peak(self):
        """The largest resident memory since forget_peak() [bytes]."""
        return self._kib("VmHWM") << 10


def gpu_mib():
    """Memory in use on the first GPU, by all programs."""
    command = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return float(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def wait_until(condition, timeout_s=10, what="a condition"):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.005)


class Late(AssertionError):
    """A busy machine moves bounds in seconds: a run whose failures are all of this kind is tried again (.ci/common.sh)."""


def in_time(took_s, bound_s, *what):
    if not took_s <= bound_s:
        raise Late(f"{took_s:.3f} s, and {bound_s:g} were allowed", *what)
