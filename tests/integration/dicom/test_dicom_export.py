"""`echotrain export --dicom`: places of voxels, pixels, identity, as pydicom and dcm2niix read them."""

import numpy as np
import pytest

import dicom_files
from programs import measured, run_client

NX, NY, SLICES = 16, 12, 5
POSITION = np.array([12.5, -31.25, 70.0])


def numbered(shape, first=1):
    return np.arange(first, first + np.prod(shape), dtype=np.uint16).reshape(shape)


def multi_slice(directions, order=range(SLICES)):
    """Slices 5 mm apart, in the order given."""
    return [
        dicom_files.image(numbered((NY, NX), 1 + i * NX * NY), directions, POSITION + 5.0 * i * directions[2],
                          slice=i, image_index=count + 1)
        for count, i in enumerate(order)
    ]  # fmt: skip


def truth_of(images):
    return {value: place for one in images for value, place in dicom_files.places_of_image(one).items()}


def position_name(name):
    return "FFS" if name == "feet_first" else "HFS"


@pytest.mark.parametrize("kind", ["slices", "volume", "odd_volume"])
@pytest.mark.parametrize("name", dicom_files.ORIENTATIONS)
def test_every_voxel_lies_where_the_standard_dcm2niix_and_our_nifti_put_it(tmp_path, name, kind):
    directions = dicom_files.ORIENTATIONS[name]
    shape = {"slices": None, "volume": (4, NY, NX), "odd_volume": (5, NY - 1, NX + 1)}[kind]
    if kind == "slices":
        images = multi_slice(directions, order=[3, 0, 4, 1, 2])
    else:
        images = [dicom_files.image(numbered(shape), directions, POSITION)]
    path = dicom_files.save(tmp_path / "images.h5", images, dicom_files.header_xml(position=position_name(name)))
    truth = truth_of(images)
    datasets = dicom_files.export(path, tmp_path / "dicom")
    assert len(datasets) == (SLICES if kind == "slices" else shape[0])
    found = {value: place for one in datasets for value, place in dicom_files.places_of_dicom(one).items()}
    dicom_files.same_places(found, truth)
    assert {one.PatientPosition for one in datasets} == {position_name(name)}

    assert run_client("export", path, "--nifti", tmp_path / "nifti").returncode == 0
    dicom_files.same_places(dicom_files.places_of_nifti(tmp_path / "nifti" / "image_1.nii"), truth)

    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    dicom_files.same_places(dicom_files.places_of_nifti(converted), truth)


def test_instance_numbers_follow_the_places_of_slices_in_whatever_order_they_came(tmp_path):
    images = multi_slice(np.eye(3), order=[3, 0, 4, 1, 2])
    datasets = dicom_files.export(dicom_files.save(tmp_path / "images.h5", images), tmp_path / "dicom")
    by_number = sorted(datasets, key=lambda one: int(one.InstanceNumber))
    assert [int(one.InstanceNumber) for one in by_number] == [1, 2, 3, 4, 5]
    locations = [float(one.SliceLocation) for one in by_number]
    np.testing.assert_allclose(np.diff(locations), 5)
    assert {float(one.SliceThickness) for one in datasets} == {4.0}


def test_repetitions_become_one_4d_volume(tmp_path):
    images = []
    for repetition in range(3):
        for i, one in enumerate(multi_slice(np.eye(3))):
            one.repetition = repetition
            one.data[:] += 1000 * repetition
            one.image_index = 1 + i + SLICES * repetition
            images.append(one)
    dicom_files.export(dicom_files.save(tmp_path / "images.h5", images), tmp_path / "dicom")
    nibabel = pytest.importorskip("nibabel")
    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    pixels = np.asarray(nibabel.load(converted).dataobj)
    assert pixels.shape == (NX, NY, SLICES, 3)
    np.testing.assert_array_equal(pixels[..., 2] - pixels[..., 0], 2000)


@pytest.mark.parametrize("series", ["ax_asc_35sl", "ax_desc_36sl", "cor_desc_35sl", "sag_int_36sl"])
def test_measured_orientations_come_back_from_dcm2niix(tmp_path, series):
    """Volumes of a scanner in three planes: as DICOM of ours, dcm2niix puts each voxel where the reference has it."""
    folder = measured("dcm_qa")
    found = sorted(folder.glob(f"{series}*.nii.gz"))
    if not found:
        pytest.skip(f"{folder} has no {series}*.nii.gz")
    nibabel = pytest.importorskip("nibabel")
    reference = nibabel.load(found[0])
    affine = np.diag([-1.0, -1, 1, 1]) @ reference.affine  # to L, P, S
    voxel = np.linalg.norm(affine[:3, :3], axis=0)
    directions = (affine[:3, :3] / voxel).T
    volume = np.asarray(reference.dataobj)[..., 0]
    nx, ny, nz = volume.shape
    images = [
        dicom_files.image(np.ascontiguousarray(volume[:, :, z].T).astype(np.uint16), directions,
                          (affine @ [nx // 2, ny // 2, z, 1])[:3], voxel, slice=z, image_index=z + 1)
        for z in range(nz)
    ]  # fmt: skip
    path = dicom_files.save(tmp_path / "images.h5", images, dicom_files.header_xml())
    assert len(dicom_files.export(path, tmp_path / "dicom")) == nz
    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    got = nibabel.load(converted)
    # The same voxels, maybe stored along other axes: index of each reference voxel in what dcm2niix made.
    index = np.indices(volume.shape).reshape(3, -1)
    places = reference.affine[:3, :3] @ index + reference.affine[:3, 3:]
    there = np.linalg.solve(got.affine[:3, :3], places - got.affine[:3, 3:])
    np.testing.assert_allclose(there, np.round(there), atol=1e-4)
    np.testing.assert_array_equal(np.asarray(got.dataobj)[tuple(np.round(there).astype(int))], volume.ravel())


@pytest.mark.parametrize("kind", ["uint16", "int16", "uint32", "float32", "float64"])
def test_pixels_of_every_type_come_back(tmp_path, kind):
    rng = np.random.default_rng(5)
    low, high = {"uint16": (0, 65535), "int16": (-32768, 32767), "uint32": (0, 4e9)}.get(
        kind, (-1e-3, 2e-3))  # fmt: skip
    pixels = rng.uniform(low, high, (NY, NX)).astype(kind)
    pixels[0, :2] = (low, high)
    path = dicom_files.save(tmp_path / "images.h5", [dicom_files.image(pixels)])
    (one,) = dicom_files.export(path, tmp_path / "dicom")
    # docs/dicom.md: 16-bit integers are kept, others are exact to the largest magnitude / 32767.
    bound = 0 if kind.endswith("int16") else np.abs(pixels.astype(float)).max() / 32767
    assert np.abs(dicom_files.values_of(one) - pixels.astype(float)).max() <= bound
    assert (one.BitsAllocated, one.BitsStored, one.HighBit) == (16, 16, 15)


def test_complex_images_become_a_magnitude_and_a_phase_series(tmp_path):
    rng = np.random.default_rng(6)
    pixels = (rng.standard_normal((2, NY, NX)) + 1j * rng.standard_normal((2, NY, NX))).astype(np.complex64)
    path = dicom_files.save(tmp_path / "images.h5", [dicom_files.image(pixels)])
    datasets = dicom_files.export(path, tmp_path / "dicom")
    magnitude = [one for one in datasets if one.ImageType[2] == "M"]
    phase = [one for one in datasets if one.ImageType[2] == "P"]
    assert len(magnitude) == len(phase) == 2
    assert len({one.SeriesInstanceUID for one in datasets}) == 2 == len({one.SeriesNumber for one in datasets})
    for z in range(2):
        assert np.abs(dicom_files.values_of(magnitude[z]) - np.abs(pixels[z])).max() <= np.abs(pixels).max() / 32767
        assert np.abs(dicom_files.values_of(phase[z]) - np.angle(pixels[z])).max() <= 2**-14 + 1e-7
        assert float(phase[z].WindowCenter) == 0
        assert float(phase[z].WindowWidth) == pytest.approx(2 * np.pi, abs=1e-6)
        assert phase[z].ComplexImageComponent == "PHASE"


def test_coil_images_are_series_of_their_own(tmp_path):
    pixels = numbered((3, 1, NY, NX))
    datasets = dicom_files.export(dicom_files.save(tmp_path / "i.h5", [dicom_files.image(pixels)]), tmp_path / "dicom")
    assert len({one.SeriesInstanceUID for one in datasets}) == 3
    np.testing.assert_array_equal([one.pixel_array for one in datasets], pixels[:, 0])


def test_meta_attributes_of_an_image_are_read(tmp_path):
    meta = {"SeriesDescription": "T2* map", "SequenceDescriptionAdditional": "OpenRecon", "ImageComments": "ms & s"
            .replace("&", "&amp;"), "RescaleSlope": 0.1, "RescaleIntercept": -5, "WindowCenter": 40, "WindowWidth": 80,
            "EchoTime": 7.25, "echotrain_trace": 32 * "a", "ImageType": "DERIVED\\PRIMARY\\T2_STAR MAP"}  # fmt: skip
    pixels = numbered((NY, NX))
    path = dicom_files.save(tmp_path / "images.h5", [dicom_files.image(pixels, meta=meta)], dicom_files.header_xml())
    (one,) = dicom_files.export(path, tmp_path / "dicom")
    assert one.SeriesDescription == "T2* map_OpenRecon" and one.ImageComments == "ms & s"
    np.testing.assert_allclose(dicom_files.values_of(one), pixels * 0.1 - 5, atol=1e-9)
    assert (float(one.WindowCenter), float(one.WindowWidth), float(one.EchoTime)) == (40, 80, 7.25)
    assert list(one.ImageType) == ["DERIVED", "PRIMARY", "T2_STAR MAP"]
    (by,) = one.ContributingEquipmentSequence
    assert (by.Manufacturer, by.ContributionDescription) == ("Echotrain", "trace " + 32 * "a")
    assert by.PurposeOfReferenceCodeSequence[0].CodeMeaning == "Processing Equipment"


def test_pixels_that_are_not_what_was_computed_are_told_of(tmp_path):
    pixels = numbered((2, NY, NX)).astype(np.float32)
    pixels[1, 0, :3] = np.nan
    pixels[1, 1, 0] = -np.inf
    cut = dicom_files.image(numbered((2, NY, NX)).astype(np.float32), image_index=2, slice=9,
                            meta={"echotrain_saturated_pixels": 5, "ImageComments": "mine"})  # fmt: skip
    path = dicom_files.save(tmp_path / "images.h5", [dicom_files.image(pixels), cut])
    whole, odd, saturated, _ = dicom_files.export(path, tmp_path / "dicom")
    assert "ImageComments" not in whole
    assert odd.ImageComments == ("ATTENTION: pixels that are not numbers, stored as 0: 3, infinite pixels, stored as "
                                 "the largest finite magnitude: 1")  # fmt: skip
    assert saturated.ImageComments == "mine; ATTENTION: pixels of the image that were cut to the range of their type: 5"
    # The same with zeros where there was nothing is another image, and both may be in one archive.
    clean = dicom_files.save(tmp_path / "clean.h5", [dicom_files.image(np.nan_to_num(pixels, neginf=-pixels[np.isfinite(
        pixels)].max()))])  # fmt: skip
    assert dicom_files.export(clean, tmp_path / "clean")[1].SOPInstanceUID != odd.SOPInstanceUID


def test_the_header_gives_the_sequence_and_the_scanner(tmp_path):
    images = [dicom_files.image(numbered((NY, NX)), contrast=c, image_index=c + 1) for c in range(2)]
    path = dicom_files.save(tmp_path / "images.h5", images, dicom_files.header_xml())
    first, second = sorted(dicom_files.export(path, tmp_path / "dicom"), key=lambda one: one.EchoNumbers)
    assert (float(first.EchoTime), float(second.EchoTime), float(first.RepetitionTime)) == (4.5, 9, 500)
    assert float(first.FlipAngle) == 20 and "InversionTime" not in first
    assert (first.Manufacturer, first.ManufacturerModelName, first.InstitutionName) == ("ACME", "One", "Clinic")
    assert float(first.MagneticFieldStrength) == 2.89 and float(first.ImagingFrequency) == 123.2
    assert (first.StudyDate, first.StudyTime, first.StudyDescription) == ("20260131", "130507", "Phantom")
    assert (first.ProtocolName, first.SeriesDescription, first.SeriesNumber) == ("t2 star map", "t2 star map", 7001)
    assert first.Modality == "MR" and first.SOPClassUID == "1.2.840.10008.5.1.4.1.1.4"
    assert first.file_meta.MediaStorageSOPInstanceUID == first.SOPInstanceUID
    assert first.SeriesInstanceUID == second.SeriesInstanceUID and first.SOPInstanceUID != second.SOPInstanceUID


@pytest.mark.parametrize("counter", ["set", "contrast", "repetition", "phase", None])
def test_inversion_times_follow_their_counter(tmp_path, counter):
    """That of which the header announces as many values; without limits `set`, as t1_map counts them."""
    limits = f"<encodingLimits><{counter}><minimum>1</minimum><maximum>3</maximum><center>1</center></{counter}></encodingLimits>"
    xml = dicom_files.header_xml().replace("<flipAngle", "<TI>50</TI><TI>400</TI><TI>900</TI><flipAngle")
    xml = xml.replace("<encodingLimits/>", limits) if counter else xml
    first = 1 if counter else 0
    images = [dicom_files.image(numbered((NY, NX)), image_index=n + 1, **{counter or "set": n + first}) for n in range(3)]
    path = dicom_files.save(tmp_path / "images.h5", images, xml)
    got = sorted(dicom_files.export(path, tmp_path / "dicom"), key=lambda one: one.InstanceNumber)
    assert [float(one.InversionTime) for one in got] == [50, 400, 900]
    meta = {"DataRole": "Quantitative", "map_quantity": "T1", "map_unit": "ms"}
    path = dicom_files.save(tmp_path / "map.h5", [dicom_files.image(numbered((NY, NX)), meta=meta)], xml)
    (one,) = dicom_files.export(path, tmp_path / "map")
    assert not one.get("InversionTime") and not one.get("EchoTime") and one.RepetitionTime == 500


def test_patient_fields_stay_out_unless_they_are_asked_for(tmp_path):
    path = dicom_files.save(tmp_path / "i.h5", [dicom_files.image(numbered((NY, NX)))], dicom_files.header_xml())
    (without,) = dicom_files.export(path, tmp_path / "without")
    (file,) = (tmp_path / "without").glob("*.dcm")
    for secret in (b"Doe", b"4711", b"1970", b"S-17", b"House", b"1.2.826", b"61.5"):
        assert secret not in file.read_bytes()
    assert without.PatientName == "" and without.PatientID == "" and "PatientWeight" not in without
    (given,) = dicom_files.export(path, tmp_path / "with", "--patient")
    assert (given.PatientName, given.PatientID, given.PatientBirthDate) == ("Doe^Jane", "P-4711", "19700203")
    assert (given.PatientSex, given.PatientWeight, given.StudyID) == ("F", 61.5, "S-17")
    assert (given.ReferringPhysicianName, given.StudyInstanceUID) == ("House^Gregory", "1.2.826.0.1.42")
    assert given.FrameOfReferenceUID == "1.2.826.0.1.43"


def test_uids_follow_from_the_measurement_and_the_pixels(tmp_path):
    def uids(name, xml, pixels):
        path = dicom_files.save(tmp_path / f"{name}.h5", [dicom_files.image(pixels)], xml)
        (one,) = dicom_files.export(path, tmp_path / name)
        assert one.StudyInstanceUID.startswith("2.25.") and len(one.SOPInstanceUID) <= 64
        return one.StudyInstanceUID, one.SeriesInstanceUID, one.SOPInstanceUID

    pixels = numbered((NY, NX))
    nameless = dicom_files.header_xml("m1").replace("<studyInstanceUID>1.2.826.0.1.42</studyInstanceUID>", "")
    first = uids("first", nameless, pixels)
    assert uids("again", nameless, pixels) == first
    changed = uids("changed", nameless, pixels + 1)
    assert changed[0] == first[0] and changed[1] != first[1] and changed[2] != first[2]
    other = uids("other", nameless.replace("m1<", "m2<"), pixels)
    assert not set(other) & set(first)
    # Two measurements of one examination are one study.
    a, b = (uids(name, dicom_files.header_xml(name), pixels) for name in ("a", "b"))
    assert a[0] == b[0] != first[0] and a[1] != b[1]
    assert uids("headless", None, pixels)[0] != first[0]


@pytest.mark.parametrize("fields, why", [
    ({"voxel": (0, 3, 4)}, "field of view is 0 mm along x"),
    ({"directions": np.array([[1, 0, 0], [0.5, 0.8, 0], [0, 0, 1]])}, "not at right angles"),
    ({"position": (float("nan"), 0, 0)}, "position is not finite"),
])  # fmt: skip
def test_images_that_dicom_cannot_hold_are_refused_by_name(tmp_path, fields, why):
    good = dicom_files.save(tmp_path / "good.h5", [dicom_files.image(numbered((NY, NX)))])
    dicom_files.export(good, tmp_path / "good")
    path = dicom_files.save(tmp_path / "images.h5", [dicom_files.image(numbered((NY, NX)), **fields)])
    done = run_client("export", path, "--dicom", tmp_path / "dicom")
    assert done.returncode == 1 and "series 'image_1', image 0" in done.stderr and why in done.stderr


def test_not_finite_pixels_do_not_spoil_the_others(tmp_path):
    pixels = np.linspace(0, 1, NX * NY, dtype=np.float32).reshape(NY, NX)
    pixels[0, 0], pixels[0, 1], pixels[0, 2] = np.nan, np.inf, -np.inf
    (one,) = dicom_files.export(dicom_files.save(tmp_path / "i.h5", [dicom_files.image(pixels)]), tmp_path / "dicom")
    values = dicom_files.values_of(one)
    np.testing.assert_allclose(values[0, :3], [0, 1, -1], atol=1e-4)
    np.testing.assert_allclose(values.ravel()[3:], pixels.ravel()[3:], atol=1 / 32767)
