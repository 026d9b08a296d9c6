"""A scan to send: a header, and readouts from wherever they come."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any, AsyncIterable, Callable, Dict, Iterable, Optional, TypedDict, TypeVar, Union

import numpy as np

from .arrays import ArrayReadouts, AxisNames, Numbers
from .cfl import from_bart, is_cfl
from .errors import ScanError
from .files import ENDINGS, is_array_file, read_array
from .hdf5 import Hdf5Scan
from .header import Header, HeaderLike, header_xml
from .layout import is_ismrmrd
from .messages import Acquisition
from .plot import plot_readouts

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

# FIRE's clients send this for files that have no header and hold images only.
NO_HEADER = "Dummy XML header"

Items = Union[Iterable[Any], AsyncIterable[Any]]


class Scan:
    """A header's XML and the items to send: readouts, waveforms and images, of this package or of ismrmrd.

    `items` may be a generator that yields readouts as they are measured; every item is sent as soon as it is there.
    `readouts` is their number, where it is known.
    """

    def __init__(self, header: HeaderLike, items: Items, readouts: Optional[int] = None) -> None:
        self.xml = header_xml(header)
        self.items = items
        self.readouts = readouts

    def plot(self, axes: Any = None) -> Any:
        """Shows what is measured, with matplotlib: the trajectory, or lines of k-space. Returns matplotlib's axes, those
        given or new ones. Readouts that come only once (a generator) are not used up for it."""
        return plot_readouts(self.items, repr(self)[1:-1], axes)

    def __repr__(self) -> str:
        count = "?" if self.readouts is None else self.readouts
        try:
            header = Header.parse(self.xml)
        except ScanError:
            return f"<Scan: {count} readouts>"
        sizes, lengths = header.recon_matrix or header.matrix, header.recon_fov or header.fov
        voxels, mm = (" x ".join(f"{one:g}" for one in each[: 3 if sizes[2] > 1 else 2]) for each in (sizes, lengths))
        return f"<Scan: {count} readouts, {header.trajectory}, {voxels} voxels, {mm} mm>"


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _array(source: Any, variable: Optional[str] = None) -> Any:
    """An array, or the one in the file that `source` names."""
    return read_array(source, variable) if _is_path(source) else source


class ScanOptions(TypedDict, total=False):
    """What make_scan() and reconstruct() take by keyword. `group` is "dataset" by default, all else None."""

    header: Optional[HeaderLike]
    density: Any
    matrix: Optional[Numbers]
    fov: Optional[Numbers]
    trajectory_type: Optional[str]
    trajectory_unit: Optional[str]
    axes: Optional[AxisNames]
    noise: Any
    variable: Optional[str]
    group: str


def shows(*keywords: inspect.Parameter) -> Callable[[F], F]:
    """Makes help() and editors show `keywords` one by one in the place of a function's **options."""

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        setattr(function, "__signature__", signature.replace(parameters=[*own, *keywords]))
        return function

    return show


SCAN_KEYWORDS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="dataset" if name == "group" else None)
    for name in ScanOptions.__annotations__
]


@shows(*SCAN_KEYWORDS)
def make_scan(source: Any, trajectory: Any = None, **options: Unpack[ScanOptions]) -> Scan:
    """A Scan from anything.

    source:

    - a path of an ISMRMRD HDF5 file (`group` is its group; `header` replaces its header);
    - a complex array, or a path of a .npy, .mat (`variable` is its array) or NIfTI file with one: see ArrayReadouts for
      axes and for all other arguments;
    - a path of a BART pair (NAME, NAME.cfl, NAME.hdr), whose `trajectory`, if any, is a BART pair too: see from_bart;
    - an iterable (or async iterable) of Acquisition, Waveform and Image, of this package or of ismrmrd, with a
      `header`;
    - a Scan.
    """
    unknown = options.keys() - ScanOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"make_scan() got an unexpected keyword argument '{min(unknown)}'")
    header, group = options.pop("header", None), options.pop("group", "dataset")
    values: Dict[str, Any] = {**options}
    given = {name: values[name] for name in ScanOptions.__annotations__ if values.get(name) is not None}
    is_file = _is_path(source)
    if is_file and not is_array_file(source):
        _refuse(trajectory, given, "an ISMRMRD file has its own")
        file = Hdf5Scan(source, group)
        return Scan(header if header is not None else file.xml or NO_HEADER, file, file.readouts)
    if is_file or isinstance(source, np.ndarray):
        kspace, points = _array(source, given.pop("variable", None)), _array(trajectory)
        for name in ("density", "noise"):
            if name in given:
                given[name] = _array(given[name])
        if is_file and is_cfl(source):
            is_bart = trajectory is None or (_is_path(trajectory) and is_cfl(trajectory))
            if not is_bart:
                raise ScanError(
                    "a .cfl file needs a .cfl trajectory; for others, pass echotrain.read_cfl(...) as the array"
                )
            kspace, points, implied = from_bart(kspace, points)
            given = {**implied, **given}
        readouts = ArrayReadouts(kspace, points, header=header, **given)
        return Scan(readouts.xml, readouts, len(readouts))
    _refuse(trajectory, given, "readouts have their own")
    if isinstance(source, Scan):
        return source if header is None else Scan(header, source.items, source.readouts)
    if isinstance(source, Acquisition) or is_ismrmrd(source):
        raise ScanError("one readout is no scan; pass a list or a generator of them")
    if not isinstance(source, (Iterable, AsyncIterable)):
        raise ScanError(f"a scan is a path, a complex array or an iterable of readouts, not {type(source).__name__}")
    if header is None:
        raise ScanError("readouts need a header: header=echotrain.Header(matrix=..., fov=...), or ISMRMRD XML")
    count = len(source) if isinstance(source, (list, tuple)) else None
    return Scan(header, source, count)


@shows(*SCAN_KEYWORDS)
def from_array(kspace: Any, trajectory: Any = None, **options: Unpack[ScanOptions]) -> Scan:
    """A Scan of a k-space array, or of a file with one, as make_scan() makes it: for write_scan() and reconstruct()."""
    if not (_is_path(kspace) and is_array_file(kspace)) and not isinstance(kspace, np.ndarray):
        raise ScanError(f"k-space is an array, or a file of: {', '.join(ENDINGS)}")
    return make_scan(kspace, trajectory, **options)


def _refuse(trajectory: Any, given: Any, why: str) -> None:
    names = [*(["trajectory"] if trajectory is not None else []), *given]
    if names:
        raise ScanError(f"{', '.join(names)}: for k-space arrays only; {why}")
