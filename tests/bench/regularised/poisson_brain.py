"""Compressed sensing of a measured brain, both axes undersampled (cartesian_brain_poisson8), beside BART: a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/regularised/poisson_brain.py build/bin/echotrain [PRIOR...]

Both get y = k-space / 0.5541 (the scale that `bart pics -d4` says; BART then runs with -w 1), the maps of `bart ecalib
-m1 -r20`, and lambda = 0.005 on both axes. J = 1/2 |M F S x - y|^2 + lambda |Psi x|_1 is evaluated in float64 for both,
F unitary and Psi = `bart wavelet -D 6`, or the periodic isotropic total variation. Ours goes through the build's server
over TCP: a connection with the maps, 5130 readouts of one point each, and the image; the time is that of the whole
connection, the median of several after the first, whose operator the server keeps. BART's is that of the process `bart
pics`. Both on two threads, by turns; seconds of the processor are those of all threads, which count where other
programs run. The exit status is 1 where a figure that was asked for is missed. `--backend cuda` is for a GPU.
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
# Of each prior: what BART is told, the asked J, and ours.
PRIORS = {
    "wavelet": ("W", 31.02, "prior: wavelet, iterations: 18, tolerance: 0"),
    "total_variation": ("T", 31.31, "prior: total_variation, iterations: 22, tolerance: 0, inner: 10"),
}


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
        """Of BART's scale, in float64."""
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
        head = np.zeros((), wire.IMAGE_HEAD)
        head["version"], head["data_type"], head["channels"] = 1, 7, len(maps)
        head["matrix_size"] = maps.shape[:0:-1]
        meta = b"<ismrmrdMeta><meta><name>role</name><value>coil_maps</value></meta></ismrmrdMeta>"
        head["attribute_string_len"] = len(meta)
        sent = np.uint16(wire.IMAGE).tobytes() + head.tobytes() + np.uint64(len(meta)).tobytes() + meta
        sent += np.ascontiguousarray(maps, "<c8").tobytes()
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
    """Of the processor, by all threads of a process so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(problem, server, prior, arguments):
    letter, asked, options = PRIORS[prior]
    if arguments.options:
        options = f"prior: {prior}, {arguments.options}"
    scan = problem.messages()
    ours, theirs = [], []
    image, first, notes = problem.our_image(server, options, scan)
    work = [0.0, 0.0]  # seconds of the processor: ours, BART's
    for _ in range(arguments.rounds):
        before = seconds_of(server.process)
        image, seconds, notes = problem.our_image(server, options, scan)
        ours.append(seconds)
        work[0] += (seconds_of(server.process) - before) / arguments.rounds
        if arguments.bart:
            before = sum(os.times()[2:4])
            peer, seconds = problem.bart_image("-i", 100, "-n", "-R", f"{letter}:6:0:{LAMBDA}")
            theirs.append(seconds)
            work[1] += (sum(os.times()[2:4]) - before) / arguments.rounds
    found = problem.objective(image, prior)
    print(f"{prior}: J {found:.3f} (asked {asked}), {np.median(ours):.3f} s (first {first:.3f}), {notes}", flush=True)
    missed = found > asked
    if arguments.bart:
        share = np.median(ours) / np.median(theirs)
        print(f"  bart, 100 iterations: J {problem.objective(peer, prior):.3f}, {np.median(theirs):.3f} s; "
              f"ours takes {share:.2f} of that (asked 0.25); seconds of the processor {work[0]:.2f} and {work[1]:.2f}",
              flush=True)  # fmt: skip
        missed |= share > 0.25
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("priors", nargs="*", default=list(PRIORS))
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-bart", dest="bart", action="store_false", help="without the peer's images")
    parser.add_argument("--options", default="", help="of the gadget, in place of those that the figures are for")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, serving(arguments) as server:
        problem = Problem(pathlib.Path(folder))
        missed = [compare(problem, server, prior, arguments) for prior in arguments.priors]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
