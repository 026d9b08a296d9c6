"""Arrays in files of other programs, lines that were not measured, and scans written as files."""

import h5py
import numpy as np
import pytest

import echotrain
from echotrain import layout
from echotrain.__main__ import main
from echotrain.sampling import Lattice, lattice_of


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal((*shape, 2)).astype(np.float32).view(np.complex64)[..., 0]


def write_mat5(path, **arrays):
    pytest.importorskip("scipy.io").savemat(path, arrays)


def write_mat73(path, **arrays):
    """As MATLAB does: indices reversed, complex values as pairs, groups of its own."""
    with h5py.File(path, "w") as file:
        file.create_group("#refs#")
        for name, values in arrays.items():
            values = np.asarray(values).T
            if np.iscomplexobj(values):
                pairs = np.empty(values.shape, [("real", "<f4"), ("imag", "<f4")])
                pairs["real"], pairs["imag"] = values.real, values.imag
                values = pairs
            file[name] = values


def write_nifti(path, kspace):
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(nibabel.Nifti1Image(kspace, np.eye(4)), str(path))


@pytest.mark.parametrize("write, name", [(write_mat5, "k.mat"), (write_mat73, "k.mat"), (None, "k.npy"), (None, "k.cfl"),
                                         (None, "k.nii.gz")])  # fmt: skip
def test_an_array_is_the_same_from_every_file(write, name, tmp_path):
    kspace, path = noise(6, 5, 1, 3), tmp_path / name
    if write is not None:
        write(path, kspace=kspace, mask=np.ones((6, 5)))
    elif name == "k.npy":
        np.save(path, kspace)
    elif name == "k.cfl":
        echotrain.write_cfl(path, kspace)
    else:
        write_nifti(path, kspace)
    np.testing.assert_array_equal(echotrain.read_array(path), kspace)
    if name == "k.cfl":
        return  # test_scans.py
    scan = echotrain.from_array(str(path), axes="sample line partition coil", fov=(60, 50))
    count = echotrain.write_scan(tmp_path / "scan.h5", scan)
    back = echotrain.Hdf5Scan(tmp_path / "scan.h5")
    assert (count, back.readouts, back.xml) == (5, 5, scan.xml)
    for line, readout in enumerate(back):
        np.testing.assert_array_equal(readout.data, kspace[:, line, 0].T)
        assert int(readout.head["idx"]["kspace_encode_step_1"]) == line


def test_a_trajectory_is_written_with_the_scan(tmp_path):
    kspace, k = noise(2, 70, 8), np.random.default_rng(2).random((70, 8, 2)) - 0.5
    scan = echotrain.from_array(kspace, k, matrix=8)
    assert echotrain.write_scan(tmp_path / "scan.h5", scan) == 70  # more than are read or written at once
    for line, readout in enumerate(echotrain.Hdf5Scan(tmp_path / "scan.h5")):
        np.testing.assert_array_equal(readout.trajectory, k[line].astype(np.float32))
        np.testing.assert_array_equal(readout.data, kspace[:, line])


# x is measured. What lies between is told by hand.
@pytest.mark.parametrize("pattern, wanted", [
    ("xxxxxxxx", Lattice()),
    ("...xxxxx", Lattice()),  # partial Fourier
    ("x.x.x.x.", Lattice(2, 0)),
    (".x.x.x.x", Lattice(2, 1)),
    ("x..x..x..x..", Lattice(3, 0)),
    ("x.x.xxxx.x.x.x.", Lattice()),  # the block does not fit both sides
    ("x.x.xxxxx.x.x.x", Lattice(2, 0, (5, 8))),
    ("....x.xxx.x.x.x", Lattice(2, 0, (7, 8))),  # with partial Fourier
    (".x...x.xxxxx.x...x..", Lattice(4, 1, (7, 12))),
    ("x.xx...x.x..xxx.x.", Lattice()),  # at random
])  # fmt: skip
def test_the_lattice_of_lines(pattern, wanted):
    assert lattice_of(np.array([c == "x" for c in pattern])) == wanted


def test_lines_of_zeros_are_not_sent():
    kspace = noise(2, 3, 32, 8)  # repetition, coil, line, sample
    kept = np.zeros(32, bool)
    kept[::2] = kept[12:21] = True
    kspace[:, :, ~kept] = 0
    scan = echotrain.from_array(kspace)
    header, readouts = echotrain.Header.parse(scan.xml), list(scan.items)
    assert (header.matrix, header.acceleration, header.calibration) == ((8, 32, 1), (2, 1), "embedded")
    assert scan.readouts == len(readouts) == 2 * kept.sum()
    lines = [int(readout.head["idx"]["kspace_encode_step_1"]) for readout in readouts]
    assert lines == [*np.flatnonzero(kept), *np.flatnonzero(kept)]
    for readout, line in zip(readouts, lines):
        block = 12 <= line < 21
        first_last = (layout.FIRST_IN_SLICE if line == 0 else 0) | (layout.LAST_IN_SLICE if line == 30 else 0)
        reference = (layout.REFERENCE if line % 2 else layout.REFERENCE_AND_IMAGE) if block else 0
        assert readout.flags == first_last | reference
    spokes = np.where(kept[:, None], noise(32, 8), 0)  # with a trajectory all is data
    assert echotrain.from_array(spokes, np.zeros((32, 8, 2)), matrix=8).readouts == 32


def test_partitions_have_a_lattice_too():
    kspace = noise(1, 2, 12, 16, 8)  # repetition, coil, partition, line, sample
    lattice = np.outer(np.arange(12) % 3 == 0, np.arange(16) % 2 == 0)
    lattice[3:9, 4:12] = True
    kspace[:, :, ~lattice] = 0
    scan = echotrain.from_array(kspace)
    assert echotrain.Header.parse(scan.xml).acceleration == (2, 3)
    flags = {readout.flags & ~(layout.FIRST_IN_SLICE | layout.LAST_IN_SLICE) for readout in scan.items}
    assert flags == {0, layout.REFERENCE, layout.REFERENCE_AND_IMAGE}
    kspace[0, :, 1, 1] = 1  # a point beside both
    assert echotrain.Header.parse(echotrain.from_array(kspace).xml).acceleration == (1, 1)


def test_images_become_cfl(tmp_path):
    images = [echotrain.Image(noise(1, 1, 4, 6, seed=10 * s + r), slice=s, repetition=r) for s in range(2) for r in range(3)]
    echotrain.write_images(tmp_path / "images.h5", images)
    assert main(["convert", str(tmp_path / "images.h5"), str(tmp_path / "images.cfl")]) == 0
    array = echotrain.read_cfl(tmp_path / "images")
    assert array.shape == (6, 4, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 2)
    for image in images:
        at = int(image.head["repetition"]), int(image.head["slice"])
        np.testing.assert_array_equal(array[:, :, 0, 0, 0, 0, 0, 0, 0, 0, at[0], 0, 0, at[1]].T, image.data[0, 0])


def bad_value(where):
    values = noise(2, 4, 8)
    values[1, 2, 3] = where
    return values


@pytest.mark.parametrize("arguments, options, told", [
    ((np.zeros((2, 4, 8)),), {}, "must be complex"),
    ((np.zeros((2, 4, 8), complex),), {}, "zeros only"),
    ((bad_value(np.nan),), {}, "not finite, first in line 2"),
    ((bad_value(np.inf),), {}, "not finite"),
    ((noise(2, 4, 8), np.full((4, 8, 2), np.nan)), {"matrix": 8}, "the trajectory has numbers that are not finite"),
    ((noise(2, 4, 8),), {"axes": "line sample"}, "do not name the 3 axes"),
    ((noise(2, 4, 8),), {"axes": "coil row sample"}, "do not name the 3 axes"),
    (("no_such.mat",), {}, "there is no such file"),
    (("no_such.txt",), {}, "k-space is an array, or a file of"),
    (([1, 2],), {}, "k-space is an array"),
])  # fmt: skip
def test_what_is_no_scan_is_said(arguments, options, told):
    with pytest.raises(echotrain.ScanError, match=told):
        echotrain.from_array(*arguments, **options)


def test_variables_are_named(tmp_path, capsys):
    path = tmp_path / "two.mat"
    write_mat73(path, a=noise(4, 8), b=noise(4, 8))
    with pytest.raises(echotrain.ScanError, match=r"which array\? Name the variable, one of: a \(4, 8\), b \(4, 8\)"):
        echotrain.read_array(path)
    with pytest.raises(echotrain.ScanError, match="has no array 'c'"):
        echotrain.read_array(path, "c")
    assert main(["convert", str(path), str(tmp_path / "scan.h5"), "--variable", "b", "--fov", "100"]) == 0
    assert echotrain.Hdf5Scan(tmp_path / "scan.h5").readouts == 4
    assert main(["convert", str(path), str(tmp_path / "scan.npy"), "--variable", "b"]) == 1
    assert "end it with .h5" in capsys.readouterr().err
    (tmp_path / "torn.mat").write_bytes(b"MATLAB 5.0" + bytes(200))
    assert main(["convert", str(tmp_path / "torn.mat"), str(tmp_path / "no.h5")]) == 1
    assert "cannot be read" in capsys.readouterr().err
