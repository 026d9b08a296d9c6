"""The gallery: every shipped pipeline has a picture of what it makes of a simulated scan, and still makes that."""

import re

import numpy as np
import pytest

import chains
import reference
import scans
import wire
from pictures import brain, panel, require_picture, tiles
from programs import SHIPPED, SOURCE, run_client, simulated_scan
from stopping import MAPS

FOLDER = SOURCE / "docs" / "pictures" / "pipelines"
HEAD = "--matrix 128 --coils 8"
SLICES = "--phantom ellipsoids_3d --matrix 64 --coils 8 --slices 24"
HEART = "--motion cardiac --matrix 64 --coils 8"
LINES = (f"--trajectory cartesian {HEART} --gating free --acceleration 4 --calibration-mode interleaved --frames 24 "
         "--tr-ms 3")  # fmt: skip
SPOKES = f"--trajectory golden_radial {HEART} --readouts 21 --frames 20 --tr-ms 3"
BALL = "--trajectory kooshball --phantom ellipsoids_3d --matrix 40 --coils 1 --contrasts 2 --readouts 1800 --samples 80"


def newest(images):
    return images[-1, 0, 0]


def inside(images):
    return brain(newest(images))


def planes(images):
    """Four of the newest volume, none near its ends."""
    count = images.shape[2]
    return tiles(images[-1, 0, count // 4 : count - count // 4])


def series(images):
    """Four of the series' second half: each image of some pipelines helps the next."""
    return tiles(images[len(images) // 2 :, 0, 0])


# Options of the simulator, and what is shown of the images [image, channel, z, y, x].
CASES = {
    "cartesian_2d": (f"--trajectory cartesian {HEAD}", inside),
    "cartesian_plain": (f"--trajectory cartesian {HEAD}", inside),
    "cartesian_3d": (f"--trajectory cartesian {SLICES}", planes),
    "cartesian_display": (f"--trajectory cartesian {HEAD}", inside),
    "cartesian_edges": (f"--trajectory cartesian {HEAD}", newest),
    "cartesian_grappa": (f"--trajectory cartesian {HEAD} --acceleration 3 --calibration 24 --noise 0.1", inside),
    "cartesian_sense": (f"--trajectory cartesian {HEAD} --acceleration 2 --calibration 24 --noise 0.1", inside),
    "cartesian_compressed_sensing": (f"--trajectory cartesian {HEAD} --acceleration 3 --sampling poisson "
                                     "--calibration 24", inside),
    "cartesian_cine": (f"--trajectory cartesian {HEART}", series),
    "cartesian_cine_ecg": (f"--trajectory cartesian {HEART} --gating retrospective --heart-rate 66", series),
    "cartesian_cine_low_rank": (f"--trajectory cartesian {HEART} --gating free --acceleration 4 --calibration-mode interleaved "
                                "--sweeps 80 --tr-ms 4 --noise 2", series),  # fmt: skip
    "lge_psir": (f"--trajectory cartesian {HEAD} --mapping psir", lambda images: newest(images) + 4),
    "cg_sense_cartesian_realtime": (LINES, series),
    "nlinv_cartesian": (LINES, series),
    "epi_2d": (f"--trajectory epi {HEAD} --ramp-us 200 --flat-us 400 --gradient-delay-us 3 --ghost 0.2", inside),
    "epi_timeseries": (f"--trajectory epi {SLICES} --acceleration 2 --calibration 24 --calibration-mode separate",
                       lambda images: planes(images.transpose(1, 2, 0, 3, 4))),
    "radial_2d": (f"--trajectory radial {HEAD} --readouts 201", inside),
    "radial_corrected": (f"--trajectory golden_radial {HEAD} --gradient-delays=-0.6:-0.65:0", inside),
    "radial_self_gated": ("--trajectory golden_radial --motion cardiac --matrix 64 --coils 4 --readouts 2400 --tr-ms 10 "
                          "--breathing-mm 20", newest),
    "radial_realtime": (SPOKES, series),
    "cg_sense_2d": (f"--trajectory golden_radial {HEAD} --readouts 55", inside),
    "cg_sense_realtime": (SPOKES, series),
    "grasp_2d": (SPOKES, series),
    "nlinv_realtime": (SPOKES, series),
    "spiral_2d": (f"--trajectory spiral {HEAD}", inside),
    "fhd_pcg_2d": (f"--trajectory golden_radial {HEAD}", inside),
    "fhd_pcg_3d": (BALL, planes),
    "kooshball_3d": (BALL, planes),
    "anatomical_multi_echo": (BALL, planes),
    "stack_of_stars": ("--trajectory stack_of_stars --phantom ellipsoids_3d --matrix 64 --coils 2 --readouts 101 "
                       "--partitions 8", planes),
    "ultrasound_plane_wave": ("--modality ultrasound --matrix 128 --depth-mm 20", newest),
    "ultrasound_compound": ("--modality ultrasound --matrix 128 --depth-mm 20 --angles 11", newest),
}  # fmt: skip


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """A function: the file of a scan by the simulator's options, made once."""
    folder, made = tmp_path_factory.mktemp("scans"), {}

    def simulated(options):
        if options not in made:
            path = folder / f"{len(made)}.h5"
            simulated_scan(path, *options.split())
            made[options] = path
        return made[options]

    return simulated


@pytest.mark.parametrize("name", CASES)
def test_a_scan(scan, tmp_path, name):
    options, shown = CASES[name]
    result = run_client("recon", scan(options), "-c", name, "-o", tmp_path / "images.h5", "--backend", "cpu")
    assert result.returncode == 0, result.stderr
    require_picture(f"pipelines/{name}", panel(shown(scans.read_images(tmp_path / "images.h5")[1])))


@pytest.mark.parametrize("name", MAPS)
def test_a_map(scan, tmp_path, name):
    """The map, and its standard deviations tenfold; refits before the last image are left out."""
    result = run_client("recon", scan(f"--trajectory cartesian {HEAD} --snr 50 --mapping {MAPS[name]}"), "-c", name, "-o",
                        tmp_path / "images.h5", "--backend", "cpu")  # fmt: skip
    assert result.returncode == 0, result.stderr
    value, deviation = (scans.read_images(tmp_path / "images.h5", series)[1][-1, 0, 0] for series in ("image_1", "image_7"))
    most = np.quantile(value[value > 0], 0.99)
    require_picture(f"pipelines/{name}", panel(np.hstack([value, 10 * deviation]), 0, most))


def images_of(server, name, header, messages):
    """Pixels [y, x] of the images of one plane that the pipeline gives for this stream."""
    return [image.pixels[0, 0] for image in chains.through(server, wire.config_file(name), header, messages).images]


def sent_image(plane):
    """The message of an image of 2 mm voxels."""
    y, x = plane.shape
    return wire.image(plane.astype("f4")[None, None], field_of_view=(2 * x, 2 * y, 2), image_type=1, image_index=1,
                      image_series_index=1, **wire.AXES)  # fmt: skip


@pytest.fixture(scope="module")
def head(scan):
    """The simulated head [y, x], as `brain` shows it."""
    return brain(np.abs(scans.read_array(scan(CASES["cartesian_2d"][0]), "truth")).reshape(128, 128))


@pytest.mark.parametrize("name", ["images_display", "images_invert", "passthrough"])
def test_an_image_that_is_sent(server, name, head):
    (image,) = images_of(server, name, wire.header("Dummy XML header"), [sent_image(head)])
    require_picture(f"pipelines/{name}", panel(image))


def test_an_image_with_noise(server, head):
    """The left half as it is sent, the right half as it comes back."""
    noisy = head + 0.05 * np.random.default_rng(1).standard_normal(head.shape)
    (image,) = images_of(server, "images_denoise", wire.header("Dummy XML header"), [sent_image(noisy)])
    require_picture("pipelines/images_denoise", panel(np.hstack([noisy[:, :64], image[:, 64:]])))


def test_readouts_and_an_image(server, scan, head):
    header, *readouts = scans.read_messages(scan(CASES["cartesian_edges"][0]))
    sent, made = images_of(server, "cartesian_and_images", header, [sent_image(1 - head), *readouts])
    require_picture("pipelines/cartesian_and_images", panel(sent), panel(brain(made)))


def test_magnitude_and_phase(server, head):
    y, x = (np.mgrid[:128, :128] - 64) / 64
    image = head * np.exp(1.2j * (1 + np.sin(2 * x) - y**2)) + 1e-3
    kspace = reference.spectrum(image)
    made = scans.cartesian(kspace[None, None])
    phase, magnitude = images_of(server, "cartesian_magnitude_phase", wire.header(made.xml), made.messages)
    require_picture("pipelines/cartesian_magnitude_phase", panel(magnitude), panel(phase, -np.pi, np.pi))


@pytest.mark.parametrize("name", ["cg_sense_sms", "nlinv_sms"])
def test_slices_excited_at_once(server, scan, name):
    """Spokes of number 0 are the sum of two slices', those of number 1, at other angles, their difference."""
    _, heads, k, data = scans.read_acquisitions(scan(f"--trajectory radial {SLICES} --readouts 64"))
    spokes = [[i for i, each in enumerate(heads) if each["idx"]["slice"] == wanted] for wanted in (9, 15)]
    messages = []
    for i, (upper, lower) in enumerate(zip(*spokes)):
        flags = wire.FIRST_IN_SLICE * (i == 0) | wire.LAST_IN_SLICE * (i == 63)
        both = data[upper] + (-1) ** i * data[lower]
        messages.append(wire.acquisition(both, k[upper], flags, i // 2, counter=i, step2=i % 2))
    images = images_of(server, name, wire.header(scans.header_xml("radial", (64, 64, 2), readouts=32)), messages)
    require_picture(f"pipelines/{name}", *map(panel, images))


def test_a_field_that_is_off(server, scan):
    """A spiral of 20 us a sample in a field that varies by 160 Hz to either side, without a map and with it."""
    path = scan("--trajectory spiral --phantom ellipsoids_3d --matrix 64 --coils 1")
    _, heads, k, data = scans.read_acquisitions(path)
    truth = np.abs(scans.read_array(path, "truth")).squeeze()
    y, x = np.mgrid[:64, :64] - 32
    hz = 160 * np.sin(x / 16 + (y / 32) ** 2)
    inside = truth > 0
    seconds = 20e-6 * np.arange(data[0].shape[1])[:, None]
    messages = []
    for i, points in enumerate(k):
        phase = seconds * hz[inside] - points[:, :1] * x[inside] - points[:, 1:2] * y[inside]
        flags = wire.FIRST_IN_SLICE * (i == 0) | wire.LAST_IN_SLICE * (i == len(k) - 1)
        samples = [np.exp(2j * np.pi * phase) @ truth[inside]]
        messages.append(wire.acquisition(samples, points, flags, i, center=0, sample_time_us=20, counter=i))
    header = wire.header(scans.header_xml("spiral", (64, 64, 1), readouts=len(k)))
    blurred = images_of(server, "spiral_2d", header, messages)
    field = wire.image(hz.astype("f4")[None, None], "field_map")
    sharp = images_of(server, "spiral_off_resonance", header, [field, *messages])
    require_picture("pipelines/spiral_off_resonance", *map(panel, blurred + sharp))


def test_every_pipeline_has_a_picture_that_pages_show():
    shipped = {each.stem for each in SHIPPED.glob("*.yaml")}
    assert {each.stem for each in FOLDER.glob("*.png")} == shipped
    for page in ("gallery.md", "which-pipeline.md"):
        shown = set(re.findall(r"!\[(\w+)\]\(pictures/pipelines/\1\.png\)", (SOURCE / "docs" / page).read_text()))
        assert shown == shipped, page
