"""Captures of a server that is killed, whose disk is full or fails: what the client was told is true."""

import errno

import numpy as np
import pytest

import scans
import wire
from faults import FaultyServer
from faulty_clients import bits
from killed import kill_once
from programs import ends_well, run_client

FOR_GOOD = 1 << 30
FRAMES, COILS, MATRIX = 4, 8, 128


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(8)
    kspace = rng.standard_normal((FRAMES, COILS, MATRIX, MATRIX, 2)).astype("<f4").view("<c8")[..., 0]
    return b"".join(scans.cartesian(kspace).stream(wire.config_file("cartesian_plain")))  # 4.2 MiB


@pytest.fixture(params=["stop_capture", "end_session"])
def server(request, tmp_path):
    server = FaultyServer(tmp_path, "--backend", "cpu", "--capture-directory", tmp_path / "captures",
                          "--capture-sync", "before_close", "--capture-sync-s", 1000, "--capture-when-full",
                          request.param)  # fmt: skip
    server.ends = request.param == "end_session"
    yield from ends_well(server)


def captures(folder):
    return sorted((folder / "captures").glob("*.mrd"))


def test_killed_at_many_moments(tmp_path):
    rng = np.random.default_rng(2)
    total = {"acknowledged": 0, "cut": 0}
    for _ in range(30):
        for name, count in kill_once(tmp_path, rng).items():
            total[name] += count
    print(total)
    assert min(total.values()) > 3, total


def test_close_comes_when_the_disk_has_it(server, tmp_path, stream):
    server.syncing.count()
    assert not wire.exchange(server.address, [stream]).texts
    assert server.syncing["seen"] == 3  # the file, its checksums and the folder
    (capture,) = captures(tmp_path)
    done = run_client("verify", capture)
    assert done.returncode == 0 and f"right: all {len(stream)} bytes, by 5 checksums" in done.stdout, done.stdout


def one_scan(server, folder, stream, truth):
    """A scan whose capture may fail. Whether it did, as the client was told."""
    reply = wire.exchange(server.address, [stream])
    lost = [text for text in reply.texts if "the raw data" in text and ("WARNING" in text or "ERROR" in text)]
    ended = bool(reply.errors())
    others = [text for text in reply.texts if text not in lost]
    assert len(lost) <= 1 and (not others or (ended and "unfinished frame(s) dropped" in others[0])), reply.texts
    assert ended == (bool(lost) and server.ends)
    assert bits(reply.images) == (truth[: len(reply.images)] if ended else truth)
    found = captures(folder)
    if not lost:
        assert len(found) == 1 and found[0].read_bytes() == stream
        assert run_client("verify", found[0]).returncode == 0
    for path in found:
        try:
            kept = path.read_bytes()
        except FileNotFoundError:  # the server has removed what it could not finish
            continue
        assert stream.startswith(kept)
        assert "damaged" not in run_client("verify", path).stdout
    for path in (folder / "captures").iterdir():
        path.unlink(missing_ok=True)  # the server may remove it, too
    return bool(lost)


@pytest.mark.parametrize("kind, error", [("storing", errno.ENOSPC), ("syncing", errno.EIO)])
def test_every_write_and_every_sync_fails(server, tmp_path, stream, kind, error):
    """The Nth write to a file (of the capture or of its checksums) or the Nth fsync, alone and with all after it."""
    fault = getattr(server, kind)
    fault.count()
    truth = bits(wire.exchange(server.address, [stream]).images)
    calls = fault["seen"]
    assert calls >= 3
    for path in (tmp_path / "captures").iterdir():
        path.unlink(missing_ok=True)  # the server may remove it, too
    lost = 0
    for number in range(1, calls + 1):
        for count in (1, FOR_GOOD):
            fault.fail(number, count, error=error)
            told = one_scan(server, tmp_path, stream, truth)
            fault.stop()
            assert told == (fault["fired"] > 0), (number, count)
            lost += told
    assert lost > calls
    assert not one_scan(server, tmp_path, stream, truth)
