"""A scanner (TR 3 ms, an image every 15 ms) among 200 hostile clients of another address: no scan is lost, all images
have their bits, the server stays within its memory, and images come at most twice as late as without them.

ECHOTRAIN_NEIGHBOURS_S: seconds among them (300). ECHOTRAIN_NEIGHBOURS_BACKEND: cpu (the default) or cuda, where scans
are worked out, those of the hostile clients too. ECHOTRAIN_NEIGHBOURS_ATTACKS: names of attacks, with commas between
(all). ECHOTRAIN_NEIGHBOURS_TURNS: on or off, the server's `address_turns`. Latency is held to its bound where they can
have cores of their own (4 or more in all; a quarter is theirs), for the scan of `./run bench stream` (256 x 256, 16
coils), and printed elsewhere, for a smaller one (128 x 128, 4 coils).
"""

import os
import time

import numpy as np
import pytest

import hostile
import paced
from programs import Server, ends_well
from vitals import Vitals

SECONDS = float(os.environ.get("ECHOTRAIN_NEIGHBOURS_S") or 300)
BACKEND = os.environ.get("ECHOTRAIN_NEIGHBOURS_BACKEND") or "cpu"
ATTACKS = os.environ.get("ECHOTRAIN_NEIGHBOURS_ATTACKS") or ""
TURNS = os.environ.get("ECHOTRAIN_NEIGHBOURS_TURNS") or ""
CLIENTS, FRAMES = 200, 400
MEMORY_MIB, SLACK_MIB = 2048, 256


@pytest.fixture
def their_cores():
    """Cores for the hostile clients alone; None where there are fewer than 4."""
    all_cores = sorted(os.sched_getaffinity(0))
    if len(all_cores) < 4:
        yield None
        return
    ours = len(all_cores) - len(all_cores) // 4
    os.sched_setaffinity(0, all_cores[:ours])  # of this process and of the server that it starts
    yield all_cores[ours:]
    os.sched_setaffinity(0, all_cores)


class Times:
    def __init__(self):
        self.client, self.server, self.scans, self.longest = [], [], 0, 0

    def add(self, heard):
        self.client += heard.client_ms
        self.server += heard.server_ms
        self.scans += 1
        self.longest = max(self.longest, heard.seconds)

    def p99(self):
        return float(np.percentile(self.client, 99, method="higher")) if self.client else np.inf

    def __str__(self):
        if not self.scans:
            return "no scan"

        def of(values):
            p50, p99 = np.percentile(values, [50, 99], method="higher")
            return f"p50 {p50:.2f}, p99 {p99:.2f}, max {max(values):.2f} ms"

        return (
            f"{self.scans} scans, {len(self.client)} images, the longest scan {self.longest:.1f} s; "
            f"client: {of(self.client)}; in the server: {of(self.server)}"
        )


@pytest.fixture
def server(tmp_path, their_cores):
    environment = {"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}
    options = ("--backend", BACKEND, "--memory-mib", MEMORY_MIB, "--log-level", "warning", "--shutdown-timeout-s", 5)
    if TURNS not in ("", "on", "off"):
        pytest.fail(f"ECHOTRAIN_NEIGHBOURS_TURNS is '{TURNS}'; it must be on or off", pytrace=False)
    if TURNS:
        options += (f"--address-turns={'true' if TURNS == 'on' else 'false'}",)
    yield from ends_well(Server(tmp_path, *options, environment=environment))


def scan_for(seconds, server, scan, truth):
    """One scan after another; what is wrong with those that were lost, and how late the images of the others came."""
    times, lost = Times(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            heard = paced.scan(server.address, scan, timeout_s=300)
            assert heard.is_like(truth, exact=BACKEND == "cpu"), "other pixels than before"
            times.add(heard)
        except (AssertionError, OSError) as error:
            lost.append(str(error)[:1000])
    return times, lost


def test_a_scanner_among_200_hostile_clients(server, capsys, their_cores):
    scan = paced.real_time(FRAMES, *((256, 16) if their_cores else (128, 4)))
    vitals = Vitals(server)
    truth = paced.scan(server.address, scan).pixels()
    base = vitals.resident() if BACKEND == "cuda" else 0  # a CUDA context takes memory of its own
    quiet, lost = scan_for(min(30, max(10, SECONDS / 5)), server, scan, truth)
    assert not lost
    with hostile.Hostile(server, CLIENTS, SECONDS + 600, their_cores, attacks=ATTACKS) as attackers:
        among, lost = scan_for(SECONDS, server, scan, truth)
    with capsys.disabled():
        print(f"\nbackend {BACKEND}, hostile clients on {len(their_cores) if their_cores else 'shared'} cores")
        print(f"quiet: {quiet}\namong: {among}, {len(lost)} scans lost")
        print(f"p99 {among.p99() / quiet.p99():.2f} of the quiet one; peak {vitals.peak() >> 20} MiB of {MEMORY_MIB}")
        for name, counts in attackers.did.items():
            print(f"  {name}: {counts}")
    assert not lost
    assert vitals.peak() <= base + ((MEMORY_MIB + SLACK_MIB) << 20), vitals.peak() >> 20
    if their_cores:
        assert among.p99() <= 2 * quiet.p99()
