"""BART's 3D solver as a peer of bench_solver: `apt install bart`, `./run bench solver`, then `python3
tests/bench/peers/bart_pics_peer.py [build/bin/bench_solver]`.

60 iterations of conjugate gradients with an l2 prior at 128^3 from 284,592 samples of one coil, a random trajectory and
data, 2 threads, by turns in one run. BART (`bart pics -S -l2 -r 0.001 -i 60`) is timed as a process and, to leave out its
start, its reading and its preparations, by the difference between 60 and 10 iterations.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from bart_peer import ENVIRONMENT, write_cfl

SAMPLES, MATRIX, ROUNDS = 284592, 128, 3
RNG = np.random.default_rng(0)


def bart(folder, iterations):
    begin = time.perf_counter()
    command = ["bart", "pics", "-S", "-l2", "-r", "0.001", "-i", str(iterations), "-t"]
    files = [folder / "trajectory", folder / "data", folder / "maps", folder / "image"]
    subprocess.run([*command, *files], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def ours(program):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [program, "--benchmark_filter=^pcg60/128.*cpu", "--benchmark_out_format=json"]
        subprocess.run([*command, f"--benchmark_out={out.name}"], check=True, env=ENVIRONMENT, capture_output=True)
        results = json.load(open(out.name))["benchmarks"]
    return next(r["real_time"] / 1e3 for r in results if r["name"].endswith("median"))


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/bin/bench_solver"
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = pathlib.Path(name)
        k = RNG.uniform(-0.5, 0.5, (SAMPLES, 3)) * MATRIX
        data = RNG.standard_normal(SAMPLES) + 1j * RNG.standard_normal(SAMPLES)
        write_cfl(folder / "trajectory", k, (3, SAMPLES))
        write_cfl(folder / "data", data, (1, SAMPLES))
        write_cfl(folder / "maps", np.ones(MATRIX**3), (MATRIX,) * 3)
        rounds = [(bart(folder, 60), bart(folder, 10), ours(program)) for _ in range(ROUNDS)]
    whole, few, mine = (statistics.median(column) for column in zip(*rounds))
    iterations = (whole - few) / 50 * 60
    print(
        f"60 iterations: ours {mine:.2f} s; bart {iterations:.1f} s ({whole:.1f} s as a process); "
        f"ratio {mine / iterations:.3f} ({mine / whole:.3f})"
    )


if __name__ == "__main__":
    main()
