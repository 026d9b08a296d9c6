"""BART as a peer of bench_nufft:

    apt install bart; ./run bench nufft
    python3 tests/bench/peers/bart_peer.py [build/bin] [--out peers.json] [--commit NAME]

Adjoints of the same trajectories with 2 threads, by turns in one run, random data, medians. Of `bart nufft -a`, which is
a process of its own, only the time per frame counts: the difference between runs over several frames and over one, by the
number of frames between. That leaves out its start, its reading of the trajectory and its preparations, which
bench_nufft has in its plan; files lie in memory (/dev/shm). BART's error is relative, after its factor 1 / sqrt(voxels),
against a float64 direct sum at 4,096 random voxels, all coils. The results have the form of Google Benchmark's JSON, for
tables.py.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

ROUNDS = 5
VOXELS = 4096
TIME_DIMENSION = 10  # of BART's 16: frames
GOLDEN_ANGLE = 1.9416110387254666
RNG = np.random.default_rng(0)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "2", "ECHOTRAIN_THREADS": "2"}


def spokes(readouts, samples):
    angle = np.arange(readouts)[:, None] * GOLDEN_ANGLE
    radius = np.arange(samples)[None, :] / samples - 0.5
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def kooshball(readouts, samples):
    index = np.arange(readouts)[:, None]
    z = 1 - (2 * index + 1) / readouts
    ring, angle = np.sqrt(1 - z * z), index * GOLDEN_ANGLE
    radius = 0.5 * np.arange(samples)[None, :] / (samples - 0.5)
    return np.stack([radius * ring * np.cos(angle), radius * ring * np.sin(angle), radius * z], axis=-1)


def write_cfl(name, array, dimensions):
    """`array`: slowest axis first; `dimensions`: BART's, fastest first."""
    assert array.size == np.prod(dimensions)
    pathlib.Path(f"{name}.hdr").write_text("# Dimensions\n" + " ".join(map(str, dimensions)) + "\n")
    array.astype(np.complex64).tofile(f"{name}.cfl")


def run_bart(shape, folder, data):
    size = ":".join(map(str, (list(shape[::-1]) + [1, 1])[:3]))
    begin = time.perf_counter()
    subprocess.run(
        ["bart", "nufft", "-a", "-d", size, folder / "trajectory", folder / data, folder / "image"],
        check=True,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


def run_ours(program, case):
    command = [program, "--errors=off", f"--benchmark_filter=^{case}/cpu/", "--benchmark_out_format=json"]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([*command, f"--benchmark_out={out.name}"], check=True, env=ENVIRONMENT, capture_output=True)
        result = json.load(open(out.name))["benchmarks"][0]
    return result["real_time"] / 1e3


def error_of(positions, samples, images):
    """Relative error of `images` [coil, (z,) y, x] from `samples` [coil, sample] at random voxels."""
    k = positions.reshape(-1, positions.shape[-1])
    n, dims = images.shape[-1], k.shape[1]
    voxels = RNG.integers(0, n, (dims, VOXELS))  # x, y(, z)
    truth = np.zeros((len(samples), VOXELS), np.complex128)
    for begin in range(0, len(k), 1024):
        part, wave = k[begin : begin + 1024], 1
        for axis in range(dims):
            wave = wave * np.exp(2j * np.pi * part[:, axis, None] * (np.arange(n) - n // 2))[:, voxels[axis]]
        truth += samples[:, begin : begin + 1024].astype(np.complex128) @ wave
    got = images[(slice(None), *voxels[::-1])] * np.sqrt(images[0].size)
    return np.linalg.norm(got - truth) / np.linalg.norm(truth)


def compare(program, case, positions, shape, coils, frames):
    readouts, samples, dims = positions.shape
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = pathlib.Path(name)
        # BART's unit is cycles per field of view.
        trajectory = np.zeros((readouts, samples, 3))
        trajectory[..., :dims] = positions * shape[::-1]
        write_cfl(folder / "trajectory", trajectory, [3, samples, readouts])
        size = (frames, coils, readouts, samples)
        data = (RNG.uniform(-1, 1, size) + 1j * RNG.uniform(-1, 1, size)).astype(np.complex64)
        sizes = [1, samples, readouts, coils] + [1] * (TIME_DIMENSION - 4)
        write_cfl(folder / "one", data[:1], [*sizes, 1])
        write_cfl(folder / "several", data, [*sizes, frames])

        ours, whole, per_frame = [], [], []
        run_bart(shape, folder, "several")  # reads its wisdom and the files for the first time
        for _ in range(ROUNDS):
            ours.append(run_ours(program, case))
            several = run_bart(shape, folder, "several")
            whole.append(run_bart(shape, folder, "one"))
            per_frame.append((several - whole[-1]) / (frames - 1))
        image = np.fromfile(folder / "image.cfl", np.complex64).reshape(coils, *shape)
        error = error_of(positions, data[0].reshape(coils, -1), image)
    ours, whole, bart = (1e3 * np.median(times) for times in (ours, whole, per_frame))
    print(
        f"{case}: ours {ours:.1f} ms, bart {bart:.0f} ms per frame (error {error:.1e}), {whole:.0f} ms as a process;"
        f" ratio {bart / ours:.1f}",
        flush=True,
    )
    return {"name": f"{case}/cpu/bart", "real_time": bart, "time_unit": "ms", "ours_ms": ours, "error": error}


def main():
    build = pathlib.Path(__file__).resolve().parents[3] / "build"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=build / "bin")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    program = arguments.folder / "bench_nufft"
    golden, koosh = spokes(402, 512), kooshball(1078, 264)
    rows = [
        compare(program, "adjoint_2d_golden_402x512_c8_256/e1e-3", golden, (256, 256), 8, frames=5),
        compare(program, "adjoint_3d_kooshball_284592_c1_128/e1e-3", koosh, (128, 128, 128), 1, frames=5),
        compare(program, "adjoint_3d_kooshball_284592_c8_128/e1e-3", koosh, (128, 128, 128), 8, frames=3),
    ]
    if arguments.out:
        context = {"commit": arguments.commit, "date": time.strftime("%Y-%m-%d"), "machine": platform.processor()}
        arguments.out.write_text(json.dumps({"context": context, "benchmarks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
