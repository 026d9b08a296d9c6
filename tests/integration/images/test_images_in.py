"""Images in, images out: what a host sends comes back in its own type, with its attributes, changed only where a gadget
says so. The `ismrmrd` package encodes and decodes."""

import struct

import numpy as np
import pytest

import chains
import scans
import wire
from programs import SOURCE, Server, run_client

ismrmrd = pytest.importorskip("ismrmrd")

PAGE = (SOURCE / "docs" / "protocol.md").read_text()
TYPES = ["uint16", "int16", "uint32", "int32", "float32", "float64", "complex64", "complex128"]
DUMMY = wire.header("Dummy XML header")


def image(pixels, meta=None, kind=ismrmrd.IMTYPE_MAGNITUDE, **fields):
    """The message of an image [(channel, z,) y, x] of 2 mm voxels. The package takes int32 for int64, so the bytes of
    those pixels are written here."""
    pixels = np.ascontiguousarray(pixels)
    plain = pixels.astype("int16") if pixels.dtype == np.int32 else pixels
    made = ismrmrd.Image.from_array(plain, transpose=False, image_type=kind)
    made.field_of_view = tuple(2.0 * n for n in made.matrix_size)
    made.read_dir, made.phase_dir, made.slice_dir = (1, 0, 0), (0, 1, 0), (0, 0, 1)
    made.image_series_index = made.image_index = 1
    for name, value in fields.items():
        setattr(made, name, value)
    if meta:
        made.attribute_string = ismrmrd.Meta(meta).serialize()
    message = wire.image_of_package(made)
    if pixels.dtype == np.int32:
        message = wire.changed(message[: -plain.nbytes], data_type=ismrmrd.DATATYPE_INT) + pixels.tobytes()
    return message


def decoded(reply):
    """The images of a reply by the package, with their meta attributes; of int32 by the tests' own reader."""
    out = []
    for back in reply.images:
        text = back.attributes.encode()
        data = back.head.tobytes() + struct.pack("<Q", len(text)) + text + back.pixels.tobytes()
        by_package = None if back.pixels.dtype == np.int32 else ismrmrd.Image.from_bytes(data)
        if by_package is not None:
            np.testing.assert_array_equal(by_package.data, back.pixels)
        meta = ismrmrd.Meta.deserialize(back.attributes)
        unknown = {name for name in meta if f"`{name}`" not in PAGE} - {"own", "who"}
        assert not unknown, f"docs/protocol.md does not list {unknown}"
        out.append((back.head, back.pixels, meta))
    return out


def pipeline(*gadgets, keys="input: images"):
    return chains.pipeline(*gadgets, keys=keys)


def through(server, config, images, header=DUMMY):
    return chains.through(server, config, header, images)


def picture(dtype, shape=(2, 3, 8, 6), seed=1):
    """Random pixels of this type, integers of up to 16 bits."""
    random = np.random.default_rng(seed)
    if dtype.startswith("complex"):
        return (random.standard_normal((*shape, 2)).astype("f4") @ np.array([1, 1j], "c8")).astype(dtype)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype("f4").astype(dtype)
    low = 0 if dtype.startswith("u") else -30000
    return random.integers(low, 30000, shape).astype(dtype)


@pytest.mark.parametrize("header", ["dummy", "measurement"])
def test_all_pixel_types_come_back_as_they_went(served, header):
    sent, messages = [], []
    for number, dtype in enumerate(TYPES):
        kinds = [5] if dtype.startswith("complex") else [1, 2] if dtype.startswith("u") else [2, 3, 4]
        for kind in kinds:
            pixels = picture(dtype, seed=number)
            sent.append((pixels, kind, 1 + len(sent)))
            fields = {"image_series_index": len(sent), "image_index": 7, "contrast": 2, "position": (1, 2, 3)}
            messages.append(image(pixels, {"DataRole": "Image", "own": ["a", "b <&>"]}, kind, **fields))
    xml = wire.header(scans.header_xml("cartesian", (6, 8, 3)))
    back = decoded(through(served, pipeline("image"), messages, DUMMY if header == "dummy" else xml))
    assert len(back) == len(sent)
    for (head, pixels, meta), (truth, kind, series) in zip(back, sent):
        assert pixels.dtype == truth.dtype
        np.testing.assert_array_equal(pixels, truth)
        assert (head["image_type"], head["image_series_index"], head["image_index"]) == (kind, series, 7)
        assert head["contrast"] == 2 and list(head["position"]) == [1, 2, 3] and head["channels"] == 2
        assert meta["own"] == ["a", "b <&>"] and meta["Keep_image_geometry"] == "1"
        assert meta["ImageRowDir"] == ["1", "0", "0"] and meta["ImageColumnDir"] == ["0", "1", "0"]


def test_volumes_leave_before_the_end_and_in_patient_order(served):
    """A gadget frames images by series, slice and counters; those of other series are not held up."""
    planes = picture("uint16", (4, 8, 6))
    messages = [
        image(planes[n], slice=n, contrast=contrast, position=(0, 0, 3.0 * n), image_series_index=4)
        for contrast in (0, 1)
        for n in (2, 0, 3, 1)
    ]
    back = decoded(through(served, pipeline("stack_slices: {slices: 4}", "image"), messages))
    assert [int(head["contrast"]) for head, _, _ in back] == [0, 1]
    for head, pixels, meta in back:
        np.testing.assert_array_equal(pixels[0], planes)
        assert list(head["matrix_size"]) == [6, 8, 4] and head["field_of_view"][2] == 12 and head["position"][2] == 6
        assert pixels.dtype == np.uint16 and meta["slices"] == "4"


def test_display_turns_scales_and_says_so(served):
    """Sagittal planes whose rows run upwards, with a window and a mini header of their own."""
    pixels = picture("uint16", (8, 6))
    meta = {"WindowCenter": "99", "WindowWidth": "50", "IceMiniHead": "abc", "ImageRowDir": ["0", "0", "1"]}
    meta["who"] = "host"
    axes = {"read_dir": (0, 0, 1), "phase_dir": (0, 1, 0), "slice_dir": (-1, 0, 0)}
    messages = [image(pixels, meta, slice=n, position=(-4.0 * n, 0, 0), **axes) for n in range(2)]
    ((head, out, said),) = decoded(through(served, wire.config_file("images_display"), messages))
    assert list(head["read_dir"]) == [0, 1, 0] and list(head["phase_dir"]) == [0, 0, -1]  # to the back, to the feet
    assert said["ImageRowDir"] == ["0", "1", "0"] and said["ImageColumnDir"] == ["0", "0", "-1"]
    assert "IceMiniHead" not in said and said["who"] == "host"
    assert (said["WindowCenter"], said["WindowWidth"]) == ("500", "1000")
    turned = np.stack([pixels.T[::-1]] * 2)  # rows were columns; the head is up
    factor = float(said["scale_factor"])
    np.testing.assert_allclose(out[0], np.round(turned * factor), atol=1)
    assert out.dtype == np.uint16
    level = np.sort(turned.ravel())[int(0.995 * (turned.size - 1))]
    assert abs(factor * level - 1000) < 1e-2


def test_inverted_images_are_the_maximum_minus_the_value(served):
    first, second = picture("uint16", (8, 6), 1), picture("uint16", (8, 6), 2) // 2
    messages = [image(p, image_index=i + 1) for i, p in enumerate((first, second))]
    back = decoded(through(served, wire.config_file("images_invert"), messages))
    for (_, pixels, meta), truth in zip(back, (first, second), strict=True):
        np.testing.assert_array_equal(pixels[0, 0], np.maximum(int(first.max()) - truth.astype(int), 0))
        assert float(meta["WindowWidth"]) == first.max() and meta["SequenceDescriptionAdditional"] == "INVERTED"
        assert meta["ImageProcessingHistory"] == ["INVERT", "ECHOTRAIN"]


@pytest.mark.parametrize("dtype", ["uint16", "float32", "complex64"])
def test_denoised_images_have_less_noise(served, dtype):
    y, x = np.mgrid[:64, :64]
    truth = np.where((x - 32) ** 2 + (y - 32) ** 2 < 400, 1000.0, 200.0)
    noise = 30 * (np.random.default_rng(3).standard_normal((64, 64, 2)) @ np.array([1, 1j]))
    noisy = (truth + (noise if dtype == "complex64" else noise.real)).astype(dtype)
    sent = image(noisy, kind=5 if dtype == "complex64" else 1)
    ((_, out, meta),) = decoded(through(served, wire.config_file("images_denoise"), [sent]))
    assert out.dtype == noisy.dtype and abs(float(meta["denoise_level"]) - 30) < 5
    error = np.linalg.norm(out[0, 0] - truth) / np.linalg.norm(noisy.astype("c16") - truth)
    assert error < 0.6, error


def test_readouts_and_images_that_a_pipeline_cannot_use_are_told(served):
    xml = wire.header(scans.header_xml("cartesian", (8, 8, 1), readouts=8))
    lines = [wire.acquisition(np.ones((1, 8)), step1=y, flags=wire.LAST_IN_SLICE * (y == 7)) for y in range(8)]
    pixels = picture("float32", (4, 4))
    reply = through(served, pipeline("image"), [*lines, image(pixels)], xml)
    assert len(reply.images) == 1 and len([t for t in reply.texts if "readouts are left out" in t]) == 1
    reply = through(served, wire.config_file("cartesian_plain"), [image(pixels), *lines], xml)
    assert len(reply.images) == 1 and any("has no use for images" in t for t in reply.texts)


def test_a_scan_of_the_other_kind_is_refused_at_its_end(served):
    xml = wire.header(scans.header_xml("cartesian", (8, 8, 1), readouts=8))
    lines = [wire.acquisition(np.ones((1, 8)), step1=y) for y in range(8)]
    for name, sent, words in (("cartesian_plain", [image(picture("float32", (4, 4)))], "the scan has 1 image and no readout"),
                              ("images_denoise", lines, "the scan has 8 readouts and no image")):  # fmt: skip
        reply = wire.exchange(served.address, [wire.config_file(name), xml, *sent, wire.close()])
        assert not reply.images and any("bad-data" in t and words in t for t in reply.errors()), reply.texts


def test_a_dummy_header_is_for_images_only(served):
    reply = wire.exchange(served.address, [wire.config_file("cartesian_plain"), DUMMY, wire.close()])
    assert any("bad-header" in t for t in reply.errors())


def test_wrong_pipelines_are_refused_by_line(served):
    for config, words in (
        (pipeline("noise_adjust"), "6:5: with 'input: images' a pipeline begins with images, but 'noise_adjust' takes"),
        (pipeline("image", keys="input: pictures"), "4:8: "),
        (pipeline("image", keys="input: images\nframe: auto"), "5:8: 'frame', 'trajectory_unit' and 'accelerated' are for readouts"),
        (pipeline("orient", "image", keys="backend: auto"), "for images of the client write 'input: images'"),
        (pipeline("image: {component: phase, type: uint16}"), "6:5: 'image': type uint16 holds no negative"),
    ):
        reply = wire.exchange(served.address, [config, DUMMY, wire.close()])
        assert any("bad-config" in t and words in t for t in reply.errors()), reply.texts


def test_an_image_above_the_bound_of_a_message_is_refused(served):
    head = wire.changed(image(np.zeros((2, 2), "f4")), matrix_size=(65535, 4097, 1))[:200]
    reply = wire.exchange(served.address, [pipeline("image"), DUMMY, head])
    assert any("too-large" in t or "bad-image" in t for t in reply.errors()), reply.texts


def test_images_beyond_the_sessions_memory_end_only_their_session(tmp_path):
    server = Server(tmp_path, "--backend", "cpu", "--session-memory-mib", "64")
    large = image(np.ones((1, 6, 1024, 1024), "uint16"))  # 12 MiB, 48 MiB as complex numbers, and its filtered copies
    reply = wire.exchange(server.address, [pipeline("filter", "image"), DUMMY, large, wire.close()])
    assert any("resources" in t or "budget" in t for t in reply.errors()), reply.texts
    # Attributes that are held count, too.
    wordy = [image(np.ones((4, 4), "f4"), {"own": "x" * (1 << 20)}, slice=n) for n in range(36)]
    reply = wire.exchange(server.address, [pipeline("stack_slices", "image"), DUMMY, *wordy, wire.close()])
    assert any("resources" in t or "budget" in t for t in reply.errors()), reply.texts
    small = picture("int16", (4, 4))
    reply = wire.exchange(server.address, [pipeline("image"), DUMMY, image(small, kind=3), wire.close()])
    np.testing.assert_array_equal(reply.images[0].pixels[0, 0], small)
    assert server.stop() == 0


def test_files_of_images_go_through_the_clients(served, tmp_path):
    """`send` and `recon` take a file of images, with a header or without."""
    pixels = picture("float32", (1, 1, 8, 6))
    dataset = ismrmrd.Dataset(tmp_path / "images.h5", "dataset", create_if_needed=True)
    for _ in range(2):
        made = ismrmrd.Image.from_array(pixels, transpose=False, image_type=1, image_series_index=1)
        dataset.append_image("image_1", made)
    dataset.close()
    sent = served.send(tmp_path / "images.h5", "images_invert", tmp_path / "sent.h5")
    assert sent.returncode == 0, sent.stderr
    made = run_client("recon", tmp_path / "images.h5", "-c", "images_invert", "-o", tmp_path / "recon.h5")
    assert made.returncode == 0, made.stderr
    truth = np.abs(pixels).max() - np.abs(pixels)
    for name in ("sent", "recon"):
        out = scans.read_images(tmp_path / f"{name}.h5")[1]
        assert len(out) == 2
        np.testing.assert_allclose(out[0].reshape(8, 6), truth[0, 0], atol=1e-6)
