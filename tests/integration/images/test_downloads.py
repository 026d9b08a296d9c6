"""Images that a server keeps, taken away over HTTP: what comes is read by other people's software (h5py, ismrmrd, nibabel,
pydicom, zipfile), and each voxel must lie where it lay in the image that was sent."""

import http.client
import io
import json
import time
import zipfile

import numpy as np
import pytest

import chains
import dicom_files
import scans
import wire
from dicom_files import ORIENTATIONS, image, places_of_dicom, places_of_image, places_of_nifti, same_places
from pictures import read_png
from programs import Server

ismrmrd = pytest.importorskip("ismrmrd")
TOKEN = "a-token-of-an-administrator"
NX, NY = 6, 5
PASS = chains.pipeline("image", keys="input: images")


class Taker:
    """A server, and what one gets of it."""

    def __init__(self, folder, *arguments):
        folder.mkdir()
        (folder / "tokens").write_text(TOKEN + "\n")
        self.server = Server(folder, "--backend", "cpu", "--admin-token-file", folder / "tokens", *arguments)
        self.scans = 0

    def scan(self, images, xml=None):
        """Sends images through; the number of their scan."""
        messages = [wire.image_of_package(one) for one in images]
        reply = wire.exchange(self.server.address, [PASS, wire.header(xml or dicom_files.header_xml()), *messages,
                                                    wire.close()])  # fmt: skip
        assert not reply.errors() and len(reply.images) == len(images)
        self.scans += 1
        for _ in range(500):  # they are copied by a thread of their own
            kept = json.loads(self.ask(f"/live/images?scan={self.scans}")[2])["images"]
            if len(kept) == len(images):
                return self.scans
            time.sleep(0.01)
        raise AssertionError(f"{len(kept)} of {len(images)} images are kept")

    def ask(self, path, token=TOKEN, method="GET"):
        """(status, headers, body)"""
        connection = http.client.HTTPConnection(*self.server.admin, timeout=20)
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def get(self, query, **options):
        return self.ask(f"/live/download?{query}", **options)

    def file(self, query, name):
        status, headers, body = self.get(query)
        assert status == 200, body
        assert headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
        return body

    def zip(self, query, name):
        archive = zipfile.ZipFile(io.BytesIO(self.file(query, name)))
        assert archive.testzip() is None  # reads all, and checks the sums
        return {one: archive.read(one) for one in archive.namelist()}


@pytest.fixture(scope="module")
def taker(tmp_path_factory):
    taker = Taker(tmp_path_factory.mktemp("downloads") / "server")
    yield taker
    assert taker.server.stop() == 0
    assert "internal error" not in taker.server.text()


def numbered(shape, first=0):
    """Each voxel has a value of its own, so that it can be found again."""
    return (first + np.arange(np.prod(shape))).reshape(shape)


def slices(directions, count, repetitions=1, gap_mm=5.0, dtype="f4", **fields):
    """A stack of slices along slice_dir, about (10, -20, 30)."""
    made = []
    for repetition in range(repetitions):
        for s in range(count):
            place = np.array([10.0, -20.0, 30.0]) + gap_mm * (s - count // 2) * np.array(directions)[2]
            pixels = numbered((NY, NX), NX * NY * len(made)).astype(dtype)
            made.append(image(pixels, directions, place, slice=s, repetition=repetition, image_index=len(made) + 1,
                              **fields))  # fmt: skip
    return made


@pytest.mark.parametrize("orientation", sorted(ORIENTATIONS))
def test_voxels_of_a_stack_of_slices_lie_where_they_lay(taker, tmp_path, orientation):
    nibabel = pytest.importorskip("nibabel")
    pydicom = pytest.importorskip("pydicom")
    sent = slices(ORIENTATIONS[orientation], 4)
    scan = taker.scan(sent)
    truth = {value: place for one in sent for value, place in places_of_image(one).items()}
    path = tmp_path / "one.nii"
    path.write_bytes(taker.file(f"scan={scan}&format=nifti", f"scan_{scan}_series_1.nii"))
    same_places(truth, places_of_nifti(path))
    volume = nibabel.load(path)
    assert volume.shape == (NX, NY, 4) and volume.get_data_dtype() == np.float32
    np.testing.assert_allclose(volume.header.get_zooms(), (2, 3, 5), rtol=1e-6)
    files = taker.zip(f"scan={scan}&format=dicom", f"scan_{scan}_dicom.zip")
    assert len(files) == 4
    read = [pydicom.dcmread(io.BytesIO(body)) for body in files.values()]
    # 16 bits of values up to 119 (docs/dicom.md): rounded to whole numbers, they are told apart.
    found = {round(value): place for one in read for value, place in places_of_dicom(one).items()}
    same_places({round(value): place for value, place in truth.items()}, found)
    along = [np.dot(np.array(one.ImagePositionPatient, float),
                    np.cross(*np.array(one.ImageOrientationPatient, float).reshape(2, 3))) for one in read]  # fmt: skip
    assert [one.InstanceNumber for one in read] == [1, 2, 3, 4] and along == sorted(along)


def test_a_volume_and_its_repetitions(taker, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    sent = [image(numbered((3, NY, NX), 90 * r).astype("f4"), ORIENTATIONS["oblique"], (1, 2, 3), repetition=r,
                  image_index=r + 1) for r in (1, 0)]  # fmt: skip
    scan = taker.scan(sent)
    path = tmp_path / "volume.nii"
    path.write_bytes(taker.file(f"scan={scan}&format=nifti", f"scan_{scan}_series_1.nii"))
    volume = np.asarray(nibabel.load(path).dataobj)
    assert volume.shape == (NX, NY, 3, 2)
    for one in sent:  # in the order of repetitions, not of arrival
        np.testing.assert_array_equal(volume[..., one.repetition].T, one.data[0])


def test_series_channels_and_parts_are_files_of_their_own(taker, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(3)
    pixels = (rng.standard_normal((2, 1, NY, NX)) + 1j * rng.standard_normal((2, 1, NY, NX))).astype("c8")
    sent = [image(pixels), image(numbered((NY, NX)).astype("i2"), image_series_index=2)]
    scan = taker.scan(sent)
    files = taker.zip(f"scan={scan}&format=nifti", f"scan_{scan}_nifti.zip")
    coils = {f"scan_{scan}_series_1_c{c:02}_{part}.nii": f(pixels[c, 0])
             for c in (0, 1) for part, f in (("magnitude", np.abs), ("phase", np.angle))}  # fmt: skip
    assert sorted(files) == sorted([*coils, f"scan_{scan}_series_2.nii"])
    for name, truth in coils.items():
        (tmp_path / name).write_bytes(files[name])
        got = np.asarray(nibabel.load(tmp_path / name).dataobj)[..., 0].T
        np.testing.assert_allclose(got, truth, rtol=1e-6, atol=1e-6)  # of float32
    only = taker.file(f"scan={scan}&format=nifti&series=2", f"scan_{scan}_series_2.nii")
    assert only == files[f"scan_{scan}_series_2.nii"]


@pytest.mark.parametrize("dtype", ["u2", "i2", "f4", "f8", "c8"])
def test_hdf5_has_the_very_pixels(taker, tmp_path, dtype):
    pixels = numbered((3, 2, 1, NY, NX)).astype(dtype)
    sent = [image(one, repetition=i, image_index=i + 1, meta={"own": "a < b".replace("<", "&lt;")})
            for i, one in enumerate(pixels)]  # fmt: skip
    scan = taker.scan(sent)
    path = tmp_path / "images.h5"
    path.write_bytes(taker.file(f"scan={scan}&format=hdf5", f"scan_{scan}.h5"))
    heads, got = scans.read_images(path)
    np.testing.assert_array_equal(got, pixels)
    assert list(heads["repetition"]) == [0, 1, 2]
    dataset = ismrmrd.Dataset(str(path), "dataset", create_if_needed=False)
    assert dataset.number_of_images("image_1") == 3
    one = dataset.read_image("image_1", 2)
    np.testing.assert_array_equal(one.data, pixels[2])
    assert ismrmrd.Meta.deserialize(one.attribute_string)["own"] == "a < b"


def test_the_stream_is_what_the_client_got(taker):
    scan = taker.scan([image(numbered((NY, NX)).astype("f4"))])
    body = taker.file(f"scan={scan}", f"scan_{scan}.mrd")
    assert taker.file(f"scan={scan}&format=mrd", f"scan_{scan}.mrd") == body
    reply = wire.parse(body + wire.close())
    np.testing.assert_array_equal(reply.images[0].pixels[0, 0], numbered((NY, NX)))


def test_pictures_have_one_window(taker, tmp_path):
    """Black is 0, white the 99.5th percentile of all images of the series."""
    first = np.linspace(0, 1000, 20 * 20).reshape(20, 20).astype("f4")
    scan = taker.scan([image(first), image(0.5 * first, repetition=1, image_index=2)])
    files = taker.zip(f"scan={scan}&format=png", f"scan_{scan}_png.zip")
    assert sorted(files) == ["series_1_0001.png", "series_1_0002.png"]
    high = np.quantile(np.concatenate([first, 0.5 * first]), 0.995)
    for name, truth in zip(sorted(files), (first, 0.5 * first)):
        (tmp_path / name).write_bytes(files[name])
        wanted = np.clip(truth / high * 255, 0, 255)
        # The percentile is known to 1/256 of itself, and grey is rounded.
        assert np.abs(read_png(tmp_path / name) - wanted).max() <= 255 / 256 + 0.51


def test_dicom_says_nothing_of_the_patient_unless_told_to(taker, tmp_path):
    pydicom = pytest.importorskip("pydicom")
    shown = Taker(tmp_path / "shown", "--admin-show-subject", "true")
    for one, known in ((taker, False), (shown, True)):
        scan = one.scan([image(numbered((NY, NX)).astype("f4"), meta={"PatientName": "Doe^Jane"})])
        (body,) = one.zip(f"scan={scan}&format=dicom", f"scan_{scan}_dicom.zip").values()
        read = pydicom.dcmread(io.BytesIO(body))
        assert (b"Doe" in body, b"4711" in body, b"House" in body) == (known, known, known)
        assert str(read.PatientName) == ("Doe^Jane" if known else "")
        assert read.ProtocolName == "t2 star map" and float(read.RepetitionTime) == 500
        assert (read.StudyInstanceUID == "1.2.826.0.1.42") == known
        stream = one.file(f"scan={scan}", f"scan_{scan}.mrd")
        assert (b"Doe" in stream) == known
    assert shown.server.stop() == 0


def test_what_stands_against_a_file_is_said(taker):
    uneven = slices(np.eye(3), 3)
    uneven[2].position = (10, -20, 60)
    scan = taker.scan(uneven)
    for method in ("GET", "HEAD"):
        status, _, body = taker.get(f"scan={scan}&format=nifti", method=method)
        assert status == 409 and (method == "HEAD" or b"series 1 has slices whose distances differ" in body)
    both = taker.scan([image(numbered((NY, NX)).astype("f4")), image(numbered((NY, NX + 1)).astype("f4"), repetition=1)])
    for form, words in (("nifti", b"several sizes"), ("hdf5", b"take the MRD stream")):
        status, _, body = taker.get(f"scan={both}&format={form}")
        assert status == 409 and words in body, body
    status, headers, _ = taker.get(f"scan={both}&format=dicom", method="HEAD")
    assert status == 200 and f"scan_{both}_dicom.zip" in headers["Content-Disposition"]
    for query in ("scan=999&format=dicom", f"scan={both}&format=nifti&series=9", f"scan={both}&format=png&series=1,2"):
        assert taker.get(query)[0] == 404
    status, _, body = taker.get(f"scan={both}&format=exe%22%0d%0aX:y")
    assert status == 404 and b"nifti" in body
    status, _, body = taker.get(f"scan={both}&format=nifti", token="not-a-token-of-anybody")
    assert status == 401 and b"log in" in body


def test_places_are_few(tmp_path):
    """Silent takers hold their places, and no more."""
    taker = Taker(tmp_path / "server", "--recent-images-mib", "64", "--memory-mib", "512")
    pixels = np.zeros((16, 512, 512), "f4")
    scan = taker.scan([image(pixels, repetition=r, image_index=r + 1) for r in range(3)])
    taken = []
    for _ in range(4):  # who reads nothing
        connection = http.client.HTTPConnection(*taker.server.admin, timeout=20)
        connection.request("GET", f"/live/download?scan={scan}&format=nifti", headers={"Authorization": f"Bearer {TOKEN}"})
        taken.append(connection.getresponse())
        assert taken[-1].status == 200
    status, _, body = taker.get(f"scan={scan}&format=nifti")
    assert status == 503 and b"4 files are being made already" in body
    for answer in taken:
        answer.close()
    # A scan goes on meanwhile, and places come back.
    assert taker.scan([image(pixels[:1])]) == 2
    for _ in range(100):
        status, _, body = taker.get(f"scan={scan}&format=nifti")
        if status == 200:
            break
        time.sleep(0.1)
    assert len(body) == 352 + 3 * pixels.nbytes
    assert taker.server.stop() == 0
