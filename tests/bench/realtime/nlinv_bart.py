#!/usr/bin/env python3
"""nlinv_realtime beside `bart nlinv -t` on the same frames: error against the truth, residual at spokes left out, time.

    tests/bench/realtime/nlinv_bart.py BIN [--data FOLDER] [--backend cpu] [--frames 3] [--steps 6] [--no-bart]

BIN: the folder of `echotrain`. Needs `bart` (Debian: apt install bart), numpy and h5py. Simulated: 128 x 128, 6 coils, 21
golden-angle spokes a frame, NRMSE of the magnitude against the object after the best factor. Measured, where FOLDER has
`radial_rt_scgrog/perfusion3.h5`: frames of 30 spokes, of which every 7th is left out. Its residual is |m c_j F - d| over
|d| with the image's samples by sums in float64; the sensitivities, which no image carries, are fitted to the frame's own
other spokes for both programs alike: 5 x 5 smooth factors for each coil, by least squares. Ours solves
for 1.25 times the image's extent, as the shipped pipeline does, and BART, with 7, 8 and 9 Newton steps, for twice. `--field 1` and
`--steps 7` show what these two are worth.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

BART_STEPS = (7, 8, 9)
PIPELINE = """echotrain: 1
name: nlinv_bench
description: nlinv_realtime beside BART
backend: {backend}
frame: auto
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {{method: {weights}, share: equal}}
  - nlinv_realtime: {{newton_steps: {steps}, field: {field}}}
  - image: {{component: complex}}
"""


def write_cfl(path, array):
    array = np.asarray(array, np.complex64)
    path.with_suffix(".hdr").write_text("# Dimensions\n" + " ".join(map(str, array.shape)) + "\n")
    array.ravel(order="F").tofile(path.with_suffix(".cfl"))


def read_cfl(path):
    shape = [int(n) for n in path.with_suffix(".hdr").read_text().split("\n")[1].split()]
    return np.fromfile(path.with_suffix(".cfl"), np.complex64).reshape(shape, order="F").squeeze()


def frames_of(path):
    """[(readouts of the file, k [readout, sample, 2] in cycles/pixel, data [readout, coil, sample])] by repetition."""
    frames = {}
    with h5py.File(path) as file:
        rows = file["dataset/data"][:]
    for number, row in enumerate(rows):
        head = row["head"]
        coils, samples = int(head["active_channels"]), int(head["number_of_samples"])
        k = row["traj"].reshape(samples, -1)[:, :2]
        data = row["data"].view(np.complex64).reshape(coils, samples)
        frames.setdefault(int(head["idx"]["repetition"]), []).append((number, k, data))
    return [tuple(np.array(part) for part in zip(*frame)) for _, frame in sorted(frames.items())]


def without(path, to, left_out):
    """A copy of a scan without some readouts."""
    with h5py.File(path) as source, h5py.File(to, "w") as out:
        group = out.create_group("dataset")
        source.copy("dataset/xml", group)
        rows = source["dataset/data"]
        keep = [i for i in range(len(rows)) if i not in left_out]
        group.create_dataset("data", data=rows[:][keep], dtype=rows.dtype)


def ours(options, scan, folder, weights):
    pipeline = folder / "nlinv.yaml"
    pipeline.write_text(PIPELINE.format(backend=options.backend, weights=weights, steps=options.steps, field=options.field))
    out = folder / "ours.h5"
    out.unlink(missing_ok=True)
    run = subprocess.run([options.bin / "echotrain", "recon", scan, "-c", pipeline, "-o", out], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    with h5py.File(out) as file:
        pixels = file["dataset/image_1/data"][:]
    if pixels.dtype.names:
        pixels = pixels[pixels.dtype.names[0]] + 1j * pixels[pixels.dtype.names[1]]
    return [image[0, 0] for image in pixels], run.stdout.strip().splitlines()[-1]


def barts(k, data, matrix, folder, steps):
    """BART's image in our orientation [y, x], and its seconds."""
    trajectory = np.zeros((3, k.shape[1], k.shape[0]))
    trajectory[:2] = np.moveaxis(k, (0, 1, 2), (2, 1, 0)) * matrix
    write_cfl(folder / "t", trajectory)
    write_cfl(folder / "k", np.transpose(data, (2, 0, 1))[None])
    began = time.perf_counter()
    subprocess.run(["bart", "nlinv", "-i", str(steps), "-S", "-t", folder / "t", folder / "k", folder / "image"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    image = read_cfl(folder / "image")
    cut = tuple(slice(n // 2 - matrix // 2, n // 2 - matrix // 2 + matrix) for n in image.shape)
    return image[cut].T, time.perf_counter() - began


def nrmse(image, truth):
    image = np.abs(image)
    return np.linalg.norm((image * truth).sum() / (image * image).sum() * image - truth) / np.linalg.norm(truth)


def samples_of(images, k):
    """images: [image, y, x]; k: [sample, 2]. exp(-2 pi i k.r) sums, [sample, image]."""
    n = images.shape[1]
    r = np.arange(n) - n // 2
    across, down = (np.exp(-2j * np.pi * np.outer(k[:, a], r)) for a in (0, 1))
    return np.stack([np.einsum("sy,sy->s", down, across @ image.T) for image in images], 1)


def held_out(image, k, data, left_out):
    """The residual at the readouts left out, of all coils."""
    n = len(image)
    r = (np.arange(n) - n // 2) / n
    waves = [np.exp(2j * np.pi * (a * r[:, None] + b * r[None]) / 2) for a in range(-2, 3) for b in range(-2, 3)]
    products = np.stack([image * wave for wave in waves])
    used = np.setdiff1d(np.arange(len(k)), left_out)
    known, unknown = (samples_of(products, k[rows].reshape(-1, 2)) for rows in (used, left_out))
    left = total = 0
    for coil in range(data.shape[1]):
        factors = np.linalg.lstsq(known, data[used, coil].ravel(), rcond=1e-4)[0]
        left += np.linalg.norm(unknown @ factors - data[left_out, coil].ravel()) ** 2
        total += np.linalg.norm(data[left_out, coil]) ** 2
    return np.sqrt(left / total)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--frames", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--field", type=float, default=1.25)
    parser.add_argument("--no-bart", dest="bart", action="store_false")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        scan = folder / "scan.h5"
        subprocess.run([options.bin / "echotrain", "simulate", "-o", scan, "--trajectory", "golden_radial", "--matrix", "128",
                        "--coils", "6", "--readouts", "21", "--frames", str(options.frames), "--noise", "0.3"], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        with h5py.File(scan) as file:
            truth = np.abs(file["dataset/truth"][:])
        print("simulated, 128 x 128, 6 coils, 21 spokes, NRMSE of each frame")
        for weights in ("ramp", "none"):
            images, said = ours(options, scan, folder, weights)
            print(f"  ours, {weights:5}", " ".join(f"{nrmse(image, truth):.4f}" for image in images), "|", said)
        if options.bart:
            for steps in BART_STEPS:
                found = [barts(k, data, 128, folder, steps) for _, k, data in frames_of(scan)]
                print(f"  bart -i {steps:<4}", " ".join(f"{nrmse(image, truth):.4f}" for image, _ in found),
                      "|", " ".join(f"{seconds:.1f} s" for _, seconds in found), flush=True)  # fmt: skip
        measured = options.data / "radial_rt_scgrog/perfusion3.h5" if options.data else None
        if measured is None or not measured.exists():
            print("measured: no radial_rt_scgrog/perfusion3.h5 in --data")
            return
        frames = frames_of(measured)[: options.frames]
        later = [number for frame in frames_of(measured)[options.frames :] for number in frame[0]]
        left_out = np.arange(6, len(frames[0][0]), 7)
        without(measured, scan, {*later, *(n for frame in frames for n in frame[0][left_out])})
        print("measured, 144 x 144, 3 coils, 26 of 30 spokes, residual of each frame at the 4 left out")
        for weights in ("ramp", "none"):
            images, said = ours(options, scan, folder, weights)
            print(f"  ours, {weights:5}", " ".join(f"{held_out(image, k, data, left_out):.4f}"
                  for image, (_, k, data) in zip(images, frames)), "|", said)  # fmt: skip
        if not options.bart:
            return
        for steps in BART_STEPS:
            row = []
            for _, k, data in frames:
                used = np.setdiff1d(np.arange(len(k)), left_out)
                image, seconds = barts(k[used], data[used], 144, folder, steps)
                row.append((held_out(image, k, data, left_out), seconds))
            print(f"  bart -i {steps:<4}", " ".join(f"{value:.4f}" for value, _ in row), "|",
                  " ".join(f"{s:.1f} s" for _, s in row), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
