"""Maps over TCP: simulated vials of known T1, T2, T2*, ADC and field, against these values and the maps' own errors."""

import re

import numpy as np
import pytest

import chains
import scans
import wire
from programs import simulated_scan
from stopping import MAPS

CARTESIAN = ("--trajectory", "cartesian", "--matrix", 96, "--coils", 4)
TRUTH = {"t1_ir": "t1", "t1_sasha": "t1", "t2_map": "t2", "t2star_map": "t2star", "adc_map": "adc"}
VALUE, DEVIATION, FIELD, BEFORE = (f"image_{number}" for number in (1, 7, 9, 13))


def mapped(served, path, name, folder, *options):
    """The maps by series; a server that lags behind leaves out those before the last image."""
    done = served.send(path, name, folder / "images.h5", *options)
    assert done.returncode == 0, done.stderr
    maps = {series: scans.read_images(folder / "images.h5", series)[1][:, 0, 0].astype(float)
            for series in scans.series_of(folder / "images.h5")}  # fmt: skip
    assert {VALUE, DEVIATION} <= maps.keys() and (FIELD in maps) == (name == "t2star_map")
    return maps


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")

    def simulated(name, *options):
        path = folder / f"{name}{len(options)}.h5"
        if not path.exists():
            simulated_scan(path, *CARTESIAN, "--mapping", MAPS[name], *options)
        return path

    return simulated


def inside(truth, margin=2):
    """Voxels whose neighbours are of the same vial: the transform of a sampled edge rings."""
    alike = [truth == np.roll(truth, (y, x), (0, 1)) for y in range(-margin, margin + 1) for x in range(-margin, margin + 1)]
    return np.logical_and.reduce(alike) & (truth > 0)


@pytest.mark.parametrize("name", TRUTH)
def test_the_map_is_that_of_the_vials(served, scan, tmp_path, name):
    """Each vial's mean is within four of its standard errors, by the deviations that the map itself names, and 1 %."""
    path = scan(name, "--snr", 50, "--noise-scan")
    maps = mapped(served, path, name, tmp_path)
    truth = np.asarray(scans.read_array(path, f"truth_{TRUTH[name]}"), float).reshape(96, 96)
    within, vials = inside(truth), 0
    for value in np.unique(truth[within]):
        where = within & (truth == value) & (maps[VALUE][-1] > 0)
        if where.sum() < 0.9 * (within & (truth == value)).sum():
            continue  # masked: the times do not reach this vial's T
        vials += 1
        got, error = maps[VALUE][-1][where], maps[DEVIATION][-1][where]
        sure = np.sqrt(np.mean(error**2) / where.sum())
        assert got.mean() == pytest.approx(value, abs=4 * sure + 0.01 * value), value
        # Neighbours' noise is independent where the matrix is not interpolated; few voxels tell a deviation to 1/sqrt(2 n).
        assert got.std() == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.1 + 4 / np.sqrt(2 * where.sum())), value
    # Only T2 of which two echoes at most are above the noise may be masked.
    masked = [value for value in np.unique(truth[within]) if np.mean(maps[VALUE][-1][within & (truth == value)] > 0) < 0.9]
    assert vials >= 4 and all(name == "t2_map" and value < 18 for value in masked), masked
    if name == "t2star_map":
        field = np.asarray(scans.read_array(path, "truth_b0"), float).reshape(96, 96)
        off = (maps[FIELD][-1] - field)[within & (maps[VALUE][-1] > 0)]
        assert np.sqrt(np.mean(off**2)) < 2  # Hz: the deviation at the shortest T2*, SNR 50


def test_a_map_comes_before_the_last_image(served, scan, tmp_path):
    """Each further image refits the map; the complete one is the only one of its series."""
    # A third of a second an image, so that some fit finds no readout waiting.
    maps = mapped(served, scan("t1_ir", "--snr", 50), "t1_ir", tmp_path, "--rate", 300)
    assert len(maps[VALUE]) == len(maps[DEVIATION]) == 1 and len(maps[BEFORE]) >= 1


def test_molli_has_the_bias_of_its_method(served, scan, tmp_path):
    """The correction by T1* makes T1 of noiseless MOLLI, simulated by the Bloch equations, a little too short."""
    path = scan("t1_molli")
    maps = mapped(served, path, "t1_molli", tmp_path)
    truth = np.asarray(scans.read_array(path, "truth_t1"), float).reshape(96, 96)
    where = inside(truth) & (maps[VALUE][-1] > 0)
    part = maps[VALUE][-1][where] / truth[where]
    assert where.sum() > 100 and 0.8 < np.median(part[truth[where] > 200]) < 1


@pytest.mark.parametrize("error", ["residuals", "noise"])
def test_the_message_says_what_the_map_is(server, scan, error):
    """A scan with readouts of noise has errors by these."""
    header, *readouts = scans.read_messages(scan("t1_ir", "--snr", 50, *(["--noise-scan"] if error == "noise" else [])))
    images = chains.through(server, wire.config_file("t1_ir"), header, readouts).images
    notes = [dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)</value>", image.attributes)) for image in images]
    assert {note["map_quantity"] for note in notes} == {"T1"} and {note["map_unit"] for note in notes} == {"ms"}
    assert [note["map_statistic"] for note in notes][-2:] == ["value", "sd"]
    used, wanted = notes[-1]["map_images"].split("/")
    assert used == wanted and notes[-1]["map_error"] == error
    assert int(notes[-1].get("map_freedom", "0")) >= (error == "residuals")


def test_over_names_the_counter_of_sent_images_without_a_header(server):
    """Echoes counted by idx.set, which t2_map would take for images of five slices: exp(-t / 60 ms)."""
    times = [10, 20, 40, 80, 120]
    sent = [wire.image(np.full((1, 1, 8, 8), 1000 * np.exp(-t / 60), "f4"), image_type=1, set=n, image_index=n + 1, **wire.AXES)
            for n, t in enumerate(times)]  # fmt: skip
    config = chains.pipeline(f"t2_map: {{over: set, refit: false, times_ms: {times}}}", "image: {component: real, type: float}",
                             keys="input: images")  # fmt: skip
    images = chains.through(server, config, wire.header("Dummy XML header"), sent).images
    assert len(images) == 2  # the map and its standard deviations
    # Single precision holds the images to 6e-8; T2 is some ten times as uncertain.
    np.testing.assert_allclose(images[0].pixels, 60, rtol=1e-5)


def test_the_field_of_an_accelerated_scan_is_that_of_the_vials(served, scan, tmp_path):
    """Coils that each echo's own reference lines joined had a phase of their own: the field was off by 2 to 12 Hz."""
    path = scan("t2star_map", "--acceleration", 2, "--calibration", 24, "--snr", 100)
    maps = mapped(served, path, "t2star_map", tmp_path)
    truth, known = (np.asarray(scans.read_array(path, f"truth_{name}"), float).reshape(96, 96) for name in ("b0", "t2star"))
    where = inside(known, 1) & (maps[VALUE][-1] > 0)
    off = [np.mean((maps[FIELD][-1] - truth)[where & (truth == value)]) for value in np.unique(truth[where])]
    # At SNR 100 a voxel tells the field to some 2 Hz at the shortest T2*, 40 voxels to 0.3; the vials' rms is less.
    assert len(off) >= 4 and np.sqrt(np.mean(np.square(off))) < 0.3, off
