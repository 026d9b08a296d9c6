"""Pairs of EPI scans of opposite blips through the TCP server: blip_up_down brings the object back, without a field map.

The simulator's k-space is exact: a field that varies moves k-space along y by what is known. Measured pairs have no truth
but that both images of one phantom have to agree.
"""

import re

import numpy as np
import pytest

import reference
import scans
import wire
from programs import measured, plain_variant, simulated_scan

MATRIX = 64
OPTIONS = f"--trajectory epi --matrix {MATRIX} --ramp-us 100 --flat-us 200 --coils 4"
FIELD = "--b0-across-y-hz 250 --b0-across-x-hz 120"
COMBINE = "  - coil_combine: {method: rss}"


def together(path, *files):
    """One scan whose repetitions are the scans of the files."""
    messages = []
    for repetition, file in enumerate(files):
        messages += [wire.changed(message, repetition=repetition) for message in scans.read_messages(file)[1:]]
    xml = re.sub(r"(<repetition>\s*<minimum>0</minimum>\s*<maximum>)0", rf"\g<1>{len(files) - 1}",
                 scans.read_acquisitions(files[0])[0])  # fmt: skip
    scans.Scan(xml, messages).save(path)
    return path


def images_of(server, scan, folder, correction):
    config, images = folder / "epi.yaml", folder / "images.h5"
    config.write_text(plain_variant("epi_2d", (COMBINE, f"{correction}{COMBINE}")))
    images.unlink(missing_ok=True)
    result = server.send(scan, config, images)
    assert result.returncode == 0, result.stdout + result.stderr
    return np.asarray(scans.read_images(images)[1], float)[:, 0, 0]


def simulate(path, *options):
    return simulated_scan(path, *OPTIONS.split(), *" ".join(options).split())


def test_the_object_comes_back_from_a_pair(server, tmp_path):
    truth = images_of(server, simulate(tmp_path / "held.h5"), tmp_path, "")[0]
    up, down = simulate(tmp_path / "up.h5", FIELD), simulate(tmp_path / "down.h5", FIELD, "--reverse-blips")
    pair = together(tmp_path / "pair.h5", up, down, up)
    plain = images_of(server, pair, tmp_path, "")
    corrected = images_of(server, pair, tmp_path, "  - blip_up_down\n")
    before, after = ([reference.nrmse(image, truth) for image in some] for some in (plain, corrected))
    print("before", " ".join(f"{error:.3f}" for error in before), "after", " ".join(f"{error:.3f}" for error in after))
    assert len(corrected) == 3 and min(before) > 0.3
    # What a field map that is known leaves of sharp edges in such a field: below 0.1 (test_distortion). Edges that are
    # moved by the smoothness, 1 % of some 6 voxels, differ in 0.06 of a voxel.
    assert max(after) < 0.15


@pytest.mark.parametrize("name", ["ro1200", "ro240", "ramp96"])
def test_measured_pairs_agree(server, name, tmp_path):
    files = [measured(f"epi_pulseq_pe_polarity/{name}_{way}.h5") for way in ("forward", "reversed")]
    pair = together(tmp_path / "pair.h5", *files)
    plain, corrected = (images_of(server, pair, tmp_path, step) for step in ("", "  - blip_up_down\n"))

    def difference(images):
        return np.linalg.norm(images[0] - images[1]) / np.linalg.norm(images.mean(0))

    print(f"{name}: difference {difference(plain):.3f}, corrected {difference(corrected):.3f}")
    assert difference(corrected) < 0.75 * difference(plain)
