"""Which lines of a Cartesian array were measured, and how: those that hold anything but zeros."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

from .errors import ScanError
from .layout import Array

_MOST_STEPS = 16  # docs/pipelines.md


@dataclasses.dataclass(frozen=True)
class Lattice:
    """Every `step`-th place of an axis from `first` on, and all places in `block` (begin, end; empty: (0, 0))."""

    step: int = 1
    first: int = 0
    block: Tuple[int, int] = (0, 0)

    def places(self, count: int) -> Array:
        """Mask of the places on the lattice."""
        return np.asarray((np.arange(count) - self.first) % self.step == 0)


def measured_lines(kspace: Array) -> Array:
    """[..., partition, line] of k-space [..., partition, line, coil, sample]: False where all coils have zeros only.
    ScanError for numbers that are not finite, and for a frame of zeros only."""
    mask = np.zeros(kspace.shape[:-2], bool)
    for place in np.ndindex(*kspace.shape[:-3]):
        lines = kspace[place]
        if not np.all(np.isfinite(lines)):
            raise ScanError(f"k-space has numbers that are not finite, first in line {_first_bad(lines)} of {place}")
        mask[place] = np.any(lines != 0, axis=(-2, -1))
    if not np.all(np.any(mask, axis=(-2, -1))):
        raise ScanError("k-space has zeros only in a frame: nothing was measured there")
    return mask


def _first_bad(lines: Array) -> int:
    return int(np.flatnonzero(~np.all(np.isfinite(lines), axis=(-2, -1)))[0])


def lattice_of(measured: Array) -> Lattice:
    """How the places [place] of an axis lie: a step above 1 (the smallest) only where all others lie in one block."""
    places = np.flatnonzero(measured)
    for step in range(2, min(_MOST_STEPS, len(measured) // 2) + 1):
        for first in range(step):
            found = _block_beside(measured, places, step, first)
            if found is not None:
                return Lattice(step, first, found)
    return Lattice()


def _block_beside(measured: Array, places: Array, step: int, first: int) -> Optional[Tuple[int, int]]:
    lattice = np.arange(first, len(measured), step)
    on = measured[lattice]
    # Missing at one end: partial Fourier.
    reached = np.flatnonzero(on)
    if len(reached) < 2 or not on[reached[0] : reached[-1] + 1].all():
        return None
    others = places[(places - first) % step != 0]
    if not len(others):
        return (0, 0) if len(reached) > 2 or len(reached) == len(on) else None
    begin, end = int(others[0]), int(others[-1]) + 1
    if not measured[begin:end].all() or end - begin >= len(places):
        return None
    run = _grown(measured, begin, end)
    return (begin, end) if run[1] - run[0] < places[-1] - places[0] + 1 else None


def _grown(measured: Array, begin: int, end: int) -> Tuple[int, int]:
    while begin > 0 and measured[begin - 1]:
        begin -= 1
    while end < len(measured) and measured[end]:
        end += 1
    return begin, end


def lattices_of(plane: Array) -> Tuple[Lattice, Lattice]:
    """Those of the lines and partitions of [partition, line]; steps of 1 where it has points beside both and one block.
    The block is as large as can be."""
    lines, partitions = lattice_of(np.any(plane, axis=0)), lattice_of(np.any(plane, axis=1))
    blocks = [each.block if each.step > 1 else (0, count) for each, count in zip((lines, partitions), plane.shape[::-1])]
    if (0, 0) not in blocks:
        blocks[0] = _grown(np.all(plane[slice(*blocks[1])], axis=0), *blocks[0])
        blocks[1] = _grown(np.all(plane[:, slice(*blocks[0])], axis=1), *blocks[1])
    expected = np.outer(partitions.places(len(plane)), lines.places(plane.shape[1]))
    expected[slice(*blocks[1]), slice(*blocks[0])] = True
    if np.any(plane & ~expected):
        return Lattice(), Lattice()
    return Lattice(lines.step, lines.first, blocks[0]), Lattice(partitions.step, partitions.first, blocks[1])
