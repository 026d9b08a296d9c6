"""Gradient impulse responses as the asset that `trajectory_correction: {method: girf}` reads (docs/trajectories.md)."""

from __future__ import annotations

import os
from typing import Dict, Union

import h5py
import numpy as np
import numpy.typing as npt

from ..errors import EchotrainError
from ..hdf5 import write_images
from ..image import Image

def read_girf(path: Union[str, os.PathLike[str]]) -> Dict[str, npt.NDArray[np.complex128]]:
    """frequency_khz, girf_x, girf_y, girf_z of an HDF5 file with arrays of these names, or of a text with a line
    `frequency_khz Re(x) Im(x) Re(y) Im(y) Re(z) Im(z)` for each frequency (`#` begins a comment). Frequencies ascend.
    """
    names = ("frequency_khz", "girf_x", "girf_y", "girf_z")
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                missing = [name for name in names if name not in file]
                if missing:
                    raise EchotrainError(f"{path}: no array {', '.join(missing)}; there are {', '.join(file) or 'none'}")
                table = {name: np.asarray(file[name][()]).astype(np.complex128).ravel() for name in names}
        else:
            rows = np.loadtxt(path, ndmin=2)
            if rows.shape[1] != 7:
                raise EchotrainError(f"{path}: {rows.shape[1]} numbers in a line; 7 are expected")
            columns = [rows[:, 0] + 0j] + [rows[:, i] + 1j * rows[:, i + 1] for i in (1, 3, 5)]
            table = {name: np.asarray(values, np.complex128) for name, values in zip(names, columns)}
    except (OSError, ValueError, TypeError) as error:
        raise EchotrainError(f"{path}: {error}") from error
    lengths = {len(values) for values in table.values()}
    if len(lengths) != 1:
        raise EchotrainError(f"{path}: the arrays have different lengths: {sorted(lengths)}")
    frequencies = table["frequency_khz"].real
    if len(frequencies) < 2 or not np.all(np.diff(frequencies) > 0):
        raise EchotrainError(f"{path}: frequencies must ascend, two or more of them")
    if not all(np.all(np.isfinite(values)) for values in table.values()):
        raise EchotrainError(f"{path}: values that are no finite numbers")
    return table


def write_girf(
    path: Union[str, os.PathLike[str]],
    table: Dict[str, npt.NDArray[np.complex128]],
    highest_khz: float = float("inf"),
) -> int:
    """Writes the asset: one ISMRMRD image [4, 1, 1, frequency], channels frequency [kHz] and responses of X, Y, Z. What
    lies beyond +-highest_khz is left out, since responses are often noise at the ends of the band. How many frequencies."""
    kept = np.abs(table["frequency_khz"].real) <= highest_khz
    points = int(kept.sum())
    if points < 2:
        raise EchotrainError(f"no two frequencies lie within +-{highest_khz} kHz")
    if points > 65535:
        raise EchotrainError(f"{points} frequencies; an image holds 65535: give fewer, or a lower highest_khz")
    pixels = np.stack([table[name][kept] for name in ("frequency_khz", "girf_x", "girf_y", "girf_z")])
    meta = "<ismrmrdMeta><meta><name>role</name><value>girf</value></meta></ismrmrdMeta>"
    write_images(path, [Image(pixels[:, np.newaxis, np.newaxis, :], attributes=meta)])
    return points


def convert_girf(
    source: Union[str, os.PathLike[str]], path: Union[str, os.PathLike[str]], highest_khz: float = float("inf")
) -> int:
    """read_girf and write_girf; how many frequencies were written."""
    return write_girf(path, read_girf(source), highest_khz)
