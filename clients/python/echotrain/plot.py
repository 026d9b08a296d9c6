"""Plots by matplotlib, which is optional: pip install 'echotrain[view]'."""

from __future__ import annotations

from typing import Any, AsyncIterable, Dict, List, Tuple

import numpy as np

from .errors import EchotrainError, ScanError
from .layout import NOISE, Array

MOST_READOUTS = 4096  # of a scan that are looked at


def require_matplotlib() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise EchotrainError("showing images needs matplotlib: pip install 'echotrain[view]'") from None
    return matplotlib.pyplot


def plot_readouts(items: Any, title: str, axes: Any) -> Any:
    """What a scan measures: its trajectory; of Cartesian lines the logarithm of their samples, root-sum-of-squares over
    coils; of Cartesian volumes the lines and partitions that come. The first readout of each place counts."""
    if isinstance(items, AsyncIterable) or iter(items) is items:
        raise ScanError("plot() would use up readouts that come only once: make a list of them")
    pyplot = require_matplotlib()
    paths: List[Array] = []
    lines: Dict[Tuple[int, int], Array] = {}
    readouts = (item for item in items if hasattr(item, "head") or hasattr(item, "traj"))
    for _, item in zip(range(MOST_READOUTS), readouts):
        points, place, flags = _facts(item)
        if flags & NOISE:
            continue
        if points is not None:
            paths.append(points)
        elif place not in lines:
            lines[place] = np.sqrt(np.sum(np.abs(item.data) ** 2, axis=0))
    if not paths and not lines:
        raise ScanError("there is no readout to plot")
    if axes is None:
        axes = pyplot.subplots()[1]
    if paths:
        _plot_paths(axes, paths)
    elif any(partition for partition, _ in lines):
        _plot_mask(axes, list(lines))
    else:
        _plot_lines(axes, {line: samples for (_, line), samples in lines.items()})
    axes.set_title(title)
    return axes


def _facts(item: Any) -> Tuple[Any, Tuple[int, int], int]:
    """Trajectory, (partition, line) and flags of a readout, of this package or of ismrmrd."""
    if hasattr(item, "traj"):
        points = item.traj if item.traj.shape[1] else None
        return points, (int(item.idx.kspace_encode_step_2), int(item.idx.kspace_encode_step_1)), int(item.flags)
    index = item.head["idx"]
    place = (int(index["kspace_encode_step_2"]), int(index["kspace_encode_step_1"]))
    return getattr(item, "trajectory", None), place, int(item.head["flags"])


def _plot_paths(axes: Any, paths: List[Array]) -> None:
    for points in paths:
        axes.plot(points[:, 0], points[:, 1], color="C0", linewidth=0.5, alpha=max(0.1, min(1.0, 40 / len(paths))))
    axes.set_aspect("equal")
    axes.set_xlabel("kx [cycles/pixel]")
    axes.set_ylabel("ky [cycles/pixel]")


def _plot_mask(axes: Any, places: List[Tuple[int, int]]) -> None:
    mask = np.zeros(np.max(places, axis=0) + 1)
    mask[tuple(np.transpose(places))] = 1
    axes.imshow(mask, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xlabel("line")
    axes.set_ylabel("partition")


def _plot_lines(axes: Any, lines: Dict[int, Array]) -> None:
    picture = np.zeros((max(lines) + 1, max(len(samples) for samples in lines.values())))
    for line, samples in lines.items():
        picture[line, : len(samples)] = samples
    floor = (picture.max() or 1.0) * 1e-4
    axes.imshow(np.log10(np.maximum(picture, floor)), cmap="gray", aspect="auto", interpolation="nearest")
    axes.set_xlabel("sample")
    axes.set_ylabel("line")
