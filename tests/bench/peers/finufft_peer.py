"""FINUFFT, cuFINUFFT and plain cuFFT as peers of bench_nufft and bench_solver, by turns with them:

    pip install finufft numpy [cufinufft]; ./run bench nufft solver
    python3 tests/bench/peers/finufft_peer.py [build/bin] [--out peers.json] [--commit NAME]

First a peer's best settings are sought for each row. With each oversampling, the loosest tolerance of TOLERANCES (from four times
our error on) whose error is at most ours (where single precision does not take it there: at most 1.1 times the least it comes
to); then, with that, each option that bears upon speed in turn, and its fastest value is kept (on the CPU by
processor time). The fastest of both oversamplings then runs by turns with ours in five rounds: ours as a process of its own
(`--errors=off`; median of 20), then the peer (median of 20, after three). Both have trajectory, points and memory beforehand,
white data where they compute, single precision. Our error is what `expected_error()` says of white noise, which the tables of
bench_nufft have beside what was measured; the peer's is against float64 sums (2D on a CPU: at every voxel of the first coil;
else at random ones of all; of ten million samples 16, or, where CuPy is, 4096 and of a forward transform 256).

CPU rows run with 2 threads (ECHOTRAIN_THREADS), and have the processor time of both, which other programs on the machine
change less; OMP_WAIT_POLICY=passive keeps FINUFFT's threads from spinning where cores are shared. --cpu leaves out GPUs, --only
CASE takes the rows whose name has CASE in it, --repetitions N and --rounds N are for a busy machine or a short time. GPU rows run where a GPU is: cuFINUFFT from
the wheel or from CUFINUFFT_LIBRARY, a libcufinufft.so built by hand; cuFFT from CUDA. A peer that cannot be loaded is left out,
and said so. The results have the form of Google Benchmark's JSON, for tables.py: each row the peer's time, ours_ms, ratio, error,
its tolerance and settings.
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
TOLERANCES = [10 ** (-k / 3) for k in range(5, 20)]  # 2e-2 to 5e-7
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


# (case of bench_nufft, positions x, y(, z), voxels per axis, coils, type)
CPU = tuple(
    (f"{case}/{error}", *problem)
    for error in ("e1e-3", "e1e-5")
    for case, *problem in (
        ("adjoint_2d_golden_402x512_c8_256", lambda: spokes(402, 512), 256, 8, 1),
        ("adjoint_3d_kooshball_284592_c1_128", lambda: kooshball(1078, 264), 128, 1, 1),
        ("adjoint_3d_kooshball_284592_c8_128", lambda: kooshball(1078, 264), 128, 8, 1),
    )
    if error == "e1e-3" or "3d_kooshball_284592_c8" not in case
)
GPU = (
    ("adjoint_2d_radial_600x768_c16_384/e2e-3", radial, 384, 16, 1),
    ("adjoint_2d_radial_600x768_c16_384/e3e-5", radial, 384, 16, 1),
    ("forward_2d_radial_600x768_c16_384/e2e-3", radial, 384, 16, 2),
    ("adjoint_3d_kooshball_284592_c1_128/e1e-5", lambda: kooshball(1078, 264), 128, 1, 1),
    *(row for row in CPU if row[0].endswith("e1e-3")),
    ("adjoint_3d_kooshball_10m_c8_256/e2e-3", lambda: kooshball(39062, 256), 256, 8, 1),
    ("adjoint_3d_kooshball_10m_c8_256/e2e-5", lambda: kooshball(39062, 256), 256, 8, 1),
    ("forward_3d_kooshball_10m_c8_256/w4", lambda: kooshball(39062, 256), 256, 8, 2),
)


def random_values(count):
    parts = RNG.uniform(-1, 1, (2, count)).astype(np.float32)
    return parts[0] + 1j * parts[1]


def array_library(place):
    """CuPy for float64 sums beside a GPU, where it is there."""
    if place == "cuda" and importlib.util.find_spec("cupy"):
        import cupy

        return cupy
    return np


class Problem:
    """White data of one row, and float64 sums of some of what comes out."""

    def __init__(self, row, place):
        self.case, positions, self.n, self.coils, self.kind = row
        self.positions = positions()
        self.shape, self.count = (self.n,) * len(self.positions), self.positions[0].size
        values = random_values(self.coils * (self.count if self.kind == 1 else self.n ** len(self.shape)))
        self.values = values.reshape(self.coils, *((-1,) if self.kind == 1 else self.shape))
        xp = array_library(place)
        if self.kind == 2:
            self.looked = 256 if xp is not np else 16
            self.at = RNG.integers(0, self.count, self.looked)
            self.truth = self.at_samples(xp)
        elif len(self.shape) == 2 and place == "cpu":
            self.looked, self.at, self.truth = self.n**2, None, self.plane()
        else:
            self.looked = 4096 if xp is not np or self.count < 1_000_000 else 16
            self.at = RNG.integers(0, self.n, (len(self.shape), self.looked))  # x, y(, z)
            self.truth = self.at_voxels(xp)

    def plane(self):
        """The image [y, x] of the first coil's samples."""
        truth = np.zeros(self.shape, np.complex128)
        for begin in range(0, self.count, 4096):
            x, y = (np.exp(2j * np.pi * k[begin:begin + 4096, None] * (np.arange(self.n) - self.n // 2))
                    for k in self.positions)  # fmt: skip
            truth += (y * self.values[0, begin:begin + 4096, None].astype(np.complex128)).T @ x
        return truth

    def at_voxels(self, xp):
        """[coil, voxel]"""
        truth = xp.zeros((self.coils, self.looked), np.complex128)
        step = max(1, (1 << (22 if xp is np else 24)) // self.looked)
        lines = [np.unique(at, return_inverse=True) for at in self.at]
        lines = [(xp.asarray(line - self.n // 2), xp.asarray(which.ravel())) for line, which in lines]
        for begin in range(0, self.count, step):
            wave = 1
            for k, (line, which) in zip(self.positions, lines):
                wave = wave * xp.exp(2j * np.pi * xp.asarray(k[begin:begin + step, None]) * line)[:, which]
            truth += xp.asarray(self.values[:, begin:begin + step]).astype(np.complex128) @ wave
        return truth if xp is np else xp.asnumpy(truth)

    def at_samples(self, xp):
        """[coil, sample]"""
        images, truth = xp.asarray(self.values).astype(np.complex128), []
        for s in self.at:
            lines = images
            for k in self.positions:  # x is the last axis
                lines = lines @ xp.exp(-2j * np.pi * float(k[s]) * (xp.arange(self.n) - self.n // 2))
            truth.append(lines)
        truth = xp.stack(truth, axis=1)
        return truth if xp is np else xp.asnumpy(truth)

    def error(self, out):
        """Relative."""
        out = out.reshape(self.coils, *(self.shape if self.kind == 1 else (-1,)))
        got = out[0] if self.at is None else out[:, self.at] if self.kind == 2 else out[(slice(None), *self.at[::-1])]
        return float(np.linalg.norm(got - self.truth) / np.linalg.norm(self.truth))


def ours(folder, program, case):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [folder / program, f"--benchmark_filter=^{case}(/iterations|/manual|/repeats|$)",
                   "--benchmark_out_format=json", f"--benchmark_out={out.name}"]  # fmt: skip
        command += ["--errors=off"] if program == "bench_nufft" else []
        subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True)
        rows = json.load(open(out.name))["benchmarks"]
    row = next((r for r in rows if r.get("aggregate_name") == "median"), rows[0])
    return row["real_time"], row.get("cpu_ms"), row.get("theory")


def median_ms(work, repetitions):
    """The median of its times, and its mean processor time."""
    times, processor = [], time.process_time()
    for _ in range(repetitions + WARM_UP):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[WARM_UP:]), 1e3 * (time.process_time() - processor) / len(times)


def by_turns(folder, program, case, peer, work, turns, in_a_row=1):
    rounds = [(*ours(folder, program, case), *median_ms(work, turns.repetitions)) for _ in range(turns.rounds)]
    mine, my_cpu, theory, other, other_cpu = zip(*rounds)
    mine, other = statistics.median(mine), statistics.median(other) / in_a_row
    row = {"name": f"{case}/{peer}", "real_time": other, "time_unit": "ms", "ours_ms": mine, "ratio": other / mine,
           "ours_error": theory[0]}  # fmt: skip
    if None not in my_cpu:
        row |= {"ours_cpu_ms": statistics.median(my_cpu), "cpu_ms": statistics.median(other_cpu) / in_a_row}
    print(f"{case}: ours {mine:.3f} ms, {peer} {other:.3f} ms, ratio {other / mine:.2f}", file=sys.stderr, flush=True)
    return row


class Finufft:
    name, place, clock = "finufft", "cpu", staticmethod(time.process_time)
    upsampling = (1.25, 2.0)

    @staticmethod
    def choices(kind, dims, coils):
        """Options to try one after the other, each with the best of those before it; the first value is the default."""
        batches = dict.fromkeys((0, 1, 2, coils)) if coils > 1 else (0,)
        return {"fftw": (64, 0), "spread_sort": (2, 0, 1), "spread_max_sp_size": (0, 1000, 30000, 100000),
                "maxbatchsize": tuple(batches), "spread_thread": (0, 1, 2), "nthreads": (2, 1)}  # fmt: skip

    def __init__(self, positions, shape, coils, tolerance, kind, **options):
        import finufft

        points = [(2 * np.pi * axis).astype(np.float32) for axis in positions[::-1]]  # slowest axis first, as the shape
        options = {"nthreads": int(THREADS), **options}
        self.plan = finufft.Plan(kind, shape, n_trans=coils, eps=tolerance, isign=1 if kind == 1 else -1,
                                 dtype="complex64", **options)  # fmt: skip
        self.plan.setpts(*points)

    def set(self, values):
        self.values = values[0] if len(values) == 1 else values
        self.result = self.plan.execute(self.values)

    def run(self):
        self.plan.execute(self.values, out=self.result)

    def get(self):
        return self.result


def best_settings(peer, problem, asked):
    """(tolerance, options) of the peer's fastest run whose error is at most `asked`, or, where single precision
    does not take it there, at most a tenth above the least that it came to."""

    def attempt(tolerance, options):
        """(error, seconds) of three, the least; None where it refuses these options."""
        try:
            runner = peer(problem.positions, problem.shape, problem.coils, tolerance, problem.kind, **options)
            runner.set(problem.values)
            times = []
            for _ in range(3):
                begin = peer.clock()
                runner.run()
                times.append(peer.clock() - begin)
            return problem.error(runner.get()), min(times)
        except RuntimeError as error:
            print(f"  {options}: {error}", file=sys.stderr)
            return None

    best, begun, nearest = None, {}, np.inf
    for upsampling in peer.upsampling:
        tried = {}
        for tolerance in (t for t in TOLERANCES if t < 4 * asked):
            if found := attempt(tolerance, {"upsampfac": upsampling}):
                tried[tolerance], nearest = found, min(nearest, found[0])
                if found[0] <= asked:
                    break
        begun[upsampling] = tried
    if nearest > asked:
        asked = 1.1 * nearest
        print(f"  no error as small as ours: at most {asked:.2e} in place of it", file=sys.stderr)
    for upsampling, tried in begun.items():
        tolerance = next((t for t, (error, _) in tried.items() if error <= asked), None)
        if tolerance is None:
            continue
        options, least = {"upsampfac": upsampling}, tried[tolerance][1]
        for name, values in peer.choices(problem.kind, len(problem.shape), problem.coils).items():
            for value in values[1:]:
                found = attempt(tolerance, {**options, name: value})
                if found and found[0] <= asked and found[1] < 0.98 * least:
                    least, options = found[1], {**options, name: value}
        print(f"  {problem.case}: tolerance {tolerance:.1e}, {options}: {1e3 * least:.3f} ms", file=sys.stderr, flush=True)
        if best is None or least < best[0]:
            best = least, tolerance, options
    return best and best[1:]


def compare(folder, peer, row, turns):
    problem = Problem(row, peer.place)
    case = f"{problem.case}/{peer.place}"
    asked = ours(folder, "bench_nufft", case)[2]
    settings = best_settings(peer, problem, asked)
    if settings is None:
        sys.exit(f"{case}: {peer.name} refuses all tolerances")
    tolerance, options = settings
    runner = peer(problem.positions, problem.shape, problem.coils, tolerance, problem.kind, **options)
    runner.set(problem.values)
    result = by_turns(folder, "bench_nufft", case, peer.name, runner.run, turns)
    told = ", ".join(f"{name} {value:g}" for name, value in options.items())
    return {**result, "error": problem.error(runner.get()), "tolerance": tolerance, "settings": told,
            "looked_at": problem.looked}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = pathlib.Path(__file__).resolve().parents[3] / "build"
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=build / "bin")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default="", metavar="CASE")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="of the peer, in each round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
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
        for row in wanted(CPU):
            add(compare(arguments.folder, Finufft, row, arguments))
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
            add(by_turns(arguments.folder, "bench_solver", case, "cufft", transform.run, arguments, transform.IN_A_ROW))
        library, problem = cuda_peers.load_cufinufft()
        if library is None:
            left_out.append(f"cuFINUFFT ({problem})")
        else:
            peer = cuda_peers.cufinufft_peer(gpu, library)
            for row in wanted(GPU):
                add(compare(arguments.folder, peer, row, arguments))
    for peer in left_out:
        print(f"left out: {peer}", file=sys.stderr)


if __name__ == "__main__":
    main()
