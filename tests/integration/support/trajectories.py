"""Scans whose trajectories nobody has seen before, and the pipelines that they make the server work hardest for."""

import numpy as np

import scans
import wire

NUFFT_3D = """echotrain: 1
name: nufft_3d
description: 3D, least squares by NUFFT
backend: cpu
frame: auto
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {method: none}
  - fhd: {dimensions: 3, method: nufft}
  - pcg: {iterations: 2, tolerance: 1e-5, prior: tikhonov, lambda: 1e-3}
  - coil_combine: {method: rss}
  - image: {component: magnitude, type: float}
"""


def noise(rng, *shape):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def random_3d(seed, matrix, coils=4):
    """64 readouts of 64 samples anywhere in k-space, which NUFFT_3D reconstructs; 0.2 MB with 4 coils."""
    rng = np.random.default_rng(seed)
    trajectory = (rng.random((64, 64, 3)) - 0.5).astype(np.float32)
    scan = scans.non_cartesian("other", (matrix,) * 3, trajectory, noise(rng, 64, coils, 64))
    return scan.stream(wire.config_text(NUFFT_3D))


def radial(seed, matrix, pipeline, readouts=64, coils=8):
    """Spokes at random angles, for a shipped 2D pipeline."""
    rng = np.random.default_rng(seed)
    angles, along = rng.random(readouts) * np.pi, (np.arange(2 * matrix) - matrix) / (2 * matrix)
    trajectory = along[None, :, None] * np.stack([np.cos(angles), np.sin(angles)], -1)[:, None, :]
    data = noise(rng, readouts, coils, 2 * matrix)
    scan = scans.non_cartesian("radial", (matrix, matrix, 1), trajectory.astype(np.float32), data)
    return scan.stream(wire.config_file(pipeline))
