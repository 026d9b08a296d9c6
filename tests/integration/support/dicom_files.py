"""Images as ISMRMRD files with known geometry, and where each voxel lies by the DICOM standard and by NIfTI."""

import ctypes
import shutil
import subprocess

import ismrmrd
import numpy as np
import pytest

from programs import run_client

# Directions of x, y and z in the patient (L, P, S): read_dir, phase_dir, slice_dir.
TURN = np.array([[0.9, 0.3, -0.2], [-0.1, 0.8, 0.5], [0.3, -0.4, 0.8]])
OBLIQUE = np.linalg.qr(TURN.T)[0].T
ORIENTATIONS = {
    "axial": np.eye(3),
    "axial_left_handed": np.diag([1.0, 1.0, -1.0]),
    "axial_turned": np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]),
    "sagittal": np.array([[0.0, 1, 0], [0, 0, -1], [-1, 0, 0]]),
    "coronal": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "oblique": OBLIQUE,
    "oblique_left_handed": OBLIQUE * [[1], [1], [-1]],
    "feet_first": np.array([[-1.0, 0, 0], [0, 1, 0], [0, 0, -1]]),
}

PATIENT = (
    "<subjectInformation><patientName>Doe^Jane</patientName><patientWeight_kg>61.5</patientWeight_kg>"
    "<patientID>P-4711</patientID><patientBirthdate>1970-02-03</patientBirthdate><patientGender>F</patientGender>"
    "</subjectInformation>"
)


def header_xml(measurement="m1", patient=PATIENT, position="HFS"):
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">'
        f"{patient}<studyInformation><studyDate>2026-01-31</studyDate><studyTime>13:05:07</studyTime>"
        "<studyID>S-17</studyID><referringPhysicianName>House^Gregory</referringPhysicianName>"
        "<studyDescription>Phantom</studyDescription><studyInstanceUID>1.2.826.0.1.42</studyInstanceUID>"
        f"</studyInformation><measurementInformation><measurementID>{measurement}</measurementID>"
        f"<patientPosition>{position}</patientPosition><initialSeriesNumber>7</initialSeriesNumber>"
        "<protocolName>t2 star map</protocolName><frameOfReferenceUID>1.2.826.0.1.43</frameOfReferenceUID>"
        "</measurementInformation><acquisitionSystemInformation><systemVendor>ACME</systemVendor>"
        "<systemModel>One</systemModel><systemFieldStrength_T>2.89</systemFieldStrength_T>"
        "<institutionName>Clinic</institutionName></acquisitionSystemInformation>"
        "<experimentalConditions><H1resonanceFrequency_Hz>123200000</H1resonanceFrequency_Hz></experimentalConditions>"
        "<encoding><encodedSpace><matrixSize><x>16</x><y>12</y><z>1</z></matrixSize><fieldOfView_mm><x>32</x><y>36</y>"
        "<z>4</z></fieldOfView_mm></encodedSpace><reconSpace><matrixSize><x>16</x><y>12</y><z>1</z></matrixSize>"
        "<fieldOfView_mm><x>32</x><y>36</y><z>4</z></fieldOfView_mm></reconSpace><encodingLimits/>"
        "<trajectory>cartesian</trajectory></encoding><sequenceParameters><TR>500</TR><TE>4.5</TE><TE>9</TE>"
        "<flipAngle_deg>20</flipAngle_deg></sequenceParameters></ismrmrdHeader>"
    )


def meta_xml(values):
    entries = "".join(f"<meta><name>{n}</name><value>{v}</value></meta>" for n, v in values.items())
    return f'<?xml version="1.0" encoding="UTF-8"?><ismrmrdMeta>{entries}</ismrmrdMeta>'


def image(pixels, directions=np.eye(3), position=(0, 0, 0), voxel=(2.0, 3.0, 4.0), meta=None, **fields):
    """pixels: [channel, z, y, x] or less. `position` is that of voxel floor(n/2)."""
    pixels = np.asarray(pixels)
    pixels = pixels.reshape((1,) * (4 - pixels.ndim) + pixels.shape)
    made = ismrmrd.Image.from_array(np.ascontiguousarray(pixels), transpose=False)
    places = {"field_of_view": [n * v for n, v in zip(pixels.shape[:0:-1], voxel)], "position": position}
    places.update(zip(("read_dir", "phase_dir", "slice_dir"), directions))
    for name, place in places.items():
        setattr(made, name, (ctypes.c_float * 3)(*place))
    kinds = {"f": ismrmrd.IMTYPE_MAGNITUDE, "u": ismrmrd.IMTYPE_MAGNITUDE, "i": ismrmrd.IMTYPE_MAGNITUDE,
             "c": ismrmrd.IMTYPE_COMPLEX}  # fmt: skip
    made.image_type = kinds[pixels.dtype.kind]
    made.image_series_index = 1
    for name, value in fields.items():
        setattr(made, name, value)
    if meta:
        made.attribute_string = meta_xml(meta)
    return made


def save(path, images, xml=None, series="image_1"):
    path.unlink(missing_ok=True)
    dataset = ismrmrd.Dataset(str(path), "dataset", create_if_needed=True)
    if xml is not None:
        dataset.write_xml_header(xml.encode())
    for each in images:
        dataset.append_image(series, each)
    dataset.close()
    return path


def export(path, folder, *arguments):
    """The DICOM files of `echotrain export --dicom`, read by pydicom. Skips where either is missing."""
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
    shutil.rmtree(folder, ignore_errors=True)
    done = run_client("export", path, "--dicom", folder, *arguments)
    if "built without DICOM" in done.stderr:
        pytest.skip("the programs were built without DICOM (./run setup test, then build again)")
    assert done.returncode == 0, done.stderr
    return [pydicom.dcmread(file) for file in sorted(folder.glob("*.dcm"))]


def places_of_image(made):
    """{value: place} of the voxels of an ISMRMRD image, as docs/conventions.md says, in L, P, S."""
    _, nz, ny, nx = made.data.shape
    z, y, x = np.meshgrid(range(nz), range(ny), range(nx), indexing="ij")
    steps = [f / n for f, n in zip(made.field_of_view, (nx, ny, nz))]
    places = np.array(list(made.position)) + sum(
        np.multiply.outer((index - n // 2) * step, np.array(list(direction)))
        for index, n, step, direction in zip((x, y, z), (nx, ny, nz), steps, (made.read_dir, made.phase_dir,
                                                                                made.slice_dir))
    )  # fmt: skip
    return dict(zip(made.data.ravel().tolist(), places.reshape(-1, 3)))


def places_of_dicom(dataset):
    """{value: place} by PS3.3 C.7.6.2.1.1: rows and columns from the centre of the first voxel."""
    across, down = np.array(dataset.ImageOrientationPatient, float).reshape(2, 3)
    between_rows, between_columns = (float(v) for v in dataset.PixelSpacing)
    row, column = np.meshgrid(range(dataset.Rows), range(dataset.Columns), indexing="ij")
    places = (np.array(dataset.ImagePositionPatient, float) + np.multiply.outer(column * between_columns, across)
              + np.multiply.outer(row * between_rows, down))  # fmt: skip
    return dict(zip(values_of(dataset).ravel().tolist(), places.reshape(-1, 3)))


def places_of_nifti(path):
    """{value: place} in L, P, S of a NIfTI file of one volume."""
    nibabel = pytest.importorskip("nibabel", reason="nibabel is not installed (./run setup test)")
    file = nibabel.load(path)
    pixels = np.asarray(file.dataobj)
    index = np.indices(pixels.shape[:3]).reshape(3, -1)
    places = (file.affine[:3, :3] @ index).T + file.affine[:3, 3]
    return dict(zip(pixels.reshape(-1).tolist(), places * [-1, -1, 1]))


def values_of(dataset):
    return dataset.pixel_array * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)


def dcm2niix(folder, output):
    """The NIfTI files that dcm2niix makes of a folder of DICOM files."""
    if shutil.which("dcm2niix") is None:
        pytest.skip("dcm2niix is not installed (./run setup test)")
    output.mkdir(exist_ok=True)
    done = subprocess.run(["dcm2niix", "-b", "n", "-z", "n", "-f", "%s_%d", "-o", str(output), str(folder)],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(output.glob("*.nii"))


def same_places(ours, theirs, tolerance_mm=1e-4):
    assert ours.keys() == theirs.keys()
    errors = [np.abs(place - theirs[value]).max() for value, place in ours.items()]
    assert max(errors) <= tolerance_mm, max(errors)
