"""Numbers in other units than the package's are warned of, and those in the package's are not."""

import warnings

import numpy as np
import pytest

import echotrain

MATRIX, FOV_MM = 64, 320.0  # voxels of 5 mm


def spokes(reach):
    angles, along = np.pi * np.arange(8) / 8, (np.arange(64) - 32) / 32 * reach
    return np.stack([np.outer(np.cos(angles), along), np.outer(np.sin(angles), along)], axis=-1)


def scan(trajectory, **options):
    return echotrain.from_array(np.ones((1, 8, 64), complex), trajectory, matrix=MATRIX, fov=FOV_MM, **options)


# What 0.5 cycles/pixel is in each unit: n/2 cycles in the field of view, pi, half a cycle in 5 mm.
REACH = {"cycles_per_pixel": 0.5, "cycles_per_fov": MATRIX / 2, "radians_per_pixel": np.pi, "cycles_per_m": 100.0}


@pytest.mark.parametrize("unit", REACH)
def test_a_trajectory_in_its_unit_is_not_warned_of(unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for share in (1, 0.1):  # the middle of k-space alone is a scan, too
            scan(spokes(share * REACH[unit]), trajectory_unit=unit)


@pytest.mark.parametrize("unit", [each for each in REACH if each != "cycles_per_pixel"])
def test_a_trajectory_in_another_unit_is_warned_of_with_the_unit(unit):
    with pytest.warns(echotrain.ScanWarning, match="reaches .* cycles/pixel, and the band ends at 0.5") as told:
        scan(spokes(REACH[unit]))
    assert f"trajectory_unit='{unit}' makes it 0.5" in str(told[0].message)
    assert told[0].filename == __file__  # where the caller stands


def test_a_trajectory_that_was_scaled_twice_is_warned_of():
    with pytest.warns(echotrain.ScanWarning, match="less than one line.*'cycles_per_pixel' makes it 0.5"):
        scan(spokes(0.5), trajectory_unit="cycles_per_fov")


@pytest.mark.parametrize(("fov", "told"), [(0.256, "in metres.*256"), (0.3, "in metres.*300"), (256000, "in mm")])
def test_a_field_of_view_in_other_units(fov, told):
    with pytest.warns(echotrain.ScanWarning, match=told):
        echotrain.from_array(np.ones((1, 8, 8), complex), fov=fov)
    with pytest.warns(echotrain.ScanWarning, match=told):
        echotrain.Header(matrix=(8, 8, 1), fov=(fov, fov, fov / 64))


@pytest.mark.parametrize(("time", "told"), [(5e-6, "in seconds.*as 5$"), (5000, "in nanoseconds.*as 5$")])
def test_a_dwell_time_in_other_units(time, told):
    with pytest.warns(echotrain.ScanWarning, match=told):
        echotrain.Acquisition(np.ones((1, 8)), sample_time_us=time)


def test_usual_numbers_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fov in (4, 256, (500, 500, 1000)):
            echotrain.from_array(np.ones((1, 8, 8), complex), fov=fov)
        echotrain.Header(matrix=(8, 8, 1), fov=(200, 200, 0.5))  # thin slices
        for time in (0, 0.05, 2.5, 30, 500):
            echotrain.Acquisition(np.ones((1, 8)), sample_time_us=time)


def test_half_a_voxel_is_refused():
    with pytest.raises(echotrain.ScanError, match="whole ones, not 64.5"):
        echotrain.from_array(np.ones((1, 8, 64), complex), spokes(0.5), matrix=64.5)
