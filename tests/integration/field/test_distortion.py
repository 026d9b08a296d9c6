"""Simulated EPI in a field that is off, through the TCP server: distortion_correction brings the object back.

The simulator's k-space is exact: a field that rises along y moves k-space along it, so that the image is stretched.
"""

import numpy as np
import pytest

import reference
import scans
from programs import Server, ends_well, plain_variant, simulated_scan

ismrmrd = pytest.importorskip("ismrmrd")

MATRIX, SPACING_US = 64, 400.0  # ramps and flat part
OPTIONS = f"--trajectory epi --matrix {MATRIX} --ramp-us 100 --flat-us 200 --coils 4"


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    y, x = (np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2) / MATRIX
    for name, hz in {"uniform": np.full_like(x, 130.0), "across": 60 + 250 * y + 120 * x}.items():
        dataset = ismrmrd.Dataset(folder / f"{name}.h5", "dataset", create_if_needed=True)
        dataset.append_image("map", ismrmrd.Image.from_array(hz.astype("f4")[None, None], transpose=False))
        dataset.close()
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory, assets):
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--assets", assets, "--backend", "cpu"))


def image_of(server, folder, options, correction=""):
    scan, config = folder / "scan.h5", folder / "epi.yaml"
    scan.unlink(missing_ok=True)
    simulated_scan(scan, *OPTIONS.split(), *options.split())
    combine = "  - coil_combine: {method: rss}"
    config.write_text(plain_variant("epi_2d", (combine, f"{correction}{combine}")) if correction else plain_variant("epi_2d"))
    images = folder / "images.h5"
    images.unlink(missing_ok=True)
    result = server.send(scan, config, images)
    assert result.returncode == 0, result.stderr
    return np.asarray(scans.read_images(images)[1][0], float).squeeze()


@pytest.mark.parametrize("name, options, least, most", [
    # The object's edges hold the highest frequencies of the band, of which eight taps lose some.
    ("uniform", "--b0-hz 130", 0.3, 0.1),
    ("across", "--b0-hz 60 --b0-across-y-hz 250 --b0-across-x-hz 120", 0.3, 0.1),
])  # fmt: skip
def test_the_object_comes_back(served, tmp_path, name, options, least, most):
    truth = image_of(served, tmp_path, "")
    distorted = image_of(served, tmp_path, options)

    def corrected(more=""):
        gadget = f"  - distortion_correction: {{file: {name}.h5, line_interval_us: {SPACING_US}{more}}}\n"
        return reference.nrmse(image_of(served, tmp_path, options, gadget), truth)

    before, after, wrong = reference.nrmse(distorted, truth), corrected(), corrected(", order: descending")
    assert before > least, before
    assert after < most, (before, after)
    assert wrong > before, (before, wrong)
    if name == "across":  # it is stretched by a tenth, which costs a tenth of the brightness
        assert corrected(", modulate: false") > after + 0.03
