"""Everything stops, for all shipped pipelines: places at the largest sizes, and SIGTERM at 1,000 moments.

ECHOTRAIN_STOP_PLACES (24) sets the number of moments of each largest scan, ECHOTRAIN_STOP_MOMENTS (1000) that of SIGTERM
and ECHOTRAIN_SEED (2) which ones: several runs of fewer, each with a seed of its own, can share a machine of many cores.
ECHOTRAIN_STOP_LOG names a file that gets a line for each moment as soon as it is over, so that a run that is cut off has
said what it found.
"""

import os
import pathlib
import random
import re
import shutil
import statistics

import pytest

import stopping
from stopping import BOUND_S

PLACES = int(os.environ.get("ECHOTRAIN_STOP_PLACES", "24"))
MOMENTS = int(os.environ.get("ECHOTRAIN_STOP_MOMENTS", "1000"))
SHUTDOWN_TIMEOUT_S = 0.3


def note(line):
    if path := os.environ.get("ECHOTRAIN_STOP_LOG"):
        with open(path, "a") as log:
            log.write(line + "\n")


def peak_mib(server):
    """The most that the process had resident."""
    status = (pathlib.Path("/proc") / str(server.process.pid) / "status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


@pytest.mark.parametrize("name", stopping.shipped_names())
def test_places_of_the_largest_scans(name, tmp_path, capsys):
    chosen = random.Random(name)
    data = stopping.shipped_scan(name, tmp_path, large=True)
    all_freed, peak = [], 0
    # Until the scan has ended before its moment some times: then all of it has been met.
    for i in range(PLACES):
        folder = tmp_path / str(i)
        folder.mkdir()
        server = stopping.start_server(folder, "--threads", 2)
        moment_s = chosen.uniform(0, 1) * 2 ** chosen.uniform(-2, 4)
        freed = stopping.free_after_leaving(server, data, moment_s, by_admin=i % 2 == 1)
        peak = max(peak, peak_mib(server))
        note(f"place {name} {moment_s:.3f} {freed} peak {peak:.0f} MiB")
        if freed:
            all_freed.append(freed.own_s())
            assert freed.own_s() <= BOUND_S, f"{name} at {moment_s:.2f} s: {freed}\n{server.text()}"
        server.process.kill()
        server.process.wait()
    with capsys.disabled():
        if all_freed:
            print(f"\n{name}, {len(data) / 2**20:.0f} MiB: {len(all_freed)} moments, free after "
                  f"{statistics.median(all_freed):.3f} s (median), {max(all_freed):.3f} s (longest); at most "
                  f"{peak:.0f} MiB resident")  # fmt: skip
    assert all_freed, f"{name}: the scan had always ended before its moment"


def test_sigterm_at_many_moments(tmp_path, capsys):
    chosen = random.Random(int(os.environ.get("ECHOTRAIN_SEED") or "2"))
    names = stopping.shipped_names()
    streams = {name: stopping.shipped_scan(name, tmp_path, large=False) for name in names}
    took_s, forced, missed = [], 0, []
    for i in range(MOMENTS):
        name = chosen.choice(names)
        folder = tmp_path / str(i)
        folder.mkdir()
        server = stopping.start_server(folder, "--shutdown-timeout-s", SHUTDOWN_TIMEOUT_S)
        moment_s = chosen.uniform(0, 1)
        status, took = stopping.seconds_to_exit(server, streams[name], moment_s)
        took_s.append(took.own_s())
        forced += status != 0
        what = f"{name} at {moment_s:.3f} s: status {status}, {took}"
        note(f"sigterm {i} {what}")
        if status != 0 or took.own_s() > SHUTDOWN_TIMEOUT_S + 2:
            missed.append(f"{what}\n{server.text()}")
        shutil.rmtree(folder)
    with capsys.disabled():
        print(f"\nSIGTERM at {MOMENTS} moments: exit after {statistics.median(took_s):.2f} s (median), "
              f"{max(took_s):.2f} s (longest), {forced} by force")  # fmt: skip
    assert not missed, "\n".join(missed)
