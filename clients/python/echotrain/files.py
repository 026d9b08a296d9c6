"""Arrays in files of other programs: .npy, BART's .cfl, NIfTI (nibabel), MATLAB's .mat (scipy, and h5py for v7.3)."""

from __future__ import annotations

import importlib
import os
from typing import Any, Dict, Optional, Union

import h5py
import numpy as np

from .cfl import is_cfl, read_cfl
from .errors import ScanError
from .layout import Array

PathLike = Union[str, "os.PathLike[str]"]

ENDINGS = (".npy", ".cfl", ".hdr", ".mat", ".nii", ".nii.gz")


def is_array_file(path: PathLike) -> bool:
    """True for the files that read_array() takes, by their names."""
    return is_cfl(path) or os.fspath(path).lower().endswith(ENDINGS)


def read_array(path: PathLike, variable: Optional[str] = None) -> Array:
    """The array of a file, indices as its program has them: .npy, a BART pair, NIfTI [x, y, z, ...], or the variable of a
    .mat file of that name; without one, its only complex array, or else its only array of numbers."""
    name = os.fspath(path)
    if variable is not None and not name.lower().endswith(".mat"):
        raise ScanError(f"{name}: only .mat files have variables; leave out '{variable}'")
    if is_cfl(path):
        return read_cfl(path)
    try:
        if name.lower().endswith(".mat"):
            return _chosen(_mat(name), variable, name)
        if name.lower().endswith((".nii", ".nii.gz")):
            found: Array = np.asarray(_package("nibabel", name).load(name).dataobj)
            return found
        return np.asanyarray(np.load(name, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError:
        raise ScanError(f"{name}: there is no such file") from None
    except ScanError:
        raise
    except Exception as error:  # each package has its own
        raise ScanError(f"{name}: cannot be read: {error}") from None


def _package(package: str, name: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ScanError(f"{name}: needs {package.split('.')[0]}: pip install {package.split('.')[0]}") from None


def _mat(name: str) -> Dict[str, Array]:
    """The arrays of numbers of a .mat file. Version 7.3 is HDF5 with indices reversed and complex values as pairs."""
    if not h5py.is_hdf5(name):
        found = _package("scipy.io", name).loadmat(name)
        return {key: value for key, value in found.items() if not key.startswith("__") and _is_numbers(value)}
    out: Dict[str, Array] = {}
    with h5py.File(name, "r") as file:
        for key, each in file.items():
            if not isinstance(each, h5py.Dataset) or key.startswith("#"):
                continue
            value = each[()]
            if value.dtype.names == ("real", "imag"):
                value = value["real"] + 1j * value["imag"]
            if _is_numbers(value):
                out[key] = np.asarray(value).T
    return out


def _is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fciu"


def _chosen(arrays: Dict[str, Array], variable: Optional[str], name: str) -> Array:
    told = ", ".join(f"{key} {value.shape}" for key, value in arrays.items()) or "none"
    if variable is not None:
        if variable not in arrays:
            raise ScanError(f"{name}: has no array '{variable}'; its arrays of numbers: {told}")
        return arrays[variable]
    for choice in ([v for v in arrays.values() if np.iscomplexobj(v)], list(arrays.values())):
        if len(choice) == 1:
            return choice[0]
    raise ScanError(f"{name}: which array? Name the variable, one of: {told}")
