"""What shipped pipelines call finished: of scans of three quarters of their lines, whose axes are not a viewer's, each image is
completed, joined with its phase, turned, and in its series' scale; and each of these can fail here."""

import re
import shutil

import h5py
import numpy as np
import pytest

import reference
import scans
from programs import measured, simulated_scan, variant

PLAIN, HALF = "--trajectory cartesian --matrix 64 --coils 6 --frames 2", "--acceleration 2 --calibration 24"
HEART = "--trajectory cartesian --motion cardiac --gating retrospective --matrix 48 --heart-rate 66 --coils 3"
EPI = "--trajectory epi --matrix 64 --coils 6 --frames 2"
CASES = {
    "cartesian_2d": PLAIN,
    "cartesian_cine": PLAIN,
    "cartesian_cine_ecg": HEART,
    "epi_2d": EPI,
    "epi_timeseries": EPI,
    "cartesian_2d accelerated": f"{PLAIN} {HALF}",
    "cartesian_cine accelerated": f"{PLAIN} {HALF}",
    "cartesian_grappa accelerated": f"{PLAIN} {HALF}",
    "cartesian_sense accelerated": f"{PLAIN} {HALF}",
    "epi_2d accelerated": f"{EPI} {HALF} --calibration-mode separate",
    "epi_timeseries accelerated": f"{EPI} {HALF} --calibration-mode separate",
}
READ, PHASE, SLICE = (0, 1, 0), (-1, 0, 0), (0, 0, 1)  # of an axial slice: x to the back, y to the patient's right


def turned_scan(path, options, share):
    """A simulated scan with these directions, of the last `share` of its lines."""
    simulated_scan(path, *options.split(), *([] if options is HEART else ["--partial-fourier", share]))
    with h5py.File(path, "r+") as file:
        rows = file["dataset/data"][:]
        for name, direction in (("read_dir", READ), ("phase_dir", PHASE), ("slice_dir", SLICE)):
            rows["head"][name] = direction
        if options is HEART:
            rows = rows[rows["head"]["idx"]["kspace_encode_step_1"] >= 48 * (1 - share)]
        del file["dataset/data"]
        file["dataset"].create_dataset("data", data=rows, maxshape=(None,))
    return path


def images_of(served, scan, config, folder):
    result = served.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stdout + result.stderr
    heads, images = scans.read_images(folder / "images.h5")
    with h5py.File(folder / "images.h5") as file:
        texts = [text.decode() if isinstance(text, bytes) else text for text in file["dataset/image_1/attributes"][:]]
    notes = [dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)", text)) for text in texts]
    return heads, images[:, 0, 0].astype(float), notes


def error_of(images, wholes):
    """The mean NRMSE after each image's best factor."""
    return np.mean([reference.nrmse(image * reference.real_scale(image, whole), whole) for image, whole in zip(images, wholes)])


def without(folder, name, *gadgets):
    """The pipeline's file without these, and without `intensity`, whose field is that of the image."""
    path = folder / f"without_{'_'.join(gadgets)}.yaml"
    path.write_text(re.sub(rf"(?m)^  - ({'|'.join((*gadgets, 'intensity'))})\b.*\n", "", variant(name)))
    return path


@pytest.mark.parametrize("case", CASES)
def test_the_image_is_finished(served, backend, tmp_path, case):
    name = case.split()[0]
    full, part = (turned_scan(tmp_path / f"{share}.h5", CASES[case], share) for share in (1, 0.75))
    heads, images, notes = images_of(served, part, name, tmp_path)
    assert len(images) == (13 if name == "cartesian_cine_ecg" else 2)
    if "accelerated" not in case:
        assert all(note["coil_combine"] == "adaptive, block 5" for note in notes), notes[0]
    assert all(note["partial_fourier"] == "pocs, y 0.75" for note in notes), notes[0]
    assert len({note["scale_factor"] for note in notes}) == 1
    assert np.quantile(images[0], 0.995) == pytest.approx(1000, rel=0.02)  # of one of the voxels beside it
    for direction, wanted in (("read_dir", (1, 0, 0)), ("phase_dir", (0, 1, 0)), ("slice_dir", SLICE)):
        np.testing.assert_array_equal(heads[direction], [wanted] * len(heads))

    chain, zeros = without(tmp_path, name), without(tmp_path, name, "partial_fourier")
    whole, images, zeros = (images_of(served, scan, config, tmp_path)[1]
                            for scan, config in ((full, chain), (part, chain), (part, zeros)))  # fmt: skip
    assert error_of(images, whole) <= 0.7 * error_of(zeros, whole)

    # Turned: voxel floor(n / 2) is in its place, columns go to the left (against y), rows to the back (along x).
    still = images_of(served, part, without(tmp_path, name, "orient"), tmp_path)[1]
    np.testing.assert_allclose(images, still[:, ::-1].transpose(0, 2, 1), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("first, last", [(36, 96), (0, 60), (24, 96), (0, 72), (12, 96), (0, 84)])
def test_a_measured_brain_is_nearer_than_with_zeros(served, backend, tmp_path, first, last):
    """Its phase is rough: where coils are joined before they are completed, lines 0 to 71 are farther away (1.02)."""
    whole, part = measured("mchiew/brain16.h5"), tmp_path / "part.h5"
    shutil.copy(whole, part)
    with h5py.File(part, "r+") as file:
        rows = file["dataset/data"][:]
        lines = rows["head"]["idx"]["kspace_encode_step_1"]
        del file["dataset/data"]
        file["dataset"].create_dataset("data", data=rows[(lines >= first) & (lines < last)], maxshape=(None,))
    chain, zeros = without(tmp_path, "cartesian_2d"), without(tmp_path, "cartesian_2d", "partial_fourier")
    truth, images, zeros = (images_of(served, scan, config, tmp_path)[1]
                            for scan, config in ((whole, chain), (part, chain), (part, zeros)))  # fmt: skip
    assert error_of(images, truth) < error_of(zeros, truth)
