"""Series of frames solved together, beside BART and sigpy: GRASP (temporal total variation) on a simulated uptake of
contrast and on the measured perfusion set, and locally low rank on a simulated cine. A build, `apt install bart`, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/regularised/series.py build/bin/echotrain [CASE...]

    dce         128 x 128, 6 coils, 20 frames of 21 golden-angle spokes; k-space in closed form, contrast rises from spoke
                to spoke
    perfusion   radial_rt_scgrog: 144 x 144, 3 coils, 210 spokes as 10 frames of 21
    cine        128 x 128, 6 coils, 24 frames of 16 of 128 lines (R = 8, other lines in each frame), of
                `echotrain simulate --motion cardiac`

All programs get the same samples, coil maps, weights and lambda, and one float64 script evaluates J for all:

    GRASP   J = 1/2 sum w |F S x - d|^2 + lambda sum |x_(f+1) - x_f|, F a direct sum, w = |k| over the spokes of a frame
    LLR     J = 1/2 |M F S x - d|^2 + lambda (sqrt M + sqrt N + sqrt(log(B min(M, N)))) sum of the singular values of
            fixed 8 x 8 blocks, F unitary

BART's and sigpy's differences in time are periodic, ours are not (a scan's last frame is not followed by its first). So
they also get the series and its mirror image one after the other: of that, half the periodic J is the J above, and by its
convexity the solution is mirrored, too. These rows are the ones that count. How far each comes in which time, as in
poisson_brain.py: ours is one connection to the server after a first one, BART the process `bart pics` (its default are 30
iterations), sigpy runs where `--sigpy` names a Python that has it (`pip install sigpy`). The exit status is 1 where the least J
of ours is more than 0.1 % above a peer's.
"""

import argparse
import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy.special import j1

for place in ("cartesian", "peers"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / place))
from bart_peer import write_cfl  # noqa: E402
from measured_scans import header, serving  # noqa: E402
from poisson_brain import bart, children, report, seconds_of, sigpy  # noqa: E402

import scans  # noqa: E402
import wire  # noqa: E402
from programs import DATA  # noqa: E402

GOLDEN = np.deg2rad(111.246117975)
RADIAL = """echotrain: 1
name: series
description: GRASP
backend: auto
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {{method: from_data}}
  - fhd: {{dimensions: 2, method: nufft, accuracy: 1e-4}}
  - coil_maps: {{method: given}}
  - regularised: {{scale: absolute, lambda: {weight}, series: repetition, frames: {frames}, {options}}}
  - image: {{component: complex}}
"""
LINES = """echotrain: 1
name: series
description: Low rank
backend: auto
pipeline:
  - cartesian_kspace: {{calibration: none}}
  - encoding
  - coil_maps: {{method: given}}
  - regularised: {{scale: absolute, lambda: {weight}, series: repetition, frames: {frames}, {options}}}
  - image: {{component: complex}}
"""


def maps_message(maps):
    """[coil, y, x] as an image of role coil_maps."""
    return wire.image(maps[:, None].astype("c8"), "coil_maps")


class Series:
    """maps [coil, y, x]; data [frame, readout, coil, sample]; J for images [frame, y, x]."""

    def objective(self, x, periodic=False):
        return self.distance(x) + self.weight * self.prior(x, periodic)

    def ours(self, server, options):
        """(images of the unit that J is in, seconds, seconds of the processor, notes)."""
        text = self.PIPELINE.format(weight=self.weight / self.factor, frames=len(self.data), options=options)
        before, begin = seconds_of(server.process), time.perf_counter()
        reply = wire.exchange(server.address, self.messages.stream(wire.config_text(text)), timeout_s=600)
        seconds = time.perf_counter() - begin
        assert not reply.errors() and len(reply.images) == len(self.data), reply.texts
        notes = dict(re.findall(r"<name>regularised_(\w+)</name>\s*<value>([^<]*)", reply.images[0].attributes))
        images = np.array([image.pixels[0, 0] for image in reply.images]).astype(complex) * self.factor
        return images, seconds, seconds_of(server.process) - before, notes


class Grasp(Series):
    PIPELINE = RADIAL
    factor = 1.0  # J is in the unit of our images

    def __init__(self, k, data, maps, part):
        """k: [frame, readout, sample, 2] in cycles/pixel; lambda: a part of the largest magnitude of F^H W d."""
        self.k, self.data, self.maps = np.float32(k).astype(float), data.astype(np.complex64), maps.astype(np.complex64)
        n = maps.shape[-1]
        # Half a step for k = 0, as the ramp's cell there has a quarter of the area: pi (1 / 2 samples)^2.
        radius = np.maximum(np.hypot(k[..., 0], k[..., 1]), 0.25 / k.shape[2])
        self.w = np.float32(radius / radius[0].sum()).astype(float)
        r = np.arange(n) - n // 2
        self.phases = [[np.exp(-2j * np.pi * np.outer(self.k[f, ..., a].ravel(), r)) for a in range(2)] for f in range(len(k))]
        self.weight = part * np.abs(self.adjoint()).max()
        messages = [maps_message(self.maps)]
        for f, frame in enumerate(self.data):
            for s, readout in enumerate(frame):
                flags = wire.FIRST_IN_SLICE * (s == 0) | wire.LAST_IN_SLICE * (s + 1 == len(frame))
                points = np.column_stack([self.k[f, s], self.w[f, s]])
                messages.append(wire.acquisition(readout, points, flags, s, f, counter=len(messages) - 1))
        self.messages = scans.Scan(scans.header_xml("goldenangle", (n, n, 1), readouts=len(frame), repetitions=len(k)), messages)

    def adjoint(self):
        """F^H W d with S^H: [frame, y, x]."""
        out = []
        for f in range(len(self.data)):
            x, y = self.phases[f]
            sum_ = 0
            for c in range(len(self.maps)):
                d = (self.data[f, :, c] * self.w[f]).ravel().astype(complex)
                sum_ = sum_ + self.maps[c].conj() * (y.conj().T @ (d[:, None] * x.conj()))
            out.append(sum_)
        return np.array(out)

    def distance(self, images):
        total = 0.0
        for f, image in enumerate(images):
            x, y = self.phases[f]
            for c, one in enumerate(self.maps.astype(complex)):
                found = np.sum((y @ (one * image)) * x, axis=1)
                total += np.sum(self.w[f].ravel() * np.abs(found - self.data[f, :, c].ravel()) ** 2) / 2
        return total

    def prior(self, images, periodic):
        change = np.abs(np.diff(images, axis=0)).sum()
        return change + np.abs(images[0] - images[-1]).sum() * periodic

    def mirrored(self, order):
        """For BART: samples along axis 1, readouts along 2, coils 3, frames 10. Its F is ours over the image's extent n; with
        weights n^2 w its operator is of about 1, as its steps expect, its image n x, and its J n^2 J."""
        n, frames, spokes, samples = self.maps.shape[-1], len(order), self.k.shape[1], self.k.shape[2]
        k = np.concatenate([self.k * n, np.zeros((*self.k.shape[:-1], 1))], axis=-1)[order]
        ones = [1] * 6
        return {"traj": (k, [3, samples, spokes, 1, *ones, frames]),
                "data": (self.data[order].transpose(0, 2, 1, 3), [1, samples, spokes, len(self.maps), *ones, frames]),
                "weights": (n * np.sqrt(self.w)[order], [1, samples, spokes, 1, *ones, frames])}  # fmt: skip

    def bart(self, folder, mirror, options):
        frames = len(self.data)
        order = [*range(frames), *reversed(range(frames))] if mirror else list(range(frames))
        for name, (array, dimensions) in self.mirrored(order).items():
            write_cfl(folder / name, array, dimensions)
        n = self.maps.shape[-1]
        write_cfl(folder / "maps", self.maps, [n, n, 1, len(self.maps)])
        seconds = bart(folder, "pics", "-w", 1, *options, "-p", "weights", "-t", "traj", "-R",
                       f"T:1024:0:{self.weight * n}", "data", "maps", "image")  # fmt: skip
        images = np.fromfile(folder / "image.cfl", np.complex64).reshape(len(order), n, n)[:frames]
        return images.astype(complex) / n, seconds

    def sigpy(self, folder, python, iterations):
        """Reconstructs the mirrored series, as poisson_brain.sigpy() does."""
        frames = len(self.data)
        order = [*range(frames), *reversed(range(frames))]
        results = sigpy(python, folder, "grasp", iterations, k=self.k[order], data=self.data[order], w=self.w[order],
                        maps=self.maps, weight=self.weight)  # fmt: skip
        return [(images[:frames].astype(complex), *rest) for images, *rest in results]


class LowRank(Series):
    PIPELINE, BLOCK = LINES, 8

    def __init__(self, kspace, came, maps, part):
        """kspace: [frame, coil, y, x]; came: [frame, y]."""
        self.data, self.came, self.maps = kspace * came[:, None, :, None], came, maps.astype(np.complex64)
        frames, _, ny, nx = kspace.shape
        self.factor = np.sqrt(ny * nx)
        back = np.sum(self.maps.conj() * self.transform(self.data, np.fft.ifft2), axis=1)
        blocks = (ny // self.BLOCK) * (nx // self.BLOCK)
        m = self.BLOCK**2
        self.scale = np.sqrt(m) + np.sqrt(frames) + np.sqrt(np.log(blocks * min(m, frames)))
        self.weight = part * np.abs(back).max()
        messages = [maps_message(self.maps)]
        for f in range(frames):
            lines = np.flatnonzero(came[f])
            for i, y in enumerate(lines):
                flags = wire.FIRST_IN_SLICE * (i == 0) | wire.LAST_IN_SLICE * (i + 1 == len(lines))
                messages.append(wire.acquisition(self.data[f, :, y], None, flags, y, f, counter=len(messages) - 1))
        xml = header((1, ny, nx), (1, 1), "other").replace(
            "</encodingLimits>", f"<repetition><minimum>0</minimum><maximum>{frames - 1}</maximum><center>0</center>"
            "</repetition></encodingLimits>")  # fmt: skip
        self.messages = scans.Scan(xml, messages)

    @staticmethod
    def transform(x, which):
        axes = (-2, -1)
        return np.fft.fftshift(which(np.fft.ifftshift(x, axes=axes), norm="ortho"), axes=axes)

    def distance(self, images):
        samples = self.transform(self.maps.astype(complex) * images[:, None], np.fft.fft2)
        return np.sum(np.abs((samples - self.data) * self.came[:, None, :, None]) ** 2) / 2

    def prior(self, images, periodic):
        frames, ny, nx = images.shape
        b = self.BLOCK
        blocks = images.reshape(frames, ny // b, b, nx // b, b).transpose(1, 3, 2, 4, 0).reshape(-1, b * b, frames)
        return self.scale * np.linalg.svd(blocks, compute_uv=False).sum()

    def bart(self, folder, mirror, options):
        frames, coils, ny, nx = self.data.shape
        write_cfl(folder / "data", self.data, [nx, ny, 1, coils, *[1] * 6, frames])
        write_cfl(folder / "maps", self.maps, [nx, ny, 1, coils])
        pattern = np.broadcast_to(self.came[:, :, None], (frames, ny, nx))
        write_cfl(folder / "weights", pattern, [nx, ny, 1, 1, *[1] * 6, frames])
        seconds = bart(folder, "pics", "-w", 1, *options, "-p", "weights", "-n", "-b", self.BLOCK, "-R",
                       f"L:7:7:{self.weight}", "data", "maps", "image")  # fmt: skip
        return np.fromfile(folder / "image.cfl", np.complex64).reshape(frames, ny, nx).astype(complex), seconds


# Each part of the body has: value, centre, half axes, angle, and how much it takes up how late (seconds): half the field
# of view is 1.
UPTAKE = [(0.5, 0, 0, 0.8, 0.7, 0, 0, 0), (0.3, -0.35, 0.1, 0.25, 0.4, 20, 0.6, 0.8), (0.2, 0.35, 0.1, 0.2, 0.35, -15, 0.4, 1.4),
          (-0.2, 0, -0.45, 0.15, 0.12, 0, 0, 0), (0.1, 0.1, 0.45, 0.12, 0.08, 40, 1.2, 0.4), (0.1, -0.3, 0.1, 0.08, 0.1, 0, 0.5, 1.0)]  # fmt: skip


def dce(matrix=128, coils=6, frames=20, spokes=21, tr_s=0.006, noise=0.5):
    """k, data, maps: contrast c(t) = a (1 - exp(-(t - t0) / 0.3 s)) after t0. Noise as a share of the signal's spread."""
    samples, half = 2 * matrix, matrix / 2
    n = np.arange(frames * spokes)
    radius = np.arange(samples) / samples - 0.5
    k = np.stack([radius * np.cos(n * GOLDEN)[:, None], radius * np.sin(n * GOLDEN)[:, None]], axis=-1)
    signal = np.zeros((len(n), coils, samples), complex)
    r = np.arange(matrix) - matrix // 2
    y, x = np.meshgrid(r, r, indexing="ij")
    maps = np.zeros((coils, matrix, matrix), complex)
    for c in range(coils):
        place = 0.4 * matrix * np.array([np.cos(2 * np.pi * c / coils + 0.3), np.sin(2 * np.pi * c / coils + 0.3)])
        for q in 0.33 / matrix * np.array([(1, 0.15), (-0.9, 0.2), (0.1, -1.05), (-0.2, 0.95)]):
            weight = 0.25 * np.exp(1j * (0.7 * c - 2 * np.pi * q @ place))
            maps[c] += weight * np.exp(2j * np.pi * (q[0] * x + q[1] * y))
            kx, ky = k[..., 0] - q[0], k[..., 1] - q[1]
            for value, x0, y0, a, b, degrees, gain, start in UPTAKE:
                late = np.maximum(0, n * tr_s - start)
                height = (value + gain * (1 - np.exp(-late / 0.3)))[:, None]
                cosine, sine = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
                u = 2 * np.pi * np.hypot(half * a * (cosine * kx + sine * ky), half * b * (-sine * kx + cosine * ky))
                u = np.maximum(u, 1e-9)
                signal[:, c] += weight * height * 2 * np.pi * half**2 * a * b * j1(u) / u * np.exp(
                    -2j * np.pi * half * (kx * x0 + ky * y0))  # fmt: skip
    root = np.sqrt(np.sum(np.abs(maps) ** 2, axis=0))[matrix // 2, matrix // 2]
    random = np.random.default_rng(1)
    signal = signal / root + noise * (random.normal(size=signal.shape) + 1j * random.normal(size=signal.shape))
    return (k.reshape(frames, spokes, samples, 2), signal.reshape(frames, spokes, coils, samples), maps / root)


def perfusion(folder):
    _, _, trajectories, data = scans.read_acquisitions(DATA / "radial_rt_scgrog/perfusion3.h5")
    k, data = np.array(trajectories)[..., :2].astype(float), np.array(data)
    readouts, coils, samples = data.shape
    n = samples // 2
    # Maps from all spokes together: BART's gridding with a ramp, and its calibration.
    radius = np.hypot(k[..., 0], k[..., 1])
    points = np.concatenate([k * n, np.zeros((*k.shape[:-1], 1))], axis=-1)
    write_cfl(folder / "t", points, [3, samples, readouts])
    write_cfl(folder / "d", (data * radius[:, None]).transpose(1, 0, 2), [1, samples, readouts, coils])
    bart(folder, "nufft", "-a", "-d", f"{n}:{n}:1", "t", "d", "coils")
    bart(folder, "fft", "-u", 3, "coils", "k")
    bart(folder, "ecalib", "-m1", "-r20", "-c0.5", "k", "s")
    maps = np.fromfile(folder / "s.cfl", np.complex64).reshape(coils, n, n)
    data = data * (0.05 / np.abs(data).max())
    return k.reshape(10, 21, samples, 2), data.reshape(10, 21, coils, samples), maps


def cine(program, folder, matrix=128, coils=6, frames=24, acceleration=8):
    scan = folder / "cine.h5"
    subprocess.run([program, "simulate", "-o", scan, "--trajectory", "cartesian", "--motion", "cardiac", "--gating",
                    "free", "--matrix", str(matrix), "--coils", str(coils), "--frames", str(frames), "--acceleration",
                    str(acceleration), "--calibration-mode", "interleaved", "--tr-ms", "3", "--breathing-mm", "5",
                    "--noise", "8", "--no-truth"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    _, heads, _, data = scans.read_acquisitions(scan)
    kspace = np.zeros((frames, coils, matrix, matrix), complex)
    came = np.zeros((frames, matrix), bool)
    for head, line in zip(heads, data):
        kspace[head["idx"]["repetition"], :, head["idx"]["kspace_encode_step_1"]] = line
        came[head["idx"]["repetition"], head["idx"]["kspace_encode_step_1"]] = True
    kspace /= matrix  # the unitary transform's unit: images of about 1
    mean = kspace.sum(axis=0) / np.maximum(1, came.sum(axis=0))[:, None]
    write_cfl(folder / "mean", mean, [matrix, matrix, 1, coils])
    bart(folder, "ecalib", "-m1", "-r24", "-c0.2", "mean", "s")
    return kspace, came, np.fromfile(folder / "s.cfl", np.complex64).reshape(coils, matrix, matrix)


# Our options, and the iterations of all programs.
CASES = {
    "dce": ("prior: temporal_variation", {"ours": (10, 20, 40, 80, 150), "bart": (10, 30, 100), "sigpy": (10, 30, 100)}),
    "perfusion": ("prior: temporal_variation", {"ours": (10, 20, 40, 80, 150), "bart": (10, 30, 100), "sigpy": (10, 30, 100)}),
    "cine": ("prior: low_rank", {"ours": (10, 20, 40, 60), "bart": (10, 30, 60, 100)}),
}


def problem_of(name, program, folder):
    if name == "dce":
        return Grasp(*dce(), 0.01)
    return Grasp(*perfusion(folder), 0.01) if name == "perfusion" else LowRank(*cine(program, folder), 0.003)


def compare(name, server, arguments, folder):
    problem, (options, iterations) = problem_of(name, arguments.program, folder), CASES[name]
    found = {}  # (program, iterations) -> [J, [seconds], [seconds of the processor]]

    def add(program, count, images, seconds, work):
        entry = found.setdefault((program, count), [problem.objective(images), [], []])
        entry[1].append(seconds)
        entry[2].append(work)

    if arguments.server:
        problem.ours(server, f"{options}, iterations: 1, tolerance: 0")
    for _ in range(arguments.rounds):
        for count in iterations["ours"] if arguments.server else []:
            images, seconds, work, _ = problem.ours(server, f"{options}, iterations: {count}, tolerance: 0")
            add("ours", count, images, seconds, work)
        for mirror in (False, True) if isinstance(problem, Grasp) else (False,):
            for count in iterations["bart"] if arguments.bart else []:
                before = children()
                images, seconds = problem.bart(folder, mirror, ("-i", count))
                add(f"bart{', mirrored' * mirror}", count, images, seconds, children() - before)
        if arguments.sigpy and isinstance(problem, Grasp):
            results = problem.sigpy(folder, arguments.sigpy, iterations["sigpy"])
            for count, result in zip(iterations["sigpy"], results):
                add("sigpy, mirrored", count, *result)
    print(f"\n{name}")
    report([(*row, value, np.median(seconds), np.median(work)) for row, (value, seconds, work) in found.items()])
    least = {ours: min((v[0] for row, v in found.items() if (row[0] == "ours") == ours), default=np.inf) for ours in (True, False)}
    return least[True] > 1.001 * least[False]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=1, help="times are medians of these")
    parser.add_argument("--no-bart", dest="bart", action="store_false")
    parser.add_argument("--sigpy", help="a Python that has sigpy")
    parser.add_argument("--no-server", dest="server", action="store_false")
    arguments = parser.parse_args()
    server_or_none = serving(arguments) if arguments.server else contextlib.nullcontext()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, server_or_none as server:
        missed = [compare(name, server, arguments, pathlib.Path(folder)) for name in arguments.cases]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
