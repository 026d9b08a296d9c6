"""Simulated EPI with an odd/even phase that varies over the image, through the TCP server, with `dual_polarity`.

The truth is the object's exact k-space, transformed. Two fits follow each other: reversed lines from their neighbours,
then GRAPPA's from all. Each misses about as much as the one of a scan without faults, so that the error may be twice
that; what navigators tell leaves ten times as much.
"""

import h5py
import numpy as np
import pytest

import reference
import scans
from programs import plain_variant, simulated_scan

SCAN = "--trajectory epi --coils 12 --ramp-us 150 --flat-us 100 --acceleration 2 --calibration-mode separate"
SMALL = "--matrix 32 --calibration 24 --references dual"
LATE = "--gradient-delay-us 3.4 --ghost 0.2"
# In the branch for accelerated scans, which has no options of its own.
ON = ("  - epi_phase_correction\n", "  - epi_phase_correction: {dual_polarity: true}\n")


def simulated(folder, options):
    return simulated_scan(folder / "scan.h5", *SCAN.split(), *options.split())


def image_of(server, folder, backend, scan, *changes):
    """NRMSE of the image, and what the server said."""
    config = folder / "epi.yaml"
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}"), *changes))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    (pixels,) = (np.asarray(image, float).squeeze() for image in scans.read_images(folder / "images.h5")[1])
    (folder / "images.h5").unlink()
    return reference.nrmse(pixels, scans.read_array(scan, "truth")), result.stderr


@pytest.mark.parametrize("options", ["--matrix 48 --calibration 32", "--matrix 32 --calibration 24 --shots 2"])
def test_a_phase_that_is_no_straight_line_is_taken_out(server, backend, tmp_path, options):
    clean, _ = image_of(server, tmp_path, backend, simulated(tmp_path, options))
    scan = simulated(tmp_path, f"{options} {LATE} --references dual --ghost-wave 0.8")
    linear, _ = image_of(server, tmp_path, backend, scan)
    error, said = image_of(server, tmp_path, backend, scan, ON)
    print(f"without faults {clean:.4f}, linear {linear:.4f}, dual polarity {error:.4f}")
    assert "warning" not in said.lower(), said
    assert linear > 5 * clean
    assert error < 2 * clean


def test_the_field_may_drift_between_both_trains(server, backend, tmp_path):
    """All of the second train, its phase-correction lines with it, is turned by what spins precess more."""
    clean, _ = image_of(server, tmp_path, backend, simulated(tmp_path, "--matrix 48 --calibration 32"))
    scan = simulated(tmp_path, f"--matrix 48 --calibration 32 {LATE} --references dual --ghost-wave 0.8")
    with h5py.File(scan, "a") as file:
        data = file["dataset/data"][:]
        lines = [i for i, head in enumerate(data["head"]) if int(head["flags"]) >> 19 & 1]
        for i in range(lines[len(lines) // 2] - 3, lines[-1] + 1):  # from its phase-correction lines on
            turned = data["data"][i].view(np.complex64) * np.complex64(np.exp(0.6j))
            data["data"][i] = turned.view(np.float32)
        file["dataset/data"][...] = data
    error, said = image_of(server, tmp_path, backend, scan, ON)
    print(f"without faults {clean:.4f}, with a drift between the references {error:.4f}")
    assert "warning" not in said.lower(), said
    assert error < 2 * clean


def without(scan, drop):
    """Leaves out of the file reference lines (flag 20) for which `drop`(line, reversed) is true."""
    with h5py.File(scan, "a") as file:
        data = file["dataset/data"][:]
        keep = []
        for i, head in enumerate(data["head"]):
            flags = int(head["flags"])
            line, backwards = int(head["idx"]["kspace_encode_step_1"]), bool(flags >> 21 & 1)
            if not (flags >> 19 & 1 and drop(line, backwards)):
                keep.append(i)
        del file["dataset/data"]
        file["dataset"].create_dataset("data", data=data[keep], dtype=data.dtype, maxshape=(None,))


@pytest.mark.parametrize(
    "drop, text",
    [
        (lambda line, backwards: backwards, "all of its 24 reference lines were read forward"),
        (lambda line, backwards: line >= 14 and backwards,
         "of its 24 different reference lines 10 came both ways, 10 of them without a gap"),
        (lambda line, backwards: line % 4 == 1 and backwards, "18 came both ways, 3 of them without a gap"),
    ],
    ids=["one way", "too few", "gaps"],
)  # fmt: skip
def test_references_that_do_not_do_are_told_of(server, backend, tmp_path, drop, text):
    scan = simulated(tmp_path, f"{SMALL} {LATE}")
    without(scan, drop)
    linear, _ = image_of(server, tmp_path, backend, scan)
    error, said = image_of(server, tmp_path, backend, scan, ON)
    assert "dual_polarity is not done for slice 0" in said and text in said, said
    assert "corrected by the navigators' phase alone" in said
    assert error < 1.1 * linear + 1e-3


def test_lines_of_one_direction_at_an_end_are_not_used(server, backend, tmp_path):
    scan = simulated(tmp_path, f"{SMALL} {LATE}")
    without(scan, lambda line, backwards: line >= 24 and backwards)
    linear, _ = image_of(server, tmp_path, backend, scan)
    error, said = image_of(server, tmp_path, backend, scan, ON)
    assert "dual_polarity takes 20 of 24 reference lines" in said, said
    assert "is not done" not in said, said
    assert error < 2 * linear


def test_scans_without_references_go_the_poorer_way(server, backend, tmp_path):
    scan = tmp_path / "scan.h5"
    simulated_scan(scan, "--trajectory", "epi", "--matrix", 32, "--coils", 2, "--ghost", 0.2)
    linear, _ = image_of(server, tmp_path, backend, scan)
    error, said = image_of(server, tmp_path, backend, scan, ("dual_polarity: false", "dual_polarity: true"))
    assert "no reference lines came before its first line" in said, said
    assert error == linear


SLICES = ("--trajectory epi --phantom ellipsoids_3d --matrix 48 --coils 16 --ramp-us 150 --flat-us 100 --multiband 2 "
          "--fov-shift 2 --slices 4 --calibration 24 --calibration-mode separate --partial-fourier 0.75 --frames 2")  # fmt: skip


def slices_of(server, folder, backend, options, *changes):
    """NRMSE of each image of simultaneous slices, and what the server said."""
    scan, config = folder / "scan.h5", folder / "epi.yaml"
    simulated_scan(scan, *SLICES.split(), *options.split())
    config.write_text(plain_variant("epi_timeseries", ("backend: auto", f"backend: {backend}"), *changes, completes=True))
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, pixels = scans.read_images(folder / "images.h5")
    truth = scans.read_array(scan, "truth")
    found = [reference.nrmse(np.asarray(p, float).squeeze(), truth[int(h["slice"])]) for h, p in zip(heads, pixels)]
    assert len(found) == 8
    (folder / "images.h5").unlink()
    return found, result.stderr


@pytest.mark.parametrize("more, change", [("", ("dual_polarity: false", "dual_polarity: true")),
                                          ("--acceleration 2", ON)])  # fmt: skip
def test_simultaneous_slices_with_partial_fourier(server, backend, tmp_path, more, change):
    """Slices at once, lines left out at the end of k-space, and a phase that no navigator tells, all in one scan: kernels of
    both directions leave what those of one direction leave of a scan without faults."""
    clean, _ = slices_of(server, tmp_path, backend, more)
    faults = f"{more} {LATE} --references dual --ghost-wave 0.8"
    linear, _ = slices_of(server, tmp_path, backend, faults)
    found, said = slices_of(server, tmp_path, backend, faults, change)
    print(f"without faults {max(clean):.4f}, linear {max(linear):.4f}, dual polarity {max(found):.4f}")
    assert "warning" not in said.lower(), said
    assert max(found) < 1.1 * max(clean)
    # With R = 2, slices are hard to tell apart anyway: the simulator's coils are alike in all.
    assert min(linear) > (1.3 if more else 3) * max(found)
