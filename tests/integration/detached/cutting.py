"""Detached scans that are cut at random moments: the client is killed, the connection cut, the server killed and started
again on the same folder, or its disk is full for a while. What comes out is compared with the scan that nobody disturbed.
"""

import contextlib
import errno
import re
import signal
import subprocess
import time

import numpy as np
import pytest

import scans
from chaos import Proxy
from faults import LIBRARY, FaultyServer
from programs import BIN, run_client, simulated_scan, started, variant

KINDS = ("client", "proxy", "server", "disk")


class Kept(FaultyServer):
    """A server whose folder outlives it."""

    def __init__(self, folder, *options):
        super().__init__(folder, "--backend", "cpu", "--detached-directory", folder / "detached",
                         "--detached-reserve-mib", 0, *options)  # fmt: skip

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self.log.close()


class Scan:
    """A file, its pipeline, and the images that an undisturbed server makes of it."""

    def __init__(self, folder, server, name, pipeline, simulated, rate):
        self.name, self.rate, self.pipeline = name, rate, folder / f"{name}.yaml"
        self.pipeline.write_text(pipeline)
        self.file = simulated_scan(folder / f"{name}.h5", *simulated)
        output = folder / f"{name}_truth.h5"
        done = server.send(self.file, self.pipeline, output)
        assert done.returncode == 0, done.stderr
        self.heads, self.pixels = self.read(output)

    @staticmethod
    def read(output):
        heads, pixels = scans.read_images(output)
        heads["attribute_string_len"] = 0  # attributes say how long things took
        return heads, pixels

    def check(self, output):
        """The same images, in the same order, each once."""
        heads, pixels = self.read(output)
        assert len(pixels) == len(self.pixels), (self.name, len(pixels), heads["image_index"].tolist())
        np.testing.assert_array_equal(heads, self.heads)
        np.testing.assert_array_equal(pixels, self.pixels)


class Cutting:
    def __init__(self, folder, seed):
        if not LIBRARY.exists():
            pytest.skip(f"{LIBRARY} is not built (sanitizers replace what it replaces)")
        self.folder, self.rng = folder, np.random.default_rng(seed)
        self.server = Kept(folder)
        self.counts = dict.fromkeys((*KINDS, "scans", "readouts again", "begun again", "never known"), 0)
        cpu = ("backend: auto", "backend: cpu")
        self.all_scans = [
            # At a scanner's pace, an image every 0.1 s.
            Scan(folder, self.server, "paced", variant("cartesian_plain", cpu),
                 ("--trajectory", "cartesian", "--matrix", 48, "--coils", 4, "--frames", 16), 640),
            # As fast as it goes, and then the server computes for a while.
            Scan(folder, self.server, "slow", variant("nlinv_cartesian", cpu),
                 ("--trajectory", "cartesian", "--matrix", 64, "--coils", 4, "--frames", 4), 0),
        ]  # fmt: skip
        self.servers_log = ""

    @contextlib.contextmanager
    def proxied(self):
        with Proxy(self.server.address) as self.proxy:
            yield self
        self.proxy = None

    # --- the client ---

    def start_client(self, scan, scan_id=""):
        self.resumed, self.output = scan_id, self.folder / "out.h5"
        self.output.unlink(missing_ok=True)
        self.told = open(self.folder / "client.out", "w+b"), open(self.folder / "client.err", "w+b")
        new = ("--resume", scan_id) if scan_id else ("-c", scan.pipeline, "--detach")
        command = [BIN / "echotrain", "send", scan.file, *new, "-o", self.output, "-p", self.proxy.address[1],
                   "--rate", scan.rate, "--timeout", 20, "--resume-for", 60]  # fmt: skip
        self.client = started(subprocess.Popen([str(c) for c in command], stdout=self.told[0], stderr=self.told[1]))

    def texts(self):
        return [(self.folder / f"client.{end}").read_text() for end in ("out", "err")]

    def scan_id(self):
        found = re.search(r"^scan +([0-9a-f]{32})$", self.texts()[0], re.M)
        return found[1] if found else self.resumed

    def end_client(self):
        for each in self.told:
            each.close()
        out, err = self.texts()
        assert "had acknowledged" not in err and "does not detach" not in err, err
        self.counts["readouts again"] += sum(
            max(0, int(at) - int(from_)) for at, from_ in re.findall(r"lost at readout (\d+); resumed at (\d+)", err)
        )
        return out, err

    # --- cuts ---

    def cut_client(self, scan):
        self.client.kill()
        self.client.wait()
        name = self.scan_id()
        self.end_client()
        self.counts["begun again"] += not name
        time.sleep(self.rng.uniform(0, 0.05))
        self.start_client(scan, name)

    def cut_proxy(self, scan):
        self.proxy.cut(reset=self.rng.random() < 0.5)

    def cut_server(self, scan):
        self.server.kill()
        self.servers_log += self.server.text()
        time.sleep(self.rng.uniform(0, 0.05))
        self.server = Kept(self.folder)
        self.proxy.target = self.server.address

    def cut_disk(self, scan):
        """Writes of any size fail for a while, after some more have gone well. A scan that begins on a full disk is refused,
        and an ordinary one."""
        end = time.monotonic() + 5
        while not self.scan_id() and self.client.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if not self.scan_id():
            self.cut_proxy(scan)
            return "proxy"
        self.server.storing.fail(1 + int(self.rng.integers(8)), count=1 << 40, error=errno.ENOSPC)
        time.sleep(self.rng.uniform(0.02, 0.2))
        self.server.storing.stop()

    def run(self, cuts, kinds=KINDS, longest_pause_s=0.35):
        """Scans until so many cuts are made. Returns how many of which kind, and what they cost."""
        left = cuts
        while left > 0:
            scan = self.all_scans[self.counts["scans"] % len(self.all_scans)]
            with self.proxied():
                self.start_client(scan)
                here = int(self.rng.integers(1, 8))  # then the scan may end in peace
                while here > 0 and left > 0 and self.client.poll() is None:
                    time.sleep(self.rng.uniform(0, longest_pause_s))
                    if self.client.poll() is not None:
                        break
                    kind = kinds[int(self.rng.integers(len(kinds)))]
                    kind = getattr(self, f"cut_{kind}")(scan) or kind
                    self.counts[kind] += 1
                    here, left = here - 1, left - 1
                code = self.client.wait(120)
                while code != 0 and "cannot connect" in self.texts()[1]:  # cut before it had begun
                    self.cut_client(scan)
                    code = self.client.wait(120)
                out, err = self.end_client()
                assert code == 0, f"{scan.name}: {out}{err}\n{self.server.text()[-4000:]}"
                scan.check(self.output)
                self.forget()
            self.counts["scans"] += 1
        return self.counts

    def forget(self):
        """Nothing is left but scans whose client was cut off before it knew their IDs."""
        name = self.scan_id()
        told = run_client("scans", name, "-p", self.server.port)
        assert told.returncode == 0 and "state             done\n" in told.stdout, told.stdout + told.stderr
        for line in run_client("scans", "-p", self.server.port).stdout.splitlines()[1:]:
            each = line.split()[0]
            assert run_client("scans", each, "--cancel", "-p", self.server.port).returncode == 0, each
            self.counts["never known"] += each != name

    def stop(self):
        """The server ends well."""
        assert self.server.stop() == 0, self.server.text()
        assert "internal error" not in self.servers_log + self.server.text()
