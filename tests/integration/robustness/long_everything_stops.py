"""Everything stops, for all shipped pipelines: places at the largest sizes, and SIGTERM at 1,000 moments.

ECHOTRAIN_STOP_PLACES (24) sets the number of moments of each largest scan, ECHOTRAIN_STOP_MOMENTS (1000) that of SIGTERM
and ECHOTRAIN_SEED (2) which ones: several runs of fewer, each with a seed of its own, can share a machine of many cores.
"""

import os
import random
import statistics

import pytest

import stopping
from stopping import BOUND_S

PLACES = int(os.environ.get("ECHOTRAIN_STOP_PLACES", "24"))
MOMENTS = int(os.environ.get("ECHOTRAIN_STOP_MOMENTS", "1000"))
SHUTDOWN_TIMEOUT_S = 0.3


@pytest.mark.parametrize("name", stopping.shipped_names())
def test_places_of_the_largest_scans(name, tmp_path, capsys):
    chosen = random.Random(name)
    data = stopping.shipped_scan(name, tmp_path, large=True)
    all_freed = []
    # Until the scan has ended before its moment some times: then all of it has been met.
    for i in range(PLACES):
        folder = tmp_path / str(i)
        folder.mkdir()
        server = stopping.start_server(folder, "--threads", 2)
        moment_s = chosen.uniform(0, 1) * 2 ** chosen.uniform(-2, 4)
        freed = stopping.free_after_leaving(server, data, moment_s, by_admin=i % 2 == 1)
        if freed:
            all_freed.append(freed.own_s())
            assert freed.own_s() <= BOUND_S, f"{name} at {moment_s:.2f} s: {freed}\n{server.text()}"
        server.process.kill()
        server.process.wait()
    with capsys.disabled():
        if all_freed:
            print(f"\n{name}, {len(data) / 2**20:.0f} MiB: {len(all_freed)} moments, free after "
                  f"{statistics.median(all_freed):.3f} s (median), {max(all_freed):.3f} s (longest)")  # fmt: skip


def test_sigterm_at_many_moments(tmp_path, capsys):
    chosen = random.Random(int(os.environ.get("ECHOTRAIN_SEED") or "2"))
    names = stopping.shipped_names()
    streams = {name: stopping.shipped_scan(name, tmp_path, large=False) for name in names}
    took_s, forced = [], 0
    for i in range(MOMENTS):
        name = chosen.choice(names)
        folder = tmp_path / str(i)
        folder.mkdir()
        server = stopping.start_server(folder, "--shutdown-timeout-s", SHUTDOWN_TIMEOUT_S)
        moment_s = chosen.uniform(0, 1)
        status, took = stopping.seconds_to_exit(server, streams[name], moment_s)
        took_s.append(took.own_s())
        forced += status != 0
        assert took.own_s() <= SHUTDOWN_TIMEOUT_S + 2, f"{name} at {moment_s:.3f} s: {took}\n{server.text()}"
        assert status == 0 or took.starved_s > BOUND_S, f"{name} at {moment_s:.3f} s: {took}\n{server.text()}"
    with capsys.disabled():
        print(f"\nSIGTERM at {MOMENTS} moments: exit after {statistics.median(took_s):.2f} s (median), "
              f"{max(took_s):.2f} s (longest), {forced} by force")  # fmt: skip
