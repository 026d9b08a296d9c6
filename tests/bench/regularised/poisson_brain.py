"""Compressed sensing of a measured brain, both axes undersampled (cartesian_brain_poisson8), beside BART: a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/regularised/poisson_brain.py build/bin/echotrain [PRIOR...]

Both get y = k-space / 0.5541 (the scale that `bart pics -d4` says; BART then runs with -w 1), the maps of `bart ecalib
-m1 -r20`, and lambda = 0.005 on both axes. J = 1/2 |M F S x - y|^2 + lambda |Psi x|_1 is evaluated in float64 for all,
F unitary and Psi = `bart wavelet -D 6`, or the periodic isotropic total variation. How far each comes in which time, with several
numbers of iterations:

- ours through the build's server over TCP: a connection with the maps, 5130 readouts of one point each, and the image; the time
  is that of the whole connection, after a first one, whose operator the server keeps;
- BART: the process `bart pics -n -R W:6:0:LAMBDA -i N` or `T:`; one iteration shows what of it is start, files and set-up; with T
  also at the best found of `-u` 0.003 to 1 and `-C` 3 to 10 (ADMM's rho and steps of conjugate gradients; 0.5 and 10 by default);
- sigpy, where `--sigpy` names a Python that has it: from its input in memory on, without the import (sigpy_peer.py).

All on two threads, by turns, medians of `--rounds`; seconds of the processor are those of all threads, which count where other
programs run. "Ours to no more J": the least of ours, in seconds of the processor, and its share of the row's. The exit status is 1
where a figure that was asked for is missed. `--backend cuda` is for a GPU.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cartesian"))
from measured_scans import header, read_cfl, serving  # noqa: E402

import scans  # noqa: E402
import wire  # noqa: E402
from programs import DATA  # noqa: E402

SCALE, LAMBDA = 0.5541, 0.005
PIPELINE = """echotrain: 1
name: measured
description: Compressed sensing
pipeline:
  - cartesian_kspace: {{calibration: none}}
  - encoding
  - coil_maps: {{method: given}}
  - regularised: {{scale: absolute, lambda: {weight}, {options}}}
  - image: {{component: complex}}
"""
# Each prior has what BART is told, the asked J and the iterations to reach it, our options, and the iterations of all programs; BART's
# options are in its name.
PRIORS = {
    "wavelet": ("W", 31.02, 18, "prior: wavelet, iterations: {}, tolerance: 0",
                {"ours": (6, 10, 14, 18, 25, 45), "bart": (1, 10, 18, 30, 50, 100), "bart -m -u 0.2 -C 3": (10, 20, 30, 50, 100),
                 "sigpy": (10, 18, 30, 50, 100)}),
    "total_variation": ("T", 31.31, 22, "prior: total_variation, iterations: {}, tolerance: 0, inner: 10",
                        {"ours": (6, 10, 14, 22, 40), "bart": (1, 10, 18, 30, 50, 100), "bart -u 0.1 -C 3": (5, 10, 15, 20, 30),
                         "sigpy": (10, 30, 50, 100, 200)}),
}  # fmt: skip


def write_cfl(name, array):
    """[coil, y, x] or [y, x] as BART's [1, x, y, coil]."""
    dims = [1, *array.shape[::-1]]
    pathlib.Path(f"{name}.hdr").write_text("# Dimensions\n" + " ".join(map(str, dims)) + "\n")
    array.astype(np.complex64).tofile(f"{name}.cfl")


def bart(folder, *arguments):
    begin = time.perf_counter()
    subprocess.run(["bart", *map(str, arguments)], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"})  # fmt: skip
    return time.perf_counter() - begin


class Problem:
    def __init__(self, folder):
        self.folder = folder
        kspace = np.load(DATA / "cartesian_brain_poisson8/cartesian_ksp.npy") / SCALE
        write_cfl(folder / "y", kspace)
        bart(folder, "ecalib", "-m1", "-r20", "y", "maps")
        self.maps = read_cfl(folder / "maps")
        self.y = np.fromfile(folder / "y.cfl", np.complex64).reshape(kspace.shape)
        self.mask = np.any(self.y != 0, axis=0)

    def objective(self, x, prior):
        """The objective at BART's scale, in float64."""
        axes = (-2, -1)
        coils = np.fft.ifftshift(self.maps.astype(complex) * x, axes=axes)
        samples = np.fft.fftshift(np.fft.fft2(coils, norm="ortho"), axes=axes)
        data = np.sum(np.abs(samples * self.mask - self.y) ** 2) / 2
        if prior == "wavelet":
            write_cfl(self.folder / "x", x)
            bart(self.folder, "wavelet", "-D", 6, "x", "coefficients")
            return data + LAMBDA * np.sum(np.abs(read_cfl(self.folder / "coefficients").astype(complex)))
        steps = [np.abs(np.roll(x, -1, axis=axis) - x) ** 2 for axis in axes]
        return data + LAMBDA * np.sum(np.sqrt(steps[0] + steps[1]))

    def bart_image(self, *options):
        seconds = bart(self.folder, "pics", "-w", 1, *options, "y", "maps", "image")
        return -read_cfl(self.folder / "image").astype(complex), seconds

    def messages(self):
        """The maps as an image of role coil_maps, then the scan, whose readouts are points: [coil, z, y, x = 1]."""
        maps = self.maps[..., None]
        sent = wire.image(maps.astype("c8"), "coil_maps")
        points = np.argwhere(self.mask)
        readouts = [
            wire.acquisition(self.y[:, z, y, None], None, wire.LAST_IN_SLICE * (i + 1 == len(points)), y, counter=i,
                             step2=z)
            for i, (z, y) in enumerate(points)
        ]
        return scans.Scan(header(maps.shape[1:], (1, 1), "other"), [sent, b"".join(readouts)])

    def our_image(self, server, options, scan):
        """In BART's scale, whose transform is unitary."""
        root = np.sqrt(self.mask.size)
        text = PIPELINE.format(weight=LAMBDA / root, options=options)
        begin = time.perf_counter()
        reply = wire.exchange(server.address, scan.stream(wire.config_text(text)), timeout_s=600)
        seconds = time.perf_counter() - begin
        assert not reply.errors() and len(reply.images) == 1, reply.texts
        notes = dict(re.findall(r"<name>(regularised_\w+)</name>\s*<value>([^<]*)", reply.images[0].attributes))
        return root * reply.images[0].pixels[0, ..., 0].astype(complex), seconds, notes


def seconds_of(process):
    """The processor time of all threads of a process so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children():
    return sum(os.times()[2:4])


def sigpy(python, folder, kind, iterations, **given):
    """[(image or images, seconds, seconds of the processor)] after each number of iterations."""
    np.savez(folder / "in.npz", kind=kind, **given)
    command = [python, pathlib.Path(__file__).with_name("sigpy_peer.py"), folder / "in.npz", folder / "out.npy"]
    said = subprocess.run([*command, *map(str, iterations)], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")}
                          ).stdout  # fmt: skip
    return [(image, *map(float, line.split())) for image, line in zip(np.load(folder / "out.npy"), said.splitlines())]


def report(rows):
    """rows: (program, iterations, J, seconds, seconds of the processor); a Markdown table."""
    print("| program | iterations | J | seconds of the processor | seconds | ours to no more J |\n" + "|---" * 6 + "|")
    for program, iterations, found, seconds, work in rows:
        enough = [row[4] for row in rows if row[0] == "ours" and row[2] <= found]
        share = f"{min(enough):.2f}, {min(enough) / work:.2f} of it" if enough and program != "ours" else ""
        print(f"| {program} | {iterations} | {found:.5g} | {work:.2f} | {seconds:.2f} | {share} |", flush=True)


def compare(problem, server, prior, arguments):
    letter, asked, at, options, iterations = PRIORS[prior]
    scan = problem.messages()
    found = {}  # (program, iterations) -> [J, [seconds], [seconds of the processor]]

    def add(program, count, image, seconds, work):
        entry = found.setdefault((program, count), [problem.objective(image, prior), [], []])
        entry[1].append(seconds)
        entry[2].append(work)

    problem.our_image(server, options.format(at), scan)
    for _ in range(arguments.rounds):
        for count in iterations["ours"]:
            before = seconds_of(server.process)
            image, seconds, _ = problem.our_image(server, options.format(count), scan)
            add("ours", count, image, seconds, seconds_of(server.process) - before)
        for name in [name for name in iterations if name.startswith("bart") and arguments.bart]:
            for count in iterations[name]:
                before = children()
                image, seconds = problem.bart_image("-i", count, "-n", *name.split()[1:], "-R", f"{letter}:6:0:{LAMBDA}")
                add(name, count, image, seconds, children() - before)
        if arguments.sigpy:
            results = sigpy(arguments.sigpy, problem.folder, prior, iterations["sigpy"], kspace=problem.y, maps=problem.maps,
                            weight=LAMBDA)  # fmt: skip
            for count, result in zip(iterations["sigpy"], results):
                add("sigpy", count, *result)
    print(f"\n{prior}")
    report([(*name, value, np.median(seconds), np.median(work)) for name, (value, seconds, work) in found.items()])
    missed = found["ours", at][0] > asked
    print(f"J {found['ours', at][0]:.3f} in {at} iterations, asked {asked}: {'missed' if missed else 'reached'}", flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("priors", nargs="*", default=list(PRIORS))
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-bart", dest="bart", action="store_false", help="without the peer's images")
    parser.add_argument("--sigpy", help="a Python that has sigpy")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, serving(arguments) as server:
        problem = Problem(pathlib.Path(folder))
        missed = [compare(problem, server, prior, arguments) for prior in arguments.priors]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
