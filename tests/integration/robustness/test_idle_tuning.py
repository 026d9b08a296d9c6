"""Methods are tried out while no scan runs, never while a client waits, and what was found is kept."""

import json
import re

import h5py
import numpy as np

from programs import Server, run_client, variant

PATTERN = r"tuning while no scan runs: (2d, width \d+, .*)"


def test_a_first_scan_tries_nothing_and_an_idle_server_does(tmp_path):
    scan, config = tmp_path / "scan.h5", tmp_path / "cpu.yaml"
    config.write_text(variant("cg_sense_2d", ("backend: auto", "backend: cpu"), ("iterations: 12", "iterations: 2")))
    made = run_client("simulate", "-o", scan, "--matrix", 160, "--coils", 8, "--readouts", 250, "--frames", 1)
    assert made.returncode == 0, made.stderr
    cache = tmp_path / "cache"

    def image(server, name):
        sent = server.send(scan, config, tmp_path / name)
        assert sent.returncode == 0, sent.stderr
        with h5py.File(tmp_path / name) as file:
            return np.array(next(iter(file["dataset"].values()))["data"])

    server = Server(tmp_path, "--autotune", "on", "--cache-folder", cache)
    try:
        first = image(server, "first.h5")
        ended = server.text().index("summary: complete")
        found = server.wait_for(PATTERN, timeout_s=60)
        assert found.start() > ended, "a trial ran beside the scan"
        kept = json.loads((cache / "tuning.json").read_text())["entries"]
        assert len(kept) == 1 and re.search(r"CPU.*2d, width", next(iter(kept))), kept
        # Another order of sums at most: 1e-5 is the bound between any two runs of gridding (docs/conventions.md).
        assert np.max(np.abs(image(server, "second.h5") - first)) <= 1e-5 * np.max(first)
    finally:
        assert server.stop() == 0
    # A later server knows.
    later_folder = tmp_path / "later"
    later_folder.mkdir()
    later = Server(later_folder, "--autotune", "on", "--cache-folder", cache)
    try:
        image(later, "third.h5")
        assert not re.search(PATTERN, later.text())
    finally:
        assert later.stop() == 0
