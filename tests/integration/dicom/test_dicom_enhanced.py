"""`echotrain export --dicom --dicom-enhanced`: multi-frame objects, as pydicom and dcm2niix read them."""

import itertools

import numpy as np
import pytest

import dicom_files
from programs import run_client

NX, NY, SLICES = 16, 12, 5
POSITION = np.array([12.5, -31.25, 70.0])
ENHANCED = "1.2.840.10008.5.1.4.1.1.4.1"


def numbered(shape, first=1):
    return np.arange(first, first + np.prod(shape), dtype=np.uint16).reshape(shape)


def slices(directions=np.eye(3), order=range(SLICES), add=0, **fields):
    return [
        dicom_files.image(numbered((NY, NX), 1 + add + i * NX * NY), directions, POSITION + 5.0 * i * directions[2],
                          slice=i, **fields)
        for i in order
    ]  # fmt: skip


def export(tmp_path, images, xml=None, *arguments):
    path = dicom_files.save(tmp_path / "images.h5", images, xml)
    return dicom_files.export(path, tmp_path / "dicom", "--dicom-enhanced", *arguments)


def groups_of(dataset):
    """For each frame: a function that finds a macro, in the frame's own groups or the shared ones."""
    (shared,) = dataset.SharedFunctionalGroupsSequence
    for own in dataset.PerFrameFunctionalGroupsSequence:
        yield lambda name, own=own: (own if name in own else shared)[name].value[0]


def values_of(dataset):
    pixels = dataset.pixel_array.reshape(-1, dataset.Rows, dataset.Columns)
    for frame, group in zip(pixels, groups_of(dataset), strict=True):
        change = group("PixelValueTransformationSequence")
        yield frame * float(change.RescaleSlope) + float(change.RescaleIntercept)


def places_of(dataset):
    """{value: place} of all voxels of all frames (PS3.3 C.7.6.2.1.1, with each frame's groups), in L, P, S."""
    found = {}
    for values, group in zip(values_of(dataset), groups_of(dataset), strict=True):
        row, column = np.array(group("PlaneOrientationSequence").ImageOrientationPatient, float).reshape(2, 3)
        between_rows, between_columns = map(float, group("PixelMeasuresSequence").PixelSpacing)
        begin = np.array(group("PlanePositionSequence").ImagePositionPatient, float)
        down, across = np.indices(values.shape)
        places = (begin + np.multiply.outer(across * between_columns, row)
                  + np.multiply.outer(down * between_rows, column))  # fmt: skip
        found |= dict(zip(values.ravel().tolist(), places.reshape(-1, 3)))
    return found


def contents_of(dataset):
    return [own.FrameContentSequence[0] for own in dataset.PerFrameFunctionalGroupsSequence]


@pytest.mark.parametrize("kind", ["slices", "volume"])
@pytest.mark.parametrize("name", dicom_files.ORIENTATIONS)
def test_every_voxel_lies_where_it_should_in_one_object(tmp_path, name, kind):
    directions = dicom_files.ORIENTATIONS[name]
    position = "FFS" if name == "feet_first" else "HFS"
    images = (slices(directions, order=[3, 0, 4, 1, 2]) if kind == "slices"
              else [dicom_files.image(numbered((5, NY - 1, NX + 1)), directions, POSITION)])  # fmt: skip
    truth = {value: place for one in images for value, place in dicom_files.places_of_image(one).items()}
    (one,) = export(tmp_path, images, dicom_files.header_xml(position=position))
    assert one.SOPClassUID == ENHANCED and one.NumberOfFrames == 5
    dicom_files.same_places(places_of(one), truth)
    assert run_client("export", tmp_path / "images.h5", "--nifti", tmp_path / "nifti").returncode == 0
    dicom_files.same_places(dicom_files.places_of_nifti(tmp_path / "nifti" / "image_1.nii"), truth)
    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    dicom_files.same_places(dicom_files.places_of_nifti(converted), truth)


def test_frames_are_in_the_order_of_their_dimensions(tmp_path):
    images = [
        one for repetition in (1, 0) for one in slices(order=[2, 0, 1], add=10000 * repetition, repetition=repetition)
    ]
    # dcm2niix follows the dimensions of makers that it knows only.
    (one,) = export(tmp_path, images, dicom_files.header_xml().replace("ACME", "Philips"))
    contents = contents_of(one)
    assert [list(each.DimensionIndexValues) for each in contents] == [[t, 1, p] for t in (1, 2) for p in (1, 2, 3)]
    assert [(c.StackID, c.InStackPositionNumber, c.TemporalPositionIndex) for c in contents] == [
        ("1", p, t) for t in (1, 2) for p in (1, 2, 3)]  # fmt: skip
    assert [values[0, 0] for values in values_of(one)] == [1 + 10000 * t + 192 * p for t in (0, 1) for p in (0, 1, 2)]
    pointers = [(each.DimensionIndexPointer, each.FunctionalGroupPointer) for each in one.DimensionIndexSequence]
    assert pointers == [(0x00209128, 0x00209111), (0x00209056, 0x00209111), (0x00209057, 0x00209111)]
    uid = one.DimensionOrganizationSequence[0].DimensionOrganizationUID
    assert {each.DimensionOrganizationUID for each in one.DimensionIndexSequence} == {uid}
    nibabel = pytest.importorskip("nibabel")
    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    pixels = np.asarray(nibabel.load(converted).dataobj)
    assert pixels.shape == (NX, NY, 3, 2)
    np.testing.assert_array_equal(pixels[..., 1] - pixels[..., 0], 10000)


def test_phases_of_a_heart_and_stacks_are_dimensions(tmp_path):
    sagittal = dicom_files.ORIENTATIONS["sagittal"]
    turns = (np.eye(3), sagittal)
    images = [each for phase in range(3) for turn in turns for each in slices(turn, range(2), phase=phase)]
    (one,) = export(tmp_path, images)
    indices = [tuple(each.DimensionIndexValues) for each in contents_of(one)]
    assert indices == [(t, s, p) for t, s, p in itertools.product((1, 2, 3), (1, 2), (1, 2))]
    assert "PlaneOrientationSequence" in one.PerFrameFunctionalGroupsSequence[0]
    assert "PixelMeasuresSequence" in one.SharedFunctionalGroupsSequence[0]


def test_echoes_are_a_dimension_and_what_frames_share_is_told_once(tmp_path):
    images = [each for c in range(2) for each in slices(order=range(2), add=1000 * c, contrast=c)]
    (one,) = export(tmp_path, images, dicom_files.header_xml())
    assert [float(group("MREchoSequence").EffectiveEchoTime) for group in groups_of(one)] == [4.5, 4.5, 9, 9]
    assert [tuple(each.DimensionIndexValues) for each in contents_of(one)] == [
        (1, 1, 1, 1), (1, 1, 1, 2), (1, 2, 1, 1), (1, 2, 1, 2)]  # fmt: skip
    (shared,) = one.SharedFunctionalGroupsSequence
    timing = shared.MRTimingAndRelatedParametersSequence[0]
    assert (timing.RepetitionTime, timing.FlipAngle) == (500, 20)
    assert list(shared.PixelMeasuresSequence[0].PixelSpacing) == [3, 2]
    assert shared.PixelMeasuresSequence[0].SliceThickness == 4
    assert list(shared.PlaneOrientationSequence[0].ImageOrientationPatient) == [1, 0, 0, 0, 1, 0]
    assert shared.MRImageFrameTypeSequence[0].FrameType[:2] == ["DERIVED", "PRIMARY"] == one.ImageType[:2]
    for own in one.PerFrameFunctionalGroupsSequence:
        assert "PixelMeasuresSequence" not in own and "PlanePositionSequence" in own
    assert one.Manufacturer == "ACME" and one.DeviceSerialNumber == "unknown" and one.ContentDate == "20260131"
    assert one.ContentQualification == "RESEARCH" and one.PatientName == "" and one.Modality == "MR"
    (given,) = export(tmp_path, images, dicom_files.header_xml(), "--patient")
    assert given.PatientName == "Doe^Jane"


def test_frames_have_their_own_scale_window_and_sign(tmp_path):
    """Unsigned frames beyond 32767 and signed ones in one object, which has one kind of pixels."""
    high = np.round(np.linspace(0, 65534, NX * NY)).astype(np.float32).reshape(NY, NX)
    low = np.round(np.linspace(-32000, 100, NX * NY)).astype(np.float32).reshape(NY, NX)
    real = np.linspace(-1e-3, 2e-3, NX * NY).astype(np.float32).reshape(NY, NX)
    window = {"WindowCenter": 40, "WindowWidth": 80}
    images = [dicom_files.image(pixels, repetition=i, meta=window if i == 0 else None)
              for i, pixels in enumerate((high, low, real))]  # fmt: skip
    (one,) = export(tmp_path, images)
    values = list(values_of(one))
    np.testing.assert_array_equal(values[0], high)
    np.testing.assert_array_equal(values[1], low)
    assert np.abs(values[2] - real).max() <= 2e-3 / 32767
    windows = [group("FrameVOILUTSequence") for group in groups_of(one)]
    assert (float(windows[0].WindowCenter), float(windows[0].WindowWidth)) == (40, 80)
    assert float(windows[1].WindowCenter) != 40 and windows[2].VOILUTFunction == "LINEAR_EXACT"


def test_frames_whose_pixels_are_not_what_was_computed_say_so(tmp_path):
    pixels = [numbered((NY, NX), first=1 + 100 * s).astype(np.float32) for s in range(3)]
    pixels[1][0, :2] = np.nan
    images = [dicom_files.image(each, position=(0, 0, 4.0 * s), slice=s, meta={"ImageComments": "mine"})
              for s, each in enumerate(pixels)]  # fmt: skip
    (one,) = export(tmp_path, images)
    assert one.ImageComments == "mine; ATTENTION: frames with pixels that are not what was computed (Frame Comments): 1"
    said = [content.get("FrameComments", "") for content in contents_of(one)]
    assert said == ["", "ATTENTION: pixels that are not numbers, stored as 0: 2", ""]


def test_complex_coil_images_are_an_object_for_each_channel_and_part(tmp_path):
    rng = np.random.default_rng(6)
    pixels = (rng.standard_normal((2, 1, NY, NX)) + 1j * rng.standard_normal((2, 1, NY, NX))).astype(np.complex64)
    datasets = export(tmp_path, [dicom_files.image(pixels)])
    names = sorted(file.name for file in (tmp_path / "dicom").iterdir())
    assert names == ["image_1_c00_magnitude.dcm", "image_1_c00_phase.dcm", "image_1_c01_magnitude.dcm",
                     "image_1_c01_phase.dcm"]  # fmt: skip
    assert len({one.SeriesInstanceUID for one in datasets}) == 4
    assert [one.ComplexImageComponent for one in datasets] == ["MAGNITUDE", "PHASE"] * 2
    (phase,) = values_of(datasets[3])
    assert np.abs(phase - np.angle(pixels[1, 0])).max() <= 2**-14 + 1e-7


def test_identity_follows_from_the_pixels_and_not_from_the_order(tmp_path):
    (first,) = export(tmp_path, slices())
    (again,) = export(tmp_path, slices())
    (other,) = export(tmp_path, slices(add=1))
    assert (again.SOPInstanceUID, again.SeriesInstanceUID) == (first.SOPInstanceUID, first.SeriesInstanceUID)
    assert other.SOPInstanceUID != first.SOPInstanceUID
    plane = dicom_files.export(tmp_path / "images.h5", tmp_path / "planes")[0]
    assert plane.SeriesInstanceUID != other.SeriesInstanceUID and plane.StudyInstanceUID == other.StudyInstanceUID


def test_what_cannot_be_is_refused(tmp_path):
    path = dicom_files.save(tmp_path / "bad.h5", [dicom_files.image(numbered((NY, NX)), voxel=(0, 3, 4))])
    done = run_client("export", path, "--dicom", tmp_path / "dicom", "--dicom-enhanced")
    assert done.returncode == 1 and "series 'image_1', image 0" in done.stderr
    done = run_client("export", path, "--dicom-enhanced", "--png", tmp_path / "png")
    assert done.returncode == 2 and "--dicom-enhanced is for --dicom DIR" in done.stderr
