"""Partial Fourier, coil compression and units of SNR on measured data: a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_methods.py build/bin/echotrain [SECTION...]

All data go through the build's server, over TCP. Sections:

    partial      pf_image.npy, 5/8 and 6/8 of each axis: magnitude NRMSE without a factor, zero-filled and by
                 `partial_fourier` as it is by default
    compression  se32, 32 coils to 10 by `coil_compression`: the largest angle between its virtual coils and those of a
                 float64 decomposition of the middle 24 x 24 samples, and the root sum of squares of both against that
                 of all coils
    snr          brain16, lines 36 to 59 as reference lines, R = 2, 3 and 4: 200 replicas of white noise on the lines of
                 the image. Standard deviation of the images in units of SNR, real and imaginary part pooled, voxels of
                 the object: 1 in theory

The exit status is 1 where a figure that was asked for is missed. `--backend cuda` is for a GPU.
"""

import argparse
import pathlib
import sys

import numpy as np

from measured_scans import CALIBRATION, cases, header, reconstruct, scan_of, serving, whole_2d

import reference
import scans
import wire
from programs import DATA

PIPELINE = "echotrain: 1\nname: measured\ndescription: Measured data\npipeline:\n{}"
REPLICAS = 200


def partial(server):
    truth = np.load(DATA / "mchiew/pf_image.npy").astype(np.complex64)
    kspace = reference.spectrum(truth)
    ny, nx = truth.shape
    missed = False
    for axis in "yx":
        for share, most in ((5, 0.84), (6, 0.89)):
            y0 = ny - ny * share // 8 if axis == "y" else 0
            x0 = nx - nx * share // 8 if axis == "x" else 0
            messages = []
            for y in range(y0, ny):
                line, flags = kspace[None, y, x0:].astype(np.complex64), wire.LAST_IN_SLICE * (y == ny - 1)
                messages.append(wire.acquisition(line, None, flags, y, center=nx // 2 - x0))
            scan = scans.Scan(header((1, ny, nx), (1, 1), "other"), messages)
            errors = []
            for gadget in ("", "  - partial_fourier\n"):
                chain = f"  - cartesian_kspace\n{gadget}  - fft\n  - image\n"
                errors.append(reference.nrmse(reconstruct(server, PIPELINE.format(chain), scan)[0], np.abs(truth)))
            missed |= errors[1] > most * errors[0]
            print(f"partial {share}/8 of {axis}: zero-filled {errors[0]:.3f}, partial_fourier {errors[1]:.3f}, "
                  f"ratio {errors[1] / errors[0]:.3f} (asked {most})", flush=True)  # fmt: skip
    return missed


def compression(server):
    full = whole_2d("cartesian_se_phantom32/se32.h5")
    coils, (ny, nx) = len(full), full.shape[2:]
    scan = scan_of(full, np.ones((1, ny), bool), np.zeros((1, ny), bool), (1, 1), "other")
    chain = "  - coil_compression: {channels: 10}\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n"
    reply = wire.exchange(server.address, scan.stream(wire.config_text(PIPELINE.format(chain))), timeout_s=600)
    ours = reply.images[0].pixels[:, 0].reshape(10, -1).astype(complex)
    all_coils = reference.picture(full[:, 0].astype(complex)).reshape(coils, -1)
    middle = full[:, 0, ny // 2 - 12 : ny // 2 + 12, nx // 2 - 12 : nx // 2 + 12].reshape(coils, -1).astype(complex)
    exact = np.linalg.svd(middle, full_matrices=False)[0][:, :10]
    matrix = np.linalg.lstsq(all_coils.T, ours.T, rcond=None)[0].T  # [virtual, coil]
    found = np.linalg.qr(matrix.conj().T)[0]
    angle = np.arcsin(min(1, np.linalg.norm(exact - found @ (found.conj().T @ exact), 2)))
    rss = [np.linalg.norm(of, axis=0) for of in (all_coils, ours, exact.conj().T @ all_coils)]
    errors = reference.nrmse(rss[1], rss[0]), reference.nrmse(rss[2], rss[0])
    print(f"compression: angle {angle:.1e} (asked 1e-4), NRMSE {errors[0]:.5f}, float64 {errors[1]:.5f}", flush=True)
    return angle > 1e-4 or abs(errors[0] / errors[1] - 1) > 0.01


def snr(server):
    missed = False
    chain = "  - cartesian_kspace\n  - grappa: {snr_units: true}\n  - image: {component: complex}\n"
    for name, full, came, middle, steps in cases("brain16"):
        lines = np.flatnonzero(came[0] & (np.arange(came.shape[1]) % steps[1] == 0))
        scale = 3000 / np.abs(full).max()  # the noise of the data is then far below that of the replicas
        random = np.random.default_rng(5)
        messages = [wire.acquisition(scale * full[:, 0, y], None, CALIBRATION, y) for y in np.flatnonzero(middle[0])]
        for repetition in range(REPLICAS):
            for y in lines:
                white = random.standard_normal((2, *full[:, 0, y].shape))
                line = (scale * full[:, 0, y] + white[0] + 1j * white[1]).astype(np.complex64)
                messages.append(wire.acquisition(line, None, wire.LAST_IN_SLICE * (y == lines[-1]), y, repetition))
        scan = scans.Scan(header(full.shape[1:], steps, "separate"), messages)
        reply = wire.exchange(server.address, scan.stream(wire.config_text(PIPELINE.format(chain))), timeout_s=600)
        assert not reply.errors(), reply.errors()
        series = sorted({int(image.head["image_series_index"]) for image in reply.images})
        images = np.array([i.pixels[0, 0] for i in reply.images if int(i.head["image_series_index"]) == series[-1]])
        assert len(series) == 2 and len(images) == REPLICAS, (series, len(images))
        ratio = np.sqrt((images.real.var(axis=0, ddof=1) + images.imag.var(axis=0, ddof=1)) / 2)
        magnitude = np.abs(images.mean(axis=0))
        ratio = ratio[magnitude > 0.1 * magnitude.max()]
        median, mean = np.median(np.abs(ratio - 1)), abs(ratio.mean() - 1)
        missed |= median > 0.03 or mean > 0.01
        print(f"snr {name}: median of |ratio - 1| {median:.4f} (asked 0.03), |mean - 1| {mean:.4f} (asked 0.01), "
              f"{ratio.size} voxels", flush=True)  # fmt: skip
    return missed


SECTIONS = {"partial": partial, "compression": compression, "snr": snr}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    with serving(arguments) as server:
        missed = [SECTIONS[section](server) for section in arguments.sections]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
