"""Readouts made from arrays."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import layout
from .errors import ScanError
from .header import Header, HeaderLike, Lengths, Sizes, header_xml
from .layout import Array
from .messages import Acquisition
from .sampling import Lattice, lattices_of, measured_lines
from .units import check_trajectory

AXES = ("average", "slice", "contrast", "phase", "repetition", "set", "coil", "partition", "line", "sample")
DEFAULT_AXES = {
    2: ("line", "sample"),
    3: ("coil", "line", "sample"),
    4: ("repetition", "coil", "line", "sample"),
    5: ("repetition", "coil", "partition", "line", "sample"),
}
UNITS = ("cycles_per_pixel", "cycles_per_fov", "radians_per_pixel", "cycles_per_m")

Numbers = Union[float, Sequence[float]]
AxisNames = Union[str, Sequence[str]]


class ArrayReadouts:
    """The readouts of k-space arrays, one after another; `xml` is their header. Nothing is copied before it is sent.

    kspace: complex [coil, line, sample], or with further axes:

    - [line, sample]: one coil;
    - [repetition, coil, line, sample]: several frames;
    - [repetition, coil, partition, line, sample]: 3D (Cartesian), stacks of stars or spirals;
    - anything else with `axes`, such as axes="slice coil line sample"; AXES has the names.

    A line is a Cartesian line, a spoke or an interleave. A 3D trajectory other than a stack has no partitions.

    trajectory: [line, sample, dimension], dimension 2 or 3 in the order x, y, z, for all frames; or with k-space's
    further axes (without coil) in front. Complex [line, sample] is kx + i ky. None: Cartesian, k = 0 at
    line and sample floor(n/2). Its unit is `trajectory_unit`, one of UNITS; it is sent in cycles/pixel.

    density: weights of the samples, [line, sample] or the trajectory's shape without dimension; sent as a third
    component, for 2D pipelines whose density compensation is `from_data`.

    matrix, fov: size of the image, as n or (x, y) or (x, y, z); fov in mm, by default 1 mm per voxel. A Cartesian array
    has a matrix already; one larger than `matrix` is oversampled, and its field of view is larger in proportion. With
    `header`, both come from there.

    noise: [coil, sample], a measurement of noise only, sent first; its sample time is assumed to be the scan's.

    Cartesian lines of zeros were not measured, and are not sent. Where the others are every n-th line (or partition),
    with a block of all lines or without, the header says so, and lines of the block are flagged as reference lines.
    """

    def __init__(
        self,
        kspace: Any,
        trajectory: Any = None,
        *,
        density: Any = None,
        header: Optional[HeaderLike] = None,
        matrix: Optional[Numbers] = None,
        fov: Optional[Numbers] = None,
        trajectory_type: Optional[str] = None,
        trajectory_unit: str = "cycles_per_pixel",
        axes: Optional[AxisNames] = None,
        noise: Any = None,
    ) -> None:
        self._kspace, self._counters = _arranged(np.asarray(kspace), axes)
        self._partitions, self._lines, coils, samples = self._kspace.shape[-4:]
        for what, n in (
            ("partitions", self._partitions),
            ("lines", self._lines),
            ("coils", coils),
            ("samples", samples),
        ):
            if not 1 <= n <= 0xFFFF:
                raise ScanError(
                    f"k-space has {n} {what}; 1 to 65535 are possible. Are its axes {axes or 'the usual ones'}?"
                )
        points = _positions(trajectory)
        self._trajectory = self._leading(points, 3, "the trajectory")
        self._density: Optional[Array] = None
        if density is not None:
            if self._trajectory is None:
                raise ScanError("density weights need a trajectory")
            self._density = self._leading(np.asarray(density, np.float32), 2, "the density")
        self._noise = None if noise is None else np.asarray(noise, np.complex64)
        if self._noise is not None and (self._noise.ndim != 2 or len(self._noise) != coils):
            raise ScanError(f"noise is [coil, sample] with {coils} coils, not of shape {self._noise.shape}")
        self._find_lines(trajectory_type, axes)
        if header is None:
            made = self._header(matrix, fov, trajectory_type)
            self.xml = made.xml()
        else:
            self.xml = header_xml(header)
            made = Header.parse(self.xml)
        self._prepare_trajectory(made, points, trajectory_unit)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._measured)) + (self._noise is not None)

    def _find_lines(self, kind: Optional[str], axes: Optional[AxisNames]) -> None:
        self._measured = np.ones(self._kspace.shape[:-2], bool)
        self._lattices = (Lattice(), Lattice())
        for what, values in (("the trajectory", self._trajectory), ("the density", self._density), ("noise", self._noise)):
            if values is not None and not np.all(np.isfinite(values)):
                raise ScanError(f"{what} has numbers that are not finite")
        found = measured_lines(self._kspace)
        if self._trajectory is not None or kind not in (None, "cartesian"):
            return
        # Averages are one image, to which each may give other lines.
        self._measured = found
        if "average" in self._counters:
            found = np.asarray(found.any(axis=self._counters.index("average")))
        planes = found.reshape(-1, self._partitions, self._lines)
        if not np.all(planes == planes[0]):
            return  # each frame has lines of its own: no lattice is theirs
        self._lattices = lattices_of(planes[0])

    def _reference(self, partition: int, line: int) -> int:
        """The flag of a reference line of an accelerated scan: one in the block, on the lattice as well or not."""
        both = list(zip(self._lattices, (line, partition)))
        if all(lattice.step == 1 for lattice in self._lattices):
            return 0
        if not all(lattice.block[0] <= at < lattice.block[1] for lattice, at in both):
            return 0
        imaged = all((at - lattice.first) % lattice.step == 0 for lattice, at in both)
        return layout.REFERENCE_AND_IMAGE if imaged else layout.REFERENCE

    # The last axes of `values` belong to a line; those before must fit k-space's further axes.
    def _leading(self, values: Optional[Array], own: int, what: str) -> Optional[Array]:
        if values is None:
            return None
        samples = self._kspace.shape[-1]
        counters = self._kspace.shape[:-4]
        lines = (self._lines, samples, *values.shape[-1:])[:own]
        shapes = [(*counters, self._partitions, *lines), (*counters, *lines), lines]
        for shape, added in zip(shapes, [None, -own - 1, -own - 1]):
            fits = len(shape) == values.ndim and all(have in (want, 1) for have, want in zip(values.shape, shape))
            if fits and values.shape[-own:] == shape[-own:]:
                values = values if added is None else np.expand_dims(values, added)
                return np.broadcast_to(values, (*counters, self._partitions, *lines))
        told = " or ".join(sorted({str(shape) for shape in shapes}, key=len))
        raise ScanError(f"{what} has shape {values.shape}; this k-space needs {told}")

    def _header(self, matrix: Optional[Numbers], fov: Optional[Numbers], kind: Optional[str]) -> Header:
        samples, lines, partitions = self._kspace.shape[-1], self._lines, self._partitions
        kind = kind or ("cartesian" if self._trajectory is None else "other")
        if kind == "cartesian":
            encoded: Sizes = (samples, lines, partitions)
            recon = encoded if matrix is None else _sizes(matrix, partitions)
        elif matrix is None:
            raise ScanError("the image's size does not follow from a trajectory; give matrix=n (or a header)")
        else:
            is_3d = self._trajectory is not None and self._trajectory.shape[-1] == 3 and partitions == 1
            recon = encoded = _sizes(matrix, None if is_3d else partitions)
        lengths = _lengths(fov, recon)
        larger = [max(1.0, e / r) for e, r in zip(encoded, recon)]
        limits = {name: (0, n - 1, 0) for name, n in zip(self._counters, self._kspace.shape)}
        limits["kspace_encoding_step_1"] = (0, lines - 1, lines // 2)
        limits["kspace_encoding_step_2"] = (0, partitions - 1, partitions // 2)
        return Header(
            matrix=encoded,
            fov=(lengths[0] * larger[0], lengths[1] * larger[1], lengths[2] * larger[2]),
            recon_matrix=recon,
            recon_fov=lengths,
            trajectory=kind,
            limits=limits,
            coils=self._kspace.shape[-2],
            acceleration=(self._lattices[0].step, self._lattices[1].step),
            calibration="external" if any(each.block == (0, 0) for each in self._lattices) else "embedded",
        )

    def _prepare_trajectory(self, header: Header, given: Optional[Array], unit: str) -> None:
        if unit not in UNITS:
            raise ScanError(f"trajectory_unit '{unit}' is not one of: {', '.join(UNITS)}")
        self._center = self._kspace.shape[-1] // 2
        self._factors: Optional[Array] = None
        if self._trajectory is None or given is None:
            return
        dimensions = self._trajectory.shape[-1]
        if dimensions not in (2, 3):
            raise ScanError(f"a trajectory has 2 or 3 dimensions, this one has {dimensions}")
        if dimensions == 3 and self._density is not None:
            raise ScanError("density weights are for 2D trajectories only; for 3D ones a pipeline computes its own")
        matrix, fov_m = np.array(header.matrix, float), np.array(header.fov) / 1000
        factors: Dict[str, Array] = {
            "cycles_per_pixel": np.ones(3),
            "cycles_per_fov": 1 / matrix,
            "radians_per_pixel": np.full(3, 1 / (2 * np.pi)),
            "cycles_per_m": fov_m / matrix,
        }
        check_trajectory(given, unit, factors, header.matrix)
        self._factors = factors[unit][:dimensions]
        first = self._trajectory.reshape(-1, *self._trajectory.shape[-2:])[0]
        self._center = int(np.argmin(np.sum((first * self._factors) ** 2, axis=-1)))

    def _line(self, place: Tuple[int, ...]) -> Optional[Array]:
        if self._trajectory is None:
            return None
        points = self._trajectory[place] * self._factors
        if self._density is not None:
            points = np.concatenate([points, self._density[place][:, None]], axis=-1)
        return np.asarray(points, np.float32)

    def __iter__(self) -> Iterator[Acquisition]:
        counter = 0
        if self._noise is not None:
            yield Acquisition(self._noise, flags=layout.NOISE, center_sample=0, sample_time_us=1)
            counter = 1
        sizes = self._kspace.shape[:-4]
        names = self._counters
        for frame in np.ndindex(*sizes):
            index: Dict[str, int] = dict(zip(names, frame))
            # All averages of an image are one frame: only the first average opens it, and only the last ends it.
            average = index.get("average", 0)
            averages = sizes[names.index("average")] if "average" in names else 1
            steps = np.argwhere(self._measured[frame])
            for number, (partition, line) in enumerate(steps):
                flags = self._reference(partition, line)
                if average == 0 and number == 0:
                    flags |= layout.FIRST_IN_SLICE
                if (average, number) == (averages - 1, len(steps) - 1):
                    flags |= layout.LAST_IN_SLICE
                place = (*frame, int(partition), int(line))
                yield Acquisition(
                    self._kspace[place],
                    self._line(place),
                    flags=flags,
                    scan_counter=counter,
                    measurement_uid=1,
                    center_sample=self._center,
                    sample_time_us=1,
                    kspace_encode_step_1=line,
                    kspace_encode_step_2=partition,
                    **index,
                )
                counter += 1


def _arranged(kspace: Array, axes: Optional[AxisNames]) -> Tuple[Array, List[str]]:
    """k-space as [counters..., partition, line, coil, sample], and the counters' names. A view."""
    if not np.iscomplexobj(kspace):
        raise ScanError(
            f"k-space must be complex, not {kspace.dtype}; a.view(complex)[..., 0] makes it of real values [..., 2]"
        )
    if axes is None:
        if kspace.ndim not in DEFAULT_AXES:
            raise ScanError(f"k-space of {kspace.ndim} axes needs axes=..., of: {', '.join(AXES)}")
        names = DEFAULT_AXES[kspace.ndim]
    else:
        names = tuple(axes.replace(",", " ").split() if isinstance(axes, str) else axes)
    if len(names) != kspace.ndim or len(set(names)) != len(names) or not set(names) <= set(AXES):
        raise ScanError(
            f"axes {names} do not name the {kspace.ndim} axes of k-space, each once, with: {', '.join(AXES)}"
        )
    if "line" not in names or "sample" not in names:
        raise ScanError(f"axes {names}: 'line' and 'sample' must be among them")
    counters = [name for name in names if name not in ("coil", "partition", "line", "sample")]
    order = [names.index(name) for name in counters]
    fixed = ("partition", "line", "coil", "sample")
    order += [names.index(name) for name in fixed if name in names]
    kspace = kspace.transpose(order)
    for place, name in enumerate(fixed):
        if name not in names:
            kspace = np.expand_dims(kspace, len(counters) + place)
    return kspace, counters


def _positions(trajectory: Any) -> Optional[Array]:
    if trajectory is None:
        return None
    values = np.asarray(trajectory)
    if np.iscomplexobj(values):
        values = np.stack([values.real, values.imag], axis=-1)
    if values.ndim < 3:
        raise ScanError(f"a trajectory is [line, sample, dimension], not of shape {values.shape}")
    return values


def _sizes(matrix: Numbers, z: Optional[int]) -> Sizes:
    """z: the third size where `matrix` has none; None: that of x."""
    numbers = np.atleast_1d(np.asarray(matrix))
    given = [int(n) for n in numbers]
    if not np.array_equal(numbers, given):
        raise ScanError(f"matrix has numbers of voxels, which are whole ones, not {matrix}")
    if len(given) == 1:
        given = [given[0], given[0]]
    if len(given) == 2:
        given.append(given[0] if z is None else z)
    if len(given) != 3 or min(given) < 1:
        raise ScanError(f"matrix is n, (x, y) or (x, y, z) of positive numbers, not {matrix}")
    return given[0], given[1], given[2]


def _lengths(fov: Optional[Numbers], matrix: Sizes) -> Lengths:
    """The field of view; where only x, or x and y, are given, voxels in z are as long as in x."""
    if fov is None:
        return float(matrix[0]), float(matrix[1]), float(matrix[2])
    given = [float(length) for length in np.atleast_1d(np.asarray(fov))]
    if len(given) == 1:
        given = [given[0], given[0] * matrix[1] / matrix[0]]
    if len(given) == 2:
        given.append(given[0] * matrix[2] / matrix[0])
    if len(given) != 3 or not all(np.isfinite(length) and length > 0 for length in given):
        raise ScanError(f"fov is one to three positive lengths in mm, not {fov}")
    return given[0], given[1], given[2]
