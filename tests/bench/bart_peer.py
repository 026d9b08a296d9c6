"""BART as a peer of bench_nufft: `apt install bart`, `./run bench nufft`, then `python3 tests/bench/bart_peer.py [build/bin/bench_nufft]`.

Adjoints of the same trajectories with 2 threads, by turns in one run, random data, medians. Of `bart nufft -a`, which is
a process of its own, only the time per frame counts: the difference between runs over several frames and over one, by the
number of frames between. That leaves out its start, its reading of the trajectory and its preparations, which
bench_nufft has in its plan; files lie in memory (/dev/shm). Errors are relative, against a float64 direct sum at random
voxels of the first coil: bench_nufft's own and, of BART, after its factor 1 / sqrt(voxels).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROUNDS = 5
VOXELS = 24
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
    command = [program, f"--benchmark_filter=^{case}/cpu/", "--benchmark_out_format=json"]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([*command, f"--benchmark_out={out.name}"], check=True, env=ENVIRONMENT, capture_output=True)
        result = json.load(open(out.name))["benchmarks"][0]
    return result["real_time"] / 1e3, result["error"]


def error_of(positions, samples, image):
    """Relative error of one coil's `image` at random voxels."""
    k = positions.reshape(-1, positions.shape[-1])
    voxels = RNG.integers(0, image.shape, (VOXELS, image.ndim))
    # Component 0 is the fastest axis.
    centred = (voxels - np.array(image.shape) // 2)[:, ::-1]
    truth = np.array([np.exp(2j * np.pi * (k @ r)) @ samples.astype(np.complex128) for r in centred])
    got = image[tuple(voxels.T)] * np.sqrt(image.size)
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
            seconds, error = run_ours(program, case)
            ours.append(seconds)
            several = run_bart(shape, folder, "several")
            whole.append(run_bart(shape, folder, "one"))
            per_frame.append((several - whole[-1]) / (frames - 1))
        image = np.fromfile(folder / "image.cfl", np.complex64).reshape(coils, *shape)[0]
        bart_error = error_of(positions, data[0, 0].ravel(), image)
    ours, whole, bart = (1e3 * np.median(times) for times in (ours, whole, per_frame))
    print(
        f"{case}: ours {ours:.1f} ms (error {error:.1e}), bart {bart:.0f} ms per frame (error {bart_error:.1e}),"
        f" {whole:.0f} ms as a process; ratio {bart / ours:.1f}",
        flush=True,
    )


def main():
    build = pathlib.Path(__file__).resolve().parents[2] / "build"
    program = sys.argv[1] if len(sys.argv) > 1 else build / "bin" / "bench_nufft"
    golden, koosh = spokes(402, 512), kooshball(1078, 264)
    compare(program, "adjoint_2d_golden_402x512_c8_256/e1e-3", golden, (256, 256), 8, frames=5)
    compare(program, "adjoint_3d_kooshball_284592_c1_128/e1e-3", koosh, (128, 128, 128), 1, frames=5)
    compare(program, "adjoint_3d_kooshball_284592_c8_128/e1e-3", koosh, (128, 128, 128), 8, frames=3)


if __name__ == "__main__":
    main()
