"""Scans as plots, where matplotlib is installed, and as a line of text."""

import builtins

import numpy as np
import pytest

import echotrain

KSPACE = np.arange(1, 1 + 2 * 6 * 8).reshape(2, 6, 8) * (1 + 0j)


@pytest.fixture
def pyplot(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot

    yield matplotlib.pyplot
    matplotlib.pyplot.close("all")


def test_a_trajectory_is_drawn_as_it_is_sent(pyplot):
    points = np.stack(np.meshgrid(np.linspace(-3, 3, 8), np.linspace(-2, 2, 6)), axis=-1)
    scan = echotrain.from_array(KSPACE, points, matrix=8, trajectory_unit="cycles_per_fov", noise=np.ones((2, 4), complex))
    axes = scan.plot()
    drawn = [np.transpose(line.get_data()) for line in axes.lines]
    np.testing.assert_allclose(drawn, points / 8, rtol=1e-6)  # sent as float32
    assert axes.get_xlabel() == "kx [cycles/pixel]" and "7 readouts, other, 8 x 8 voxels" in axes.get_title()


def test_lines_are_drawn_where_they_lie(pyplot):
    kspace = KSPACE.copy()
    kspace[:, 3] = 0  # not measured
    axes = pyplot.subplots()[1]
    assert echotrain.from_array(kspace).plot(axes) is axes
    drawn = np.asarray(axes.images[0].get_array())
    truth = np.sqrt((np.abs(kspace) ** 2).sum(axis=0))
    truth[3] = truth.max() / 1e4
    np.testing.assert_allclose(drawn, np.log10(truth), rtol=1e-6)


def test_volumes_show_which_lines_come(pyplot):
    kspace = np.zeros((1, 1, 4, 6, 8), complex)  # repetition, coil, partition, line, sample
    measured = [(0, 1), (2, 5), (3, 0)]
    for partition, line in measured:
        kspace[0, 0, partition, line] = 1
    drawn = np.asarray(echotrain.from_array(kspace).plot().images[0].get_array())
    assert drawn.shape == (4, 6) and [tuple(place) for place in np.argwhere(drawn)] == measured


def test_readouts_of_the_package_ismrmrd(pyplot):
    ismrmrd = pytest.importorskip("ismrmrd")
    points = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    readout = ismrmrd.Acquisition.from_array(np.ones((1, 2), np.complex64), points)
    scan = echotrain.Scan(echotrain.Header(matrix=(2, 2, 1), fov=(2, 2, 1)), [readout])
    np.testing.assert_array_equal(np.transpose(scan.plot().lines[0].get_data()), points)


def test_readouts_that_come_once_are_not_used_up(pyplot):
    header = echotrain.Header(matrix=(8, 6, 1), fov=(8, 6, 1))
    scan = echotrain.Scan(header, (echotrain.Acquisition(KSPACE[:, line]) for line in range(6)))
    with pytest.raises(echotrain.ScanError, match="make a list"):
        scan.plot()
    assert len(list(scan.items)) == 6
    with pytest.raises(echotrain.ScanError, match="no readout"):
        echotrain.Scan(header, []).plot()


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch):
    plain = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(echotrain.EchotrainError, match=r"pip install 'echotrain\[view\]'"):
        echotrain.from_array(KSPACE).plot()


def test_a_scan_says_what_it_is():
    assert repr(echotrain.from_array(KSPACE, fov=(80, 60))) == "<Scan: 6 readouts, cartesian, 8 x 6 voxels, 80 x 60 mm>"
    volume = echotrain.Header(matrix=(8, 6, 4), fov=(80, 60, 40), trajectory="radial")
    assert repr(echotrain.Scan(volume, iter([]))) == "<Scan: ? readouts, radial, 8 x 6 x 4 voxels, 80 x 60 x 40 mm>"
    assert repr(echotrain.Scan("Dummy XML header", [], 0)) == "<Scan: 0 readouts>"
