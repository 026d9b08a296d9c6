"""Pulseq sequences put to what a scanner measured with them: places, counters and flags of readouts, and the header.

    from echotrain import pulseq

    images = echotrain.reconstruct(pulseq.attach("radial.seq", kspace), pipeline="radial_2d")

It needs pypulseq (pip install pypulseq), which reads the sequence; `echotrain convert --seq` needs nothing.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional

import numpy as np

from . import layout
from .arrays import Numbers
from .errors import ScanError
from .header import Header
from .layout import Array
from .messages import Acquisition
from .scan import Scan, make_scan

COUNTERS = {
    **{"LIN": "kspace_encode_step_1", "PAR": "kspace_encode_step_2", "SLC": "slice", "REP": "repetition"},
    **{"SET": "set", "ECO": "contrast", "AVG": "average", "PHS": "phase", "SEG": "segment"},
}
_FLAT = 1e-4  # of what k-space reaches: less is none
_ALONG = 0.15  # of a line's length: blips of EPI may begin while it is measured


class Sequence:
    """What a pypulseq Sequence, or a path of a .seq file, says of its readouts, the ADC events in the order of time.

    trajectory: [sample, 3] of each readout, in cycles/m.
    labels: name -> value at each readout, for the labels that the sequence uses.
    definitions: the sequence's own, such as FOV in m.
    excitations: how many excitations came before each readout.
    """

    def __init__(self, source: Any) -> None:
        sequence = _opened(source)
        blocks = (sequence.get_block(number) for number in sequence.block_events)
        counts = [int(block.adc.num_samples) for block in blocks if block.adc is not None]
        if not counts:
            raise ScanError("the sequence has no ADC event")
        places, _, excitations, _, times = sequence.calculate_kspace()
        ends = np.cumsum(counts)
        self.trajectory: List[Array] = np.split(places.T, ends[:-1])
        self.excitations: Array = np.searchsorted(np.sort(excitations), times[ends - counts])
        found = sequence.evaluate_labels(evolution="adc")
        self.labels: Dict[str, Array] = {name: np.asarray(values).astype(int) for name, values in found.items()}
        self.definitions: Dict[str, Any] = dict(sequence.definitions)

    def __len__(self) -> int:
        return len(self.trajectory)

    def label(self, name: str) -> Array:
        """A label's value at each readout, 0 where the sequence does not use it."""
        return self.labels.get(name, np.zeros(len(self), int))


def attach(sequence: Any, data: Any, *, matrix: Optional[Numbers] = None, fov: Optional[Numbers] = None) -> Scan:
    """A Scan of `data` with what `sequence` says: a Sequence of this module or of pypulseq, or a path of a .seq file.

    data: complex [coil, readout, sample], or [readout, sample] of one coil; a list of readouts [coil, sample], where
    they differ in length; or a Scan or a path of an ISMRMRD file, whose noise readouts stay as they are. Readouts come
    in the order of time, waveforms among them pass by. Several times as many as ADC events are so many repetitions.

    Lines along one axis are Cartesian (by labels, else by their place in k-space) and EPI where they turn round after
    an excitation; other straight lines are radial. fov (mm) and matrix are the definitions FOV, Matrix and MatrixSize
    by default, the matrix else what k-space reaches. A Cartesian scan gets no trajectory.
    """
    own = sequence if isinstance(sequence, Sequence) else Sequence(sequence)
    return _Attached(own, matrix, fov).scan(data)


def _opened(source: Any) -> Any:
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "calculate_kspace"):
            raise ScanError(f"a sequence is pypulseq's or a path of a .seq file, not {type(source).__name__}")
        return source
    try:
        import pypulseq
    except ImportError:
        raise ScanError("reading a .seq file needs pypulseq: pip install pypulseq") from None
    sequence = pypulseq.Sequence()
    try:
        sequence.read(os.fspath(source), detect_rf_use=True)
    except Exception as error:  # whatever pypulseq finds wrong
        raise ScanError(f"{os.fspath(source)}: pypulseq cannot read it: {error}") from error
    return sequence


def _triple(given: Any, what: str) -> Array:
    values = np.atleast_1d(np.asarray(given, float))
    if len(values) > 3 or not len(values) or not np.all(np.isfinite(values) & (values > 0)):
        raise ScanError(f"{what} is one to three positive numbers, not {given}")
    return np.concatenate([values, values[:1]]) if len(values) == 1 else values


class _Attached:
    def __init__(self, sequence: Sequence, matrix: Optional[Numbers], fov: Optional[Numbers]) -> None:
        self._sequence = sequence
        imaging = (sequence.label("NAV") == 0) & (sequence.label("NOISE") == 0)
        self._imaging = [k for k, is_one in zip(sequence.trajectory, imaging) if is_one and len(k)]
        if not self._imaging:
            raise ScanError("the sequence has navigators and noise only")
        reach = np.max([np.abs(k).max(0) for k in self._imaging], axis=0)
        self._flat = _FLAT * reach.max()
        self._shape(reach)
        self._fov = self._told_fov(fov)[self._axes]
        self._header_sizes(reach[self._axes], matrix)
        self._centers = [_center(k) for k in sequence.trajectory]
        self._count_lines(reach[self._axes])

    def _told_fov(self, fov: Optional[Numbers]) -> Array:
        told = self._sequence.definitions.get("FOV") if fov is None else None
        if fov is None and told is None:
            raise ScanError("the sequence has no definition FOV; give fov=... in mm")
        values = _triple(fov, "fov") if told is None else 1000 * _triple(told, "the definition FOV")
        return values if len(values) == 3 else np.append(values, values[0])

    def _shape(self, reach: Array) -> None:
        """The kind of trajectory, and its axes: along the readout, along lines, along partitions."""
        extents = np.array([np.ptp(k, axis=0) for k in self._imaging])
        moving = extents[extents.max(1) > self._flat]
        beside = [np.delete(moving, axis, 1) <= _ALONG * moving[:, axis, None] for axis in range(3)]
        along = [axis for axis in range(3) if len(moving) and np.all(beside[axis])]
        level = extents[:, 2].max() <= self._flat
        if along:
            rest = sorted({0, 1, 2} - {along[0]}, key=lambda axis: reach[axis] <= self._flat)
            self._axes = [along[0], *rest]
            self._kind = "epi" if self._turns(along[0]) else "cartesian"
            self._dimensions = 2 if self._kind == "epi" else 0
            return
        self._axes = [0, 1, 2] if level else sorted(range(3), key=lambda axis: reach[axis] <= self._flat)
        self._dimensions = 2 if level or reach[self._axes[2]] <= self._flat else 3
        straight = all(_is_straight(k) for k in self._imaging)
        self._kind = "radial" if straight else "spiral" if self._dimensions == 2 else "other"

    def _turns(self, axis: int) -> bool:
        """Neighbours after one excitation run in opposite directions, with a step between them."""
        trajectory, excitations = self._sequence.trajectory, self._sequence.excitations
        for i in range(1, len(trajectory)):
            a, b = trajectory[i - 1][:, axis], trajectory[i][:, axis]
            if excitations[i - 1] == excitations[i] and (a[-1] - a[0]) * (b[-1] - b[0]) < 0:
                step = trajectory[i][len(b) // 2] - trajectory[i - 1][len(a) // 2]
                if np.linalg.norm(np.delete(step, axis)) > _FLAT * abs(b[-1] - b[0]):
                    return True
        return False

    def _header_sizes(self, reach: Array, matrix: Optional[Numbers]) -> None:
        told = matrix
        for name in ("Matrix", "MatrixSize"):
            told = self._sequence.definitions.get(name) if told is None else told
        reached = np.maximum(1, 2 * np.ceil(reach * self._fov / 1000 - 0.25))
        size = reached
        if told is not None:
            given = _triple(told, "the matrix")
            size = np.append(given, 1.0)[:3][self._axes]
        lines = self._kind in ("cartesian", "epi")
        if lines:
            size = np.array([size[0], *np.maximum(size[1:], reached[1:])])
        elif self._dimensions == 3:
            size = np.full(3, size.max())
        else:
            size = np.array([max(size[:2]), max(size[:2]), max(size[2], reached[2])])
        self._recon = np.round(size).astype(int)
        self._encoded, self._encoded_fov = self._recon.copy(), self._fov.astype(float)
        if lines:
            x = next(k for k in self._imaging if np.ptp(k[:, self._axes[0]]) > self._flat)[:, self._axes[0]]
            steps = np.abs(np.diff(x))
            extent = abs(x[-1] - x[0]) + (steps[0] + steps[-1]) / 2
            even = steps.max() * len(x) < extent * 1.001
            self._encoded[0] = len(x) if even else max(2 * int(extent / steps.max() / 2 + 1e-3), self._recon[0])
            self._encoded_fov[0] = 1000 * self._encoded[0] / extent

    def _count_lines(self, reach: Array) -> None:
        """Counters: labels; lines and partitions that none counts, by their place."""
        counted = {COUNTERS[name]: values for name, values in self._sequence.labels.items() if name in COUNTERS}
        middles = np.array([k[center] for k, center in zip(self._sequence.trajectory, self._centers)])[:, self._axes]
        self._middle: Dict[str, int] = {}
        steps = {2: "PAR"} if self._dimensions == 2 else {}
        if self._kind in ("cartesian", "epi"):
            steps = {1: "LIN", 2: "PAR"}
        for axis, label in steps.items():
            name = COUNTERS[label]
            if name in counted:
                told = self._sequence.definitions.get(f"kSpaceCenter{'Line' if axis == 1 else 'Partition'}")
                nearest = counted[name][np.argmin(np.abs(middles[:, axis]))] if told is None else np.ravel(told)[0]
                self._middle[name] = int(nearest)
                highest = int(counted[name].max())
                needed = max(2 * self._middle[name], 2 * (highest - self._middle[name]) + 1)
                self._recon[axis] = self._encoded[axis] = max(self._recon[axis], needed)
            elif reach[axis] > self._flat:
                n = int(self._recon[axis])
                counted[name] = np.mod(np.round(middles[:, axis] * self._fov[axis] / 1000).astype(int) + n // 2, n)
                self._middle[name] = n // 2
        for name, values in counted.items():
            if values.min() < 0 or values.max() > 0xFFFF:
                raise ScanError(f"the labels of {name} are {values.min()} to {values.max()}; counters are 0 to 65535")
        self._counters = counted

    def scan(self, data: Any) -> Scan:
        if isinstance(data, np.ndarray):
            data = data if data.ndim == 3 else data[None]
            if data.ndim != 3 or not np.iscomplexobj(data):
                raise ScanError(f"data is complex [coil, readout, sample], not {data.dtype} of shape {data.shape}")
            held: List[Any] = [Acquisition(data[:, i], scan_counter=i) for i in range(data.shape[1])]
        elif isinstance(data, list) and all(isinstance(each, np.ndarray) for each in data):
            held = [Acquisition(each, scan_counter=i) for i, each in enumerate(data)]
        else:
            items = data if isinstance(data, list) else make_scan(data).items
            if not isinstance(items, Iterable):
                raise ScanError("a sequence is put to a scan whose items are there, not to an asynchronous one")
            held = [_copied(each) if isinstance(each, Acquisition) else each for each in items]
        readouts = [each for each in held if isinstance(each, Acquisition)]
        own = [each for each in readouts if not each.flags & layout.NOISE or "NOISE" in self._sequence.labels]
        plays, rest = divmod(len(own), len(self._sequence))
        if not plays or rest:
            events = len(self._sequence)
            raise ScanError(f"the sequence has {events} ADC events, the scan {len(own)} readouts: not its own")
        for number, readout in enumerate(own):
            self._describe(readout, *divmod(number, len(self._sequence)), plays)
        return Scan(self._header(own[0].data.shape[0], plays), held, len(held))

    def _describe(self, readout: Acquisition, play: int, event: int, plays: int) -> None:
        sequence = self._sequence
        k = sequence.trajectory[event]
        if len(k) != readout.data.shape[1]:
            raise ScanError(f"ADC event {event} has {len(k)} samples, its readout {readout.data.shape[1]}: not its own")
        index = readout.head["idx"]
        for name, values in self._counters.items():
            index[name] = values[event]
        if plays > 1:
            repetitions = self._counters.get("repetition", np.zeros(len(sequence), int))
            index["repetition"] = play * (repetitions.max() + 1) + repetitions[event]
        readout.head["center_sample"] = self._centers[event]
        flags, x = readout.flags, k[:, self._axes[0]]
        reference, imaged = sequence.label("REF")[event], sequence.label("IMA")[event]
        navigator = layout.PHASE_CORRECTION if self._kind == "epi" else layout.NAVIGATION
        for name, flag, is_set in (
            ("REV", layout.REVERSED, sequence.label("REV")[event]),
            ("NAV", navigator, sequence.label("NAV")[event]),
            ("NOISE", layout.NOISE, sequence.label("NOISE")[event]),
            ("REF", layout.REFERENCE, reference and not imaged),
            ("REF", layout.REFERENCE_AND_IMAGE, reference and imaged),
        ):
            if name in sequence.labels:
                flags = flags | flag if is_set else flags & ~flag
        if self._kind == "epi" and "REV" not in sequence.labels and x[-1] < x[0]:
            flags |= layout.REVERSED
        readout.head["flags"] = flags
        if self._dimensions and not flags & layout.NOISE:
            scale = self._encoded_fov / 1000 / self._encoded
            readout.trajectory = np.ascontiguousarray((k[:, self._axes] * scale)[:, : self._dimensions], np.float32)
            readout.fit_head()

    def _header(self, coils: int, plays: int) -> Header:
        limits = {}
        for name, values in self._counters.items():
            middle = self._middle.get(name, 0)
            limits[name.replace("kspace_encode_", "kspace_encoding_")] = (0, max(int(values.max()), middle), middle)
        limits["repetition"] = (0, plays * (limits.get("repetition", (0, 0, 0))[1] + 1) - 1, 0)
        return Header(
            matrix=(int(self._encoded[0]), int(self._encoded[1]), int(self._encoded[2])),
            fov=(float(self._encoded_fov[0]), float(self._encoded_fov[1]), float(self._encoded_fov[2])),
            recon_matrix=(int(self._recon[0]), int(self._recon[1]), int(self._recon[2])),
            recon_fov=(float(self._fov[0]), float(self._fov[1]), float(self._fov[2])),
            trajectory=self._kind,
            limits=limits,
            coils=coils,
        )


def _copied(readout: Acquisition) -> Acquisition:
    """With a head of its own: the caller's stays as it is."""
    return Acquisition.from_head(readout.head.copy(), readout.data, None)


def _center(k: Array) -> int:
    """The sample that is nearest to k = 0; the later one where two are."""
    if len(k) < 2:
        return 0
    square = np.sum(k**2, axis=1)
    nearest, around = int(np.argmin(square)), max(1, len(k) // 33)
    begin, end = max(0, nearest - around), nearest + around + 1
    step = np.sum(np.diff(k[begin:end], axis=0) ** 2, axis=1).max()
    return begin + int(np.flatnonzero(square[begin:end] <= square[nearest] + 0.02 * step)[-1])


def _is_straight(k: Array) -> bool:
    chord, offset = k[-1] - k[0], k - k[0]
    square = float(chord @ chord)
    beside = offset - np.outer(offset @ chord / square, chord) if square else offset
    return bool(np.linalg.norm(beside, axis=1).max() <= 1e-3 * np.linalg.norm(offset, axis=1).max())
