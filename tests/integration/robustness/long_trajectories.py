"""Thousands of scans of trajectories that nobody has seen before, with default caches, in 4 GiB: no kill, no growth.

ECHOTRAIN_MEMORY_SCANS says how many of each kind, "radial_2d,cg_sense_2d,fhd_pcg" (20000,500,60, which takes 25 to 40
minutes on 2 cores; 0 leaves a kind out); ECHOTRAIN_MEMORY_BOUND how they are bounded: `address_space` (the default), or `cgroup`, which
needs the right to make one.
"""

import concurrent.futures
import os
import pathlib
import resource
import time
import urllib.request

import numpy as np
import pytest

import exposition
import programs
import trajectories
import wire
from programs import ends_well
from vitals import Vitals

MIB = 1 << 20
BOUND = 4 << 30
COUNTS = [int(n) for n in (os.environ.get("ECHOTRAIN_MEMORY_SCANS") or "20000,500,60").split(",")]
HOW = os.environ.get("ECHOTRAIN_MEMORY_BOUND") or "address_space"
CLIENTS = 4
BATCHES = 20
SLACK = 256 * MIB
GROUPS = [  # version 2, version 1
    (pathlib.Path("/sys/fs/cgroup"), "memory.max"),
    (pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
]


def new_group():
    """A control group of 4 GiB; skips where none can be made."""
    for parent, file in GROUPS:
        folder = parent / f"echotrain_test_{os.getpid()}"
        try:
            folder.mkdir()
            (folder / file).write_text(str(BOUND))
            return folder
        except OSError:
            if folder.is_dir():
                folder.rmdir()
    pytest.skip("no control group can be made here")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server that finds out by itself how much it may take."""
    group = new_group() if HOW == "cgroup" else None
    start = programs.subprocess.Popen

    def bound():
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        else:
            resource.setrlimit(resource.RLIMIT_AS, (BOUND, BOUND))

    with monkeypatch.context() as patch:
        patch.setattr(programs.subprocess, "Popen", lambda *a, **k: start(*a, preexec_fn=bound, **k))
        environment = {"ECHOTRAIN_CACHE_DIR": str(tmp_path / "cache")}
        server = programs.Server(tmp_path, "--backend", "cpu", "--log-level", "warning", environment=environment)
    yield from ends_well(server)
    if group:
        group.rmdir()


def rise(samples):
    """What the line fitted to the second half of the samples rises from its beginning to its end [bytes]."""
    late = np.array(samples[len(samples) // 2 :])
    return np.polyfit(np.arange(len(late)), late, 1)[0] * len(late)


def memory(server):
    """(what of the budget is taken, the budget)"""
    with urllib.request.urlopen("http://{}:{}/metrics".format(*server.admin), timeout=30) as answer:
        metrics = exposition.Metrics(answer.read().decode())
    return metrics["echotrain_memory_taken_bytes"], metrics["echotrain_memory_bound_bytes"]


def test_thousands_of_new_trajectories_in_4_gib(server):
    vitals = Vitals(server)
    bound = memory(server)[1]
    assert bound + SLACK < BOUND, "the server knows how much it may take"
    kinds = {
        "radial_2d": (COUNTS[0], lambda seed: trajectories.radial(seed, 64, "radial_2d", 32, 4)),
        "cg_sense_2d": (COUNTS[1], lambda seed: trajectories.radial(seed, 192, "cg_sense_2d")),
        "fhd_pcg": (COUNTS[2], lambda seed: trajectories.random_3d(seed, 96)),
    }
    begin, seed = time.monotonic(), 0
    for name, (count, make) in kinds.items():
        if count == 0:
            continue

        def failure(its_seed, make=make):
            reply = wire.exchange(server.address, make(its_seed), timeout_s=600)
            return reply.errors() or (["no image"] if len(reply.images) != 1 else None)

        beyond = []  # resident memory that the budget does not know of, after each of some batches
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for batch in np.array_split(np.arange(seed, seed + count), min(count, BATCHES)):
                failures = [errors for errors in pool.map(failure, batch.tolist()) if errors]
                assert not failures, (name, len(failures), failures[:3])
                assert vitals.peak() < bound + SLACK, (name, vitals.peak() / MIB)
                beyond.append(vitals.resident() - memory(server)[0])
        seed += count
        rises = rise(beyond) / MIB
        print(
            f"{name}: {count} scans, {time.monotonic() - begin:.0f} s; MiB: budget {bound / MIB:.0f}, peak "
            f"{vitals.peak() / MIB:.0f}, beyond the budget's count {max(beyond) / MIB:.0f}, which rises by {rises:.1f}"
        )
        assert rises < 32, (name, beyond)
    if COUNTS == [20000, 500, 60]:
        assert time.monotonic() - begin < 40 * 60
