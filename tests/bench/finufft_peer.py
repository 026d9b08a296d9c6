"""FINUFFT on the trajectories of bench_nufft, as a peer: `pip install finufft numpy`, then run this beside `./run bench nufft`.

Type 1 in single precision at eps 1e-3 with 2 threads; plan and points are made beforehand; median of 20 in ms.
"""

import time

import finufft
import numpy as np

GOLDEN_ANGLE = 1.9416110387254666
RNG = np.random.default_rng(0)


def spokes(readouts, samples):
    angle = np.arange(readouts)[:, None] * GOLDEN_ANGLE
    radius = np.arange(samples)[None, :] / samples - 0.5
    return [radius * np.cos(angle), radius * np.sin(angle)]


def kooshball(readouts, samples):
    index = np.arange(readouts)[:, None]
    z = 1 - (2 * index + 1) / readouts
    ring, angle = np.sqrt(1 - z * z), index * GOLDEN_ANGLE
    radius = 0.5 * np.arange(samples)[None, :] / (samples - 0.5)
    return [radius * ring * np.cos(angle), radius * ring * np.sin(angle), radius * z]


def measure(name, positions, shape, coils):
    points = [(2 * np.pi * axis).ravel().astype(np.float32) for axis in positions]
    size = (coils, points[0].size) if coils > 1 else points[0].size
    data = (RNG.uniform(-1, 1, size) + 1j * RNG.uniform(-1, 1, size)).astype(np.complex64)
    plan = finufft.Plan(1, shape, n_trans=coils, eps=1e-3, isign=1, dtype="complex64", nthreads=2)
    plan.setpts(*points)
    times = []
    for _ in range(23):
        begin = time.perf_counter()
        plan.execute(data)
        times.append(time.perf_counter() - begin)
    print(f"{name}: {1e3 * np.median(times[3:]):.1f} ms")


measure("2D golden angle 402x512 c8 -> 256^2", spokes(402, 512), (256, 256), 8)
measure("3D koosh-ball 284592 c1 -> 128^3", kooshball(1078, 264), (128, 128, 128), 1)
measure("3D koosh-ball 284592 c8 -> 128^3", kooshball(1078, 264), (128, 128, 128), 8)
