"""Images: geometry, pictures, NIfTI, stacks."""

import gzip
import struct
import zlib

import numpy as np
import pytest

import echotrain
from echotrain import nifti, picture


def read_png(data):
    """An unfiltered grey 8-bit PNG, by the book."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, kinds = 8, b"", []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        kinds.append(kind)
        packed += body if kind == b"IDAT" else b""
        if kind == b"IHDR":
            width, height, *rest = struct.unpack(">IIBBBBB", body)
            assert rest == [8, 0, 0, 0, 0]
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def oblique():
    """Two directions in a tilted plane and their normal."""
    a, b = np.radians(30), np.radians(20)
    read = np.array([np.cos(a), np.sin(a), 0])
    phase = np.array([-np.sin(a) * np.cos(b), np.cos(a) * np.cos(b), np.sin(b)])
    return read, phase, np.cross(read, phase)


def make(pixels, position=(0, 0, 0), size=(2.0, 3.0, 5.0), **fields):
    read, phase, normal = oblique()
    shape = (1,) * (4 - np.ndim(pixels)) + np.shape(pixels)
    fov = [n * s for n, s in zip(shape[:0:-1], size)]
    return echotrain.Image(pixels, position=position, field_of_view=fov, read_dir=read, phase_dir=phase,
                           slice_dir=normal, **fields)  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 5, 6), (4, 5, 6), (3, 4, 7)])
def test_the_affine_finds_voxels_in_the_patient(shape):
    """Voxel floor(n/2) lies at the position, and a step along x, y or z is one voxel along its direction; LPS -> RAS."""
    image = make(np.zeros(shape, np.float32), position=(10, -20, 30))
    to_lps = np.diag([-1, -1, 1])
    centre = np.array([n // 2 for n in shape[::-1]])

    def place(voxel):
        return to_lps @ (image.affine @ np.append(voxel, 1))[:3]

    np.testing.assert_allclose(place(centre), (10, -20, 30), atol=1e-4)
    for axis, (direction, size) in enumerate(zip(oblique(), (2, 3, 5))):
        step = np.eye(3)[axis]
        np.testing.assert_allclose(place(centre + step) - place(centre), size * direction, atol=1e-5)
    np.testing.assert_allclose(image.voxel_size, (2, 3, 5), rtol=1e-6)


def test_directions_that_are_not_given_are_the_axes():
    image = echotrain.Image(np.zeros((4, 4), np.float32), read_dir=(0, 0, 0), phase_dir=(0, 0, 0), slice_dir=(0, 0, 0))
    np.testing.assert_array_equal(image.affine, [[-1, 0, 0, 2], [0, -1, 0, 2], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_what_an_image_says():
    image = make(np.ones((2, 1, 4, 6), np.complex64), repetition=3, slice=1, image_index=7, image_series_index=2)
    assert (image.index, image.series, image.repetition, image.slice, image.contrast) == (7, 2, 3, 1, 0)
    assert image.image_type == "complex" and np.asarray(image).shape == (2, 1, 4, 6)
    assert "6 x 4, 2 channels, slice 1, repetition 3" in repr(image)
    image.set_meta({"<b>": "<script>"})
    page = image._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page and "image/png;base64," in page
    for bad in ("<not xml", "<!DOCTYPE a><ismrmrdMeta/>", ""):
        assert echotrain.Image(np.zeros((2, 2), np.float32), attributes=bad).meta == {}
    with pytest.raises(echotrain.ScanError, match="int64"):
        echotrain.Image(np.zeros((2, 2), np.int64))
    with pytest.raises(TypeError, match="colour"):
        echotrain.Image(np.zeros((2, 2), np.float32), colour=1)


def test_pictures():
    rng = np.random.default_rng(3)
    pixels = rng.standard_normal((7, 9)).astype(np.float32)
    image = echotrain.Image(pixels)
    grey = read_png(image.png(window=(-1, 2)))
    expected = np.clip((pixels + 1) / 3, 0, 1) * 255
    assert np.abs(grey - expected).max() <= 0.501
    # 0 is black, and the 99.5th percentile white.
    image = echotrain.Image(np.linspace(0, 100, 101, dtype=np.float32).reshape(1, 101))
    assert [int(v) for v in image.picture()[0, [0, 50, 100]]] == [0, round(50 / 99.5 * 255), 255]
    phase = echotrain.Image(np.array([[-np.pi, 0, np.pi, np.nan]], np.float32), image_type=2)
    assert phase.picture().tolist() == [[0, 128, 255, 0]]
    for odd in (np.zeros((3, 3)), np.full((3, 3), np.nan), np.full((3, 3), np.inf)):
        assert echotrain.Image(odd.astype(np.float32)).picture().shape == (3, 3)
    assert echotrain.Image(np.array([[3 + 4j]], np.complex64)).picture((0, 10)).tolist() == [[128]]


def test_planes_side_by_side(tmp_path):
    """Five planes of 2 x 3 in a grid of 2 rows and 3 columns."""
    planes = np.arange(5 * 2 * 3, dtype=np.float32).reshape(5, 1, 2, 3)
    grid = picture.mosaic(planes[:, 0])
    assert grid.shape == (4, 9)
    np.testing.assert_array_equal(grid[:2, 3:6], planes[1, 0])
    np.testing.assert_array_equal(grid[2:, :3], planes[3, 0])
    assert not grid[2:, 6:].any()
    echotrain.Image(planes).save_png(tmp_path / "a.png", window=(0, 255))
    np.testing.assert_array_equal(read_png((tmp_path / "a.png").read_bytes()), grid)


def test_stacks():
    images = [echotrain.Image(np.full((2, 2), 10 * c + s, np.float32), contrast=c, slice=s)
              for s in (4, 0) for c in (1, 0)]  # fmt: skip
    assert [int(v) for v in echotrain.stack(images)[:, 0, 0, 0, 0]] == [14, 4, 10, 0]
    cube = echotrain.stack(images, by=("contrast", "slice"))
    assert cube.shape == (2, 2, 1, 1, 2, 2) and cube[..., 0, 0, 0, 0].tolist() == [[0, 4], [10, 14]]
    for bad, by, said in (
        (images[:3], ("contrast", "slice"), "no image has contrast 0, slice 0"),
        (images, ("contrast",), "two images have contrast 1"),
        (images, ("colour",), "no counter 'colour'"),
        ([], (), "no images"),
        ([images[0], echotrain.Image(np.zeros((3, 3), np.float32))], (), "differ in shape"),
    ):
        with pytest.raises(echotrain.StackError, match=said):
            echotrain.stack(bad, by)


def fields(content):
    """The fields of a NIfTI-1 header by the offsets in the format's definition."""
    head = {"size": struct.unpack("<i", content[:4])[0], "dim": struct.unpack("<8h", content[40:56])}
    head["datatype"], head["bitpix"] = struct.unpack("<hh", content[70:74])
    head["pixdim"], head["offset"] = struct.unpack("<8f", content[76:108]), struct.unpack("<f", content[108:112])[0]
    head["slope"], head["units"] = struct.unpack("<f", content[112:116])[0], content[123]
    head["codes"] = struct.unpack("<hh", content[252:256])
    head["quatern"] = struct.unpack("<6f", content[256:280])
    head["srow"] = np.array(struct.unpack("<12f", content[280:328])).reshape(3, 4)
    head["magic"] = content[344:348]
    return head


def from_quaternion(head):
    """Method 2 of the format's definition."""
    b, c, d, *offset = head["quatern"]
    a = np.sqrt(max(0.0, 1 - b * b - c * c - d * d))
    rotation = np.array([
        [a * a + b * b - c * c - d * d, 2 * b * c - 2 * a * d, 2 * b * d + 2 * a * c],
        [2 * b * c + 2 * a * d, a * a + c * c - b * b - d * d, 2 * c * d - 2 * a * b],
        [2 * b * d - 2 * a * c, 2 * c * d + 2 * a * b, a * a + d * d - c * c - b * b],
    ])  # fmt: skip
    size = np.array(head["pixdim"][1:4])
    size[2] *= head["pixdim"][0]
    return np.column_stack([rotation * size, offset])


@pytest.mark.parametrize("handed", [1, -1], ids=["right_handed", "left_handed"])
@pytest.mark.parametrize(("kind", "code"), [(np.float32, 16), (np.uint16, 512), (np.complex64, 32)])
def test_nifti_of_a_volume(tmp_path, kind, code, handed):
    pixels = (1000 * np.random.default_rng(4).random((3, 4, 5))).astype(kind)
    image = make(pixels, position=(5, 6, 7))
    image.head["slice_dir"] *= handed
    assert np.linalg.det(image.affine) * handed > 0
    image.save_nifti(tmp_path / "a.nii")
    image.save_nifti(tmp_path / "a.nii.gz")
    content = (tmp_path / "a.nii").read_bytes()
    assert gzip.decompress((tmp_path / "a.nii.gz").read_bytes()) == content
    head = fields(content)
    assert (head["size"], head["magic"], head["offset"], head["slope"]) == (348, b"n+1\0", 352, 1)
    assert head["dim"][:4] == (3, 5, 4, 3) and (head["datatype"], head["bitpix"]) == (code, 8 * pixels.itemsize)
    assert head["codes"] == (1, 1) and head["units"] == 10
    np.testing.assert_allclose(head["srow"], image.affine[:3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(from_quaternion(head), image.affine[:3], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.frombuffer(content, kind, offset=352).reshape(3, 4, 5), pixels)


def test_nifti_of_slices_and_times():
    """Slices in any order, 6 mm apart though 5 mm thick, and two repetitions."""
    normal = oblique()[2]
    values = {}
    images = []
    for repetition in range(2):
        for index in (2, 0, 1):
            values[repetition, index] = np.random.default_rng([repetition, index]).random((4, 5)).astype(np.float32)
            images.append(make(values[repetition, index], position=6 * index * normal, slice=index, repetition=repetition))
    content = nifti.nifti_bytes(images)
    head = fields(content)
    assert head["dim"][:5] == (4, 5, 4, 3, 2)
    assert head["pixdim"][3] == pytest.approx(6)
    voxels = np.frombuffer(content, np.float32, offset=352).reshape(2, 3, 4, 5)
    for (repetition, index), plane in values.items():
        np.testing.assert_array_equal(voxels[repetition, index], plane)
        centre = head["srow"] @ [2, 2, index, 1] * [-1, -1, 1]
        np.testing.assert_allclose(centre, 6 * index * normal, atol=1e-4)


def test_nifti_says_what_does_not_fit(tmp_path):
    flat = np.zeros((4, 5), np.float32)
    normal = oblique()[2]
    uneven = [make(flat, position=at * normal) for at in (0, 5, 11)]
    for bad, said in (
        (uneven, "evenly spaced"),
        ([make(flat), make(flat, position=5 * normal), make(flat)], "different numbers"),
        ([make(flat), make(flat, size=(1, 1, 1))], "differs"),
        ([], "no images"),
    ):
        with pytest.raises(echotrain.StackError, match=said):
            echotrain.save_nifti(bad, tmp_path / "a.nii")
    with pytest.raises(echotrain.EchotrainError, match="end it with"):
        make(flat).save_nifti(tmp_path / "a.img")


def test_nibabel_reads_the_same(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    image = make(np.random.default_rng(5).random((2, 3, 4, 5)).astype(np.float32), position=(1, 2, 3))
    image.save_nifti(tmp_path / "a.nii.gz")
    loaded, made = nibabel.load(tmp_path / "a.nii.gz"), echotrain.to_nibabel([image])
    np.testing.assert_allclose(loaded.affine, image.affine, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded.get_qform(), image.affine, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made.affine, image.affine, rtol=1e-6)
    assert loaded.header.get_xyzt_units() == ("mm", "sec")
    for volume in (loaded.get_fdata()[:, :, :, 0], made.get_fdata()[:, :, :, 0]):
        np.testing.assert_allclose(volume.transpose(3, 2, 1, 0), image.data, rtol=1e-6)
