"""R waves from the stamps of readouts, as text for `echotrain simulate --physiology`."""

from __future__ import annotations

import os
import pathlib
from typing import Any, List, Union

import numpy as np

from ..errors import ScanError
from ..layout import Array

PathLike = Union[str, "os.PathLike[str]"]

_FEWEST_BEATS = 3
_MOST_WRONG = 0.1


def in_order(stamps: Any) -> Array:
    """Stamps [readout] in the order of acquisition.

    An array of stacks of stars, [frame, partition, spoke], is read as frames of spokes, each through its partitions in
    rising order; a partition whose stamps are all 0 was not acquired.
    """
    array: Array = np.asarray(stamps)
    if array.ndim == 3:
        acquired = np.broadcast_to(np.any(array != 0, axis=2, keepdims=True), array.shape)
        stamped: Array = np.swapaxes(array, 1, 2)[np.swapaxes(acquired, 1, 2)]
        return stamped
    if array.ndim != 1:
        raise ScanError(f"stamps are [readout] or [frame, partition, spoke], not an array of {array.ndim} axes")
    return array


def r_waves(stamps: Any, readout_ms: float, tick_ms: float = 2.5) -> Array:
    """Times [ms] of the R waves since the first readout, to a fraction of a tick.

    `stamps`: of each readout, in order of acquisition, the whole ticks of `tick_ms` since the R wave before it
    (ISMRMRD's physiology_time_stamp); a readout comes every `readout_ms`. An R wave is where they fall. ScanError where
    they cannot be that.
    """
    if not (readout_ms > 0 and tick_ms > 0):
        raise ScanError(f"a readout takes {readout_ms} ms and a tick {tick_ms} ms: both have to be above 0")
    ticks = in_order(stamps).astype(np.float64)
    if ticks.size == 0 or not np.all(np.isfinite(ticks)) or np.any(ticks < 0):
        raise ScanError("stamps are finite numbers of ticks, 0 or more, of one readout or more")
    begins = np.flatnonzero(np.diff(ticks) < 0) + 1
    if len(begins) < _FEWEST_BEATS:
        raise ScanError(
            f"the stamps of {ticks.size} readouts fall {len(begins)} times: {_FEWEST_BEATS} R waves or more are "
            "needed; do these stamps count from the R wave, and are they in order of acquisition?"
        )
    times = np.arange(ticks.size) * readout_ms
    # A beat's last readout is the one before the next beat's first.
    steps = np.diff(begins) - 1
    rises = (ticks[begins[1:] - 1] - ticks[begins[:-1]]) * tick_ms
    rate = float(np.sum(rises) / max(float(np.sum(steps)) * readout_ms, np.finfo(float).tiny))
    if abs(rate - 1) > _MOST_WRONG:
        raise ScanError(
            f"between R waves, stamps rise by {rate:.2f} ms in each millisecond of readouts: look at the tick "
            f"({tick_ms:g} ms) and the time of a readout ({readout_ms:g} ms)"
        )
    # The R wave lies within the tick that each of the beat's readouts tells of: their mean is finer than a tick.
    told = times - (ticks + 0.5) * tick_ms
    bounds = np.append(begins, ticks.size)
    waves: Array = np.array([np.mean(told[a:b]) for a, b in zip(bounds[:-1], bounds[1:])])
    return waves


def physiology_text(waves: Any, source: str) -> str:
    """The text that `echotrain simulate --physiology` reads: a line of each R wave."""
    lines: List[str] = [f"# R waves [ms], from the stamps of {source}"]
    lines += [f"r {wave:.3f}" for wave in waves]
    return "\n".join(lines) + "\n"


def convert(stamps: PathLike, output: PathLike, readout_ms: float, tick_ms: float = 2.5) -> int:
    """Writes the R waves of an .npy file of stamps; returns how many they are."""
    try:
        array = np.load(stamps)
    except (OSError, ValueError) as error:
        raise ScanError(f"{stamps}: not an .npy array of stamps: {error}") from None
    waves = r_waves(array, readout_ms, tick_ms)
    try:
        pathlib.Path(output).write_text(physiology_text(waves, pathlib.Path(stamps).name), encoding="utf-8")
    except OSError as error:
        raise ScanError(f"{output}: {error.strerror}") from None
    return len(waves)
