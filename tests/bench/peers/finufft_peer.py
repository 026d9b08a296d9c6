"""FINUFFT, cuFINUFFT and plain cuFFT as peers of bench_nufft and bench_solver, by turns with them:

    pip install finufft numpy [cufinufft]; ./run bench nufft solver
    python3 tests/bench/peers/finufft_peer.py [build/bin] [--out peers.json] [--commit NAME]

Five rounds; in each ours runs as a process of its own (`--errors=off`; median of 20), then the peer (median of 20, after
three). Both have trajectory, points and memory beforehand, white data where they compute, single precision. The peer's
tolerance stands in its row, and its error, against float64 sums (2D on a CPU: at every voxel of the first coil; else at random ones of all), beside its
time. CPU rows run with 2 threads (ECHOTRAIN_THREADS), and have the processor time of both, which other programs on the machine
change less; rows of tolerance 1e-5 run again with an oversampling of 1.25 and FFTW's measured plans, FINUFFT's fastest way there.
OMP_WAIT_POLICY=passive keeps FINUFFT's threads from spinning where cores are shared. --cpu leaves out GPUs, --only CASE takes the
rows whose name has CASE in it, --repetitions N is for a busy machine. GPU rows run where a GPU is: cuFINUFFT from the wheel or from CUFINUFFT_LIBRARY, a libcufinufft.so built by
hand; cuFFT from CUDA. A peer that cannot be loaded is left out, and said so. The results have the form of Google
Benchmark's JSON, for tables.py: each row the peer's time, ours_ms, ratio, error.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cuda_peers  # noqa: E402

ROUNDS, REPETITIONS, WARM_UP = 5, 20, 3
GOLDEN_ANGLE = 1.9416110387254666
RNG = np.random.default_rng(0)
THREADS = os.environ.get("ECHOTRAIN_THREADS", "2")
ENVIRONMENT = {**os.environ, "ECHOTRAIN_THREADS": THREADS}


def spokes(readouts, samples, angle=GOLDEN_ANGLE):
    angles = np.arange(readouts)[:, None] * angle
    radius = np.arange(samples)[None, :] / samples - 0.5
    return [(radius * np.cos(angles)).ravel(), (radius * np.sin(angles)).ravel()]


def kooshball(readouts, samples):
    index = np.arange(readouts)[:, None]
    z = 1 - (2 * index + 1) / readouts
    ring, angle = np.sqrt(1 - z * z), index * GOLDEN_ANGLE
    radius = 0.5 * np.arange(samples)[None, :] / (samples - 0.5)
    return [(radius * ring * np.cos(angle)).ravel(), (radius * ring * np.sin(angle)).ravel(), (radius * z).ravel()]


def radial():
    return spokes(600, 768, np.pi / 600)


# (case of bench_nufft, positions x, y(, z), voxels per axis, coils, the peer's tolerance, type)
CPU = (
    ("adjoint_2d_golden_402x512_c8_256/e1e-3", lambda: spokes(402, 512), 256, 8, 1e-3, 1),
    ("adjoint_3d_kooshball_284592_c1_128/e1e-3", lambda: kooshball(1078, 264), 128, 1, 1e-3, 1),
    ("adjoint_3d_kooshball_284592_c8_128/e1e-3", lambda: kooshball(1078, 264), 128, 8, 1e-3, 1),
)
# With FINUFFT's own oversampling and with one of 1.25.
CPU_CLOSE = (
    ("adjoint_2d_golden_402x512_c8_256/e1e-5", lambda: spokes(402, 512), 256, 8, 1e-5, 1),
    ("adjoint_3d_kooshball_284592_c1_128/e1e-5", lambda: kooshball(1078, 264), 128, 1, 1e-5, 1),
)
GPU = (
    ("adjoint_2d_radial_600x768_c16_384/e2e-3", radial, 384, 16, 1e-3, 1),
    ("adjoint_2d_radial_600x768_c16_384/e3e-5", radial, 384, 16, 1e-5, 1),
    ("forward_2d_radial_600x768_c16_384/e2e-3", radial, 384, 16, 1e-3, 2),
    ("adjoint_3d_kooshball_10m_c8_256/e2e-3", lambda: kooshball(39062, 256), 256, 8, 1e-3, 1),
    ("adjoint_3d_kooshball_10m_c8_256/e2e-5", lambda: kooshball(39062, 256), 256, 8, 1e-5, 1),
    ("forward_3d_kooshball_10m_c8_256/w4", lambda: kooshball(39062, 256), 256, 8, 1e-3, 2),
    ("adjoint_3d_kooshball_284592_c1_128/e1e-5", lambda: kooshball(1078, 264), 128, 1, 1e-5, 1),
    *CPU,
)  # fmt: skip


def random_values(count):
    parts = RNG.uniform(-1, 1, (2, count)).astype(np.float32)
    return parts[0] + 1j * parts[1]


def plane_truth(positions, samples, n):
    """The 2D image [y, x] of one coil's samples, in float64."""
    truth = np.zeros((n, n), np.complex128)
    for begin in range(0, samples.size, 4096):
        x, y = (np.exp(2j * np.pi * k[begin:begin + 4096, None] * (np.arange(n) - n // 2)) for k in positions)
        truth += (y * samples[begin:begin + 4096, None].astype(np.complex128)).T @ x
    return truth


def adjoint_error(positions, samples, images, voxels):
    """Relative, all coils, at random voxels; samples [coil, sample], images [coil, (z,) y, x]; in float64."""
    n, dims = images.shape[-1], len(positions)
    at = RNG.integers(0, n, (dims, voxels))  # x, y(, z)
    truth = np.zeros((len(samples), voxels), np.complex128)
    step = max(1, (1 << 22) // voxels)
    for begin in range(0, samples.shape[1], step):
        wave = 1
        for axis, k in enumerate(positions):
            lines, which = np.unique(at[axis], return_inverse=True)
            table = np.exp(2j * np.pi * k[begin:begin + step, None] * (lines - n // 2))
            wave = wave * table[:, which]
        truth += samples[:, begin:begin + step].astype(np.complex128) @ wave
    got = images[(slice(None), *at[::-1])]
    return float(np.linalg.norm(got - truth) / np.linalg.norm(truth))


def forward_error(positions, images, samples, chosen):
    """The same at random samples."""
    n = images.shape[-1]
    at = RNG.integers(0, samples.shape[1], chosen)
    difference = size = 0
    for s in at:
        truth = images
        for k in positions:  # x is the last axis
            truth = truth @ np.exp(-2j * np.pi * k[s] * (np.arange(n) - n // 2))
        difference += np.sum(np.abs(samples[:, s] - truth) ** 2)
        size += np.sum(np.abs(truth) ** 2)
    return float(np.sqrt(difference / size))


def ours(folder, program, case):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [folder / program, f"--benchmark_filter=^{case}(/iterations|/manual|/repeats|$)",
                   "--benchmark_out_format=json", f"--benchmark_out={out.name}"]  # fmt: skip
        command += ["--errors=off"] if program == "bench_nufft" else []
        subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True)
        rows = json.load(open(out.name))["benchmarks"]
    row = next((r for r in rows if r.get("aggregate_name") == "median"), rows[0])
    return row["real_time"], row.get("cpu_ms")


def median_ms(work, repetitions):
    """The median of its times, and its mean processor time."""
    times, processor = [], time.process_time()
    for _ in range(repetitions + WARM_UP):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[WARM_UP:]), 1e3 * (time.process_time() - processor) / len(times)


def by_turns(folder, program, case, peer, work, in_a_row=1, repetitions=REPETITIONS):
    rounds = [(*ours(folder, program, case), *median_ms(work, repetitions)) for _ in range(ROUNDS)]
    mine, my_cpu, other, other_cpu = zip(*rounds)
    mine, other = statistics.median(mine), statistics.median(other) / in_a_row
    row = {"name": f"{case}/{peer}", "real_time": other, "time_unit": "ms", "ours_ms": mine, "ratio": other / mine}
    if None not in my_cpu:
        row |= {"ours_cpu_ms": statistics.median(my_cpu), "cpu_ms": statistics.median(other_cpu) / in_a_row}
    print(f"{case}: ours {mine:.3f} ms, {peer} {other:.3f} ms, ratio {other / mine:.2f}", file=sys.stderr, flush=True)
    return row


class Finufft:
    name, place, options = "finufft", "cpu", {}

    def __init__(self, positions, shape, coils, tolerance, kind):
        import finufft

        points = [(2 * np.pi * axis).astype(np.float32) for axis in positions[::-1]]  # slowest axis first, as the shape
        self.plan = finufft.Plan(kind, shape, n_trans=coils, eps=tolerance, isign=1 if kind == 1 else -1,
                                 dtype="complex64", nthreads=int(THREADS), **self.options)  # fmt: skip
        self.plan.setpts(*points)

    def set(self, values):
        self.values = values[0] if len(values) == 1 else values
        self.result = self.plan.execute(self.values)

    def run(self):
        self.plan.execute(self.values, out=self.result)

    def get(self):
        return self.result


class FinufftLow(Finufft):
    name, options = "finufft_low", {"upsampfac": 1.25, "fftw": 0}  # 0: FFTW_MEASURE


def compare(folder, peer, row, repetitions):
    case, positions, n, coils, tolerance, kind = row
    positions = positions()
    shape, count = (n,) * len(positions), positions[0].size
    values = random_values(coils * (count if kind == 1 else n ** len(positions)))
    values = values.reshape(coils, -1) if kind == 1 else values.reshape(coils, *shape)
    runner = peer(positions, shape, coils, tolerance, kind)
    runner.set(values)
    result = by_turns(folder, "bench_nufft", f"{case}/{peer.place}", peer.name, runner.run, repetitions=repetitions)
    looked = 4096 if count < 1_000_000 and kind == 1 else 16  # of each coil; float64 sums of ten million are slow
    out = runner.get().reshape(coils, *(shape if kind == 1 else (count,)))
    if kind == 1 and len(positions) == 2 and peer.place == "cpu":
        truth, looked = plane_truth(positions, values[0], n), n * n
        error = float(np.linalg.norm(out[0] - truth) / np.linalg.norm(truth))
    elif kind == 1:
        error = adjoint_error(positions, values, out, looked)
    else:
        error = forward_error(positions, values, out, looked)
    return {**result, "error": error, "tolerance": tolerance, "looked_at": looked}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = pathlib.Path(__file__).resolve().parents[3] / "build"
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=build / "bin")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default="", metavar="CASE")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="of the peer, in each round")
    arguments = parser.parse_args()
    rows, left_out = [], []

    def wanted(table):
        return [row for row in table if arguments.only in row[0]]

    def add(row):  # written each time: a run that is cut off keeps what it had
        rows.append(row)
        if arguments.out:
            context = {"commit": arguments.commit, "date": time.strftime("%Y-%m-%d"), "machine": platform.processor()}
            arguments.out.write_text(json.dumps({"context": context, "benchmarks": rows}, indent=1) + "\n")

    if importlib.util.find_spec("finufft"):
        for row in wanted((*CPU, *CPU_CLOSE)):
            add(compare(arguments.folder, Finufft, row, arguments.repetitions))
        for row in wanted(CPU_CLOSE):
            add(compare(arguments.folder, FinufftLow, row, arguments.repetitions))
    else:
        left_out.append("FINUFFT (pip install finufft)")
    gpu, problem = (None, "--cpu") if arguments.cpu else cuda_peers.load_cuda()
    if gpu is None:
        left_out.append(f"peers on a GPU ({problem})")
    else:
        cufft, problem = cuda_peers.load_cufft()
        if cufft is None:
            left_out.append(f"plain cuFFT ({problem})")
        else:
            transform = cuda_peers.PlainToeplitz(gpu, cufft, 256)
            case = "toeplitz/128.3x284592/cuda"
            add(by_turns(arguments.folder, "bench_solver", case, "cufft", transform.run, transform.IN_A_ROW))
        library, problem = cuda_peers.load_cufinufft()
        if library is None:
            left_out.append(f"cuFINUFFT ({problem})")
        else:
            peer = cuda_peers.cufinufft_peer(gpu, library)
            for row in wanted(GPU):
                add(compare(arguments.folder, peer, row, arguments.repetitions))
    for peer in left_out:
        print(f"left out: {peer}", file=sys.stderr)


if __name__ == "__main__":
    main()
