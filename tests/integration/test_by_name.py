"""Every shipped pipeline by its name through a server of each backend: the image is the object that was simulated.

Tolerances are the accuracy of each way from so few samples (the other tests go into each); the Cartesian ones are exact.
A display image is compared after the best factor, and turned back by its own directions; edges are compared with those of
the object.
"""

import dataclasses

import numpy as np
import pytest

import reference
import scans
from programs import SHIPPED, Server, run_client

HEART = "--trajectory cartesian --motion cardiac --coils 1"
BALL = "--trajectory kooshball --phantom ellipsoids_3d --matrix 24 --readouts 1810 --samples 72"


@dataclasses.dataclass
class Case:
    options: str  # of the simulator
    tolerance: float  # NRMSE
    images: int = 1
    scaled: bool = False
    edges: bool = False


CASES = {
    "cartesian_2d": Case("--trajectory cartesian --matrix 48 --coils 4 --frames 2", 1e-5, 2),
    "cartesian_display": Case("--trajectory cartesian --matrix 48 --coils 4", 2e-3, scaled=True),
    "cartesian_edges": Case("--trajectory cartesian --matrix 47 --coils 4 --frames 2", 1e-5, 2, edges=True),
    "cartesian_3d": Case("--trajectory cartesian --matrix 40 --coils 2 --slices 16", 1e-5),
    "cartesian_cine": Case(f"{HEART} --matrix 64 --readouts 48 --heart-rate 500 --tr-ms 7.9", 0.05, 13),
    "cartesian_cine_ecg": Case(f"{HEART} --gating retrospective --matrix 48 --heart-rate 66", 0.05, 13),
    "radial_2d": Case("--trajectory radial --matrix 48 --coils 4", 0.04),
    "radial_realtime": Case("--trajectory golden_radial --matrix 32 --coils 4 --readouts 75", 0.06, 5),
    "spiral_2d": Case("--trajectory spiral --matrix 48 --coils 4 --samples 400", 0.04),
    "stack_of_stars": Case("--trajectory stack_of_stars --matrix 32 --coils 3 --readouts 89", 0.04),
    "kooshball_3d": Case(f"{BALL} --coils 2", 0.02),
    "cg_sense_2d": Case("--trajectory golden_radial --matrix 48 --coils 4 --readouts 144", 0.08),
    "fhd_pcg_2d": Case("--trajectory golden_radial --matrix 48 --coils 4 --readouts 144", 0.07),
    "fhd_pcg_3d": Case(f"{BALL} --coils 2", 0.05),
    "anatomical_multi_echo": Case(f"{BALL} --coils 1 --contrasts 2", 0.1, 2),
}
ULTRASOUND = {"ultrasound_plane_wave": "--angles 1", "ultrasound_compound": "--angles 5 --angle-span 24"}
ELSEWHERE = {"passthrough"}  # takes images; tested in test_end_to_end


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def served(request, tmp_path_factory):
    """A server of one backend."""
    if request.param == "cuda":
        request.getfixturevalue("cuda")
    server = Server(tmp_path_factory.mktemp("server"), "--backend", request.param)
    yield server, request.param
    assert server.stop() == 0, server.text()


def images_of(served, name, scan, folder):
    server, backend = served
    result = server.send(scan, name, folder / "images.h5")
    assert result.returncode == 0, result.stdout + result.stderr
    server.wait_for(rf"pipeline={name} backend={backend} ")
    return scans.read_images(folder / "images.h5")


def simulate(path, options):
    result = run_client("simulate", "-o", path, *options.split())
    assert result.returncode == 0, result.stderr
    return path


def turned_back(image, head):
    """A plane whose axes lie along the scanner's x and y, positive directions, as the simulator's truth."""
    directions = [np.asarray(head[name], float)[:2] for name in ("phase_dir", "read_dir")]
    if abs(directions[0][0]) > 0.5:
        image, directions = image.T, directions[::-1]
    return np.roll(image[:: int(directions[0][1]), :: int(directions[1][0])],
                   [int(directions[0][1] < 0), int(directions[1][0] < 0)], (0, 1))  # fmt: skip


def test_every_shipped_pipeline_is_here():
    assert {path.stem for path in SHIPPED.glob("*.yaml")} == {*CASES, *ULTRASOUND, *ELSEWHERE}


@pytest.mark.parametrize("name", CASES)
def test_the_image_is_the_object(served, tmp_path, name):
    case = CASES[name]
    scan = simulate(tmp_path / "scan.h5", case.options)
    heads, images = images_of(served, name, scan, tmp_path)
    assert len(images) == case.images
    for head, (image,) in zip(heads, images):
        series = int(head["contrast"]) or int(head["phase"])
        truth = scans.read_array(scan, f"truth_{series}" if series else "truth")
        if case.edges:
            truth = reference.sobel(truth)
        image, truth = image.astype(float), np.broadcast_to(truth, image.shape)
        if case.scaled:
            image = np.stack([turned_back(plane, head) for plane in image])
            image = image * reference.real_scale(image, truth)
        error = reference.nrmse(image, truth)
        assert error <= case.tolerance, f"NRMSE {error:.3g}"


@pytest.mark.parametrize("name", ULTRASOUND)
def test_the_points_are_in_the_image(served, tmp_path, name):
    """The brightest voxel near each simulated point is the point's own; far from all points the image is dark."""
    scan = simulate(tmp_path / "scan.h5", f"--modality ultrasound --phantom points --matrix 256 {ULTRASOUND[name]}")
    heads, images = images_of(served, name, scan, tmp_path)
    image, head = images[0][0, 0], heads[0]
    size = np.asarray(head["field_of_view"][:2], float) / image.shape[::-1]
    x, z = ((np.arange(256) - 128) * step + float(head["position"][i]) for i, step in enumerate(size))
    away = np.ones(image.shape, bool)
    for at in scans.read_array(scan, "scatterers"):
        distance = np.hypot(*np.meshgrid(x - at[0], z - at[1]))
        row, column = np.unravel_index(np.argmax(np.where(distance < 1, image, 0)), image.shape)
        assert abs(x[column] - at[0]) <= size[0] and abs(z[row] - at[1]) <= size[1]
        away &= distance > 4
    assert image.max() == pytest.approx(60, abs=1e-3) and image[away].max() < 30
