"""Eight scans take no longer beside 1,000 connections that are silent after the header than alone."""

import resource
import socket
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import scans
import wire
from faulty_clients import KEEPS_NONE, Witness, bits, talk
from programs import Server
from vitals import wait_until

SILENT, SCANNING, ROUNDS = 1000, 8, 12


def duration(address, stream):
    begin = time.monotonic()
    reply = talk(address, stream)
    return time.monotonic() - begin, reply


def test_scans_are_not_slowed_down(tmp_path, capsys):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 65536 else 65536, hard))
    server = Server(tmp_path, "--backend", "cpu", *KEEPS_NONE, "--max-sessions", SILENT + SCANNING, "--per-address-exempt", "127.0.0.1",
                    "--log-level", "warning")  # fmt: skip
    witness = Witness(server)
    rng = np.random.default_rng(2)
    kspace = rng.standard_normal((24, 8, 192, 192, 2)).astype(np.float32).view(np.complex64)[..., 0]
    stream = b"".join(scans.cartesian(kspace).stream(wire.config_file("cartesian_plain")))
    truth = bits(wire.parse(talk(server.address, stream)).images)
    slowest = {False: [], True: []}
    with ThreadPoolExecutor(SCANNING) as pool:
        # In the order without, with, with, without, ..., so that a machine that gets slower is slower for both.
        for i in range(2 * ROUNDS):
            crowded = i % 4 in (1, 2)
            silent = []
            if crowded:
                for _ in range(SILENT):
                    silent.append(socket.create_connection(server.address, timeout=60))
                    silent[-1].sendall(b"".join(witness.messages[:2]))
                wait_until(lambda: witness.vitals.threads() >= witness.idle[0] + SILENT, 60, "all connections")
            results = list(pool.map(duration, [server.address] * SCANNING, [stream] * SCANNING))
            slowest[crowded].append(max(seconds for seconds, _ in results))
            assert all(bits(wire.parse(reply).images) == truth for _, reply in results)
            for client in silent:
                client.close()
            witness.at_rest(60)
    # Other load on the machine only adds to a round's time, so the quickest quarter says most. Its distance from the
    # quickest round is the uncertainty of this machine.
    alone, beside = (statistics.quantiles(slowest[crowded], n=4)[0] for crowded in (False, True))
    noise = alone - min(slowest[False])
    with capsys.disabled():
        print(
            f"\nthe slowest of {SCANNING} scans of {len(stream) / 2**20:.0f} MiB, quickest quarter of {ROUNDS} rounds: "
            f"alone {alone:.3f} s, beside {SILENT} silent connections {beside:.3f} s ({beside / alone:.3f}), "
            f"noise {noise:.3f} s"
        )
    assert beside <= 1.1 * alone + noise
    assert server.stop() == 0
