"""Warnings of numbers that were likely meant in other units."""

from __future__ import annotations

import sys
import warnings
from typing import Mapping, Sequence

import numpy as np

from .errors import ScanWarning
from .layout import Array

LARGEST = 0.5005  # cycles/pixel: servers drop what lies beyond
_SMALL_FOV_MM, _LARGE_FOV_MM = 1.0, 5000.0
_SHORT_US, _LONG_US = 1e-3, 2000.0


def warn(text: str) -> None:
    """A ScanWarning where the caller of this package stands."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "echotrain":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, ScanWarning, stacklevel=level)


def check_fov(fov: Sequence[float]) -> None:
    largest = max(fov)
    if largest < _SMALL_FOV_MM:
        meant = ", ".join(f"{1000 * length:g}" for length in fov)
        warn(f"a field of view of {largest:g} mm: was it in metres? It is in mm, as ({meant})")
    elif largest > _LARGE_FOV_MM:
        warn(f"a field of view of {largest:g} mm is longer than a scanner: it is in mm")


def check_dwell(time_us: float) -> None:
    if 0 < time_us < _SHORT_US:
        warn(f"sample_time_us={time_us:g}: was it in seconds? It is in microseconds, as {1e6 * time_us:g}")
    elif time_us > _LONG_US:
        warn(f"sample_time_us={time_us:g}: was it in nanoseconds? It is in microseconds, as {time_us / 1000:g}")


def check_trajectory(points: Array, unit: str, factors: Mapping[str, Array], matrix: Sequence[float]) -> None:
    """points: [..., dimension] in `unit`; factors: of each unit, by dimension, to cycles/pixel."""
    axes = tuple(range(points.ndim - 1))
    extent = np.maximum(np.abs(points.max(axis=axes)), np.abs(points.min(axis=axes)))
    count = len(extent)
    reached = extent * factors[unit][:count]
    # From a quarter to all of the band: what a trajectory in this unit would reach.
    others = [
        name
        for name, factor in factors.items()
        if name != unit and LARGEST / 2 < float((extent * factor[:count]).max()) <= LARGEST
    ]
    hint = f"trajectory_unit='{others[0]}' makes it {np.max(extent * factors[others[0]][:count]):.3g}" if others else (
        f"trajectory_unit is one of {', '.join(factors)}"
    )  # fmt: skip
    if reached.max() > LARGEST:
        warn(f"the trajectory reaches {reached.max():.4g} cycles/pixel, and the band ends at 0.5: {hint}")
    elif 0 < np.max(reached * np.asarray(matrix[:count])) < 1:
        warn(f"the trajectory reaches only {reached.max():.3g} cycles/pixel, less than one line of k-space: {hint}")
