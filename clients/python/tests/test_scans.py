"""What is sent for arrays and files, and what is refused."""

import inspect
import json
import os
import pathlib

import numpy as np
import pytest

import echotrain
from echotrain import codec, layout
from echotrain.pipeline import encode_pipeline, pipeline_text, with_token


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal((*shape, 2)).astype(np.float32).view(np.complex64)[..., 0]


def sent(*arguments, **options):
    scan = echotrain.make_scan(*arguments, **options)
    readouts = list(scan.items)
    assert scan.readouts == len(readouts)
    return readouts, echotrain.Header.parse(scan.xml)


def counters(readout):
    return {name: int(readout.head["idx"][name]) for name in layout.COUNTERS if readout.head["idx"][name]}


def test_cartesian_lines():
    kspace = noise(2, 3, 4, 8)
    readouts, header = sent(kspace, matrix=(4, 4), fov=(100, 200))
    assert len(readouts) == 8
    for number, readout in enumerate(readouts):
        repetition, line = divmod(number, 4)
        np.testing.assert_array_equal(readout.data, kspace[repetition, :, line])
        assert readout.trajectory is None
        idx = readout.head["idx"]
        assert (int(idx["repetition"]), int(idx["kspace_encode_step_1"])) == (repetition, line)
        assert readout.flags == {0: layout.FIRST_IN_SLICE, 3: layout.LAST_IN_SLICE}.get(line, 0)
        assert (int(readout.head["center_sample"]), int(readout.head["scan_counter"])) == (4, number)
    # Twice as many samples as voxels: oversampled, so twice the field of view.
    assert (header.matrix, header.fov) == ((8, 4, 1), (200, 200, 25))
    assert (header.recon_matrix, header.recon_fov) == ((4, 4, 1), (100, 200, 25))
    assert header.limits["repetition"] == (0, 1, 0) and header.limits["kspace_encoding_step_1"] == (0, 3, 2)
    assert header.trajectory == "cartesian" and header.coils == 3


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4, 8), None),
        ((3, 4, 8), None),
        ((2, 3, 4, 8), None),
        ((2, 3, 5, 4, 8), None),
        ((3, 8, 4), "coil sample line"),
        ((2, 3, 2, 4, 8), "contrast, coil, slice, line, sample"),
        ((8, 4, 3, 2), ["sample", "line", "coil", "average"]),
    ],
)
def test_axes(shape, axes):
    """Every sample finds its place: k-space holds its own indices."""
    defaults = {2: "line sample", 3: "coil line sample", 4: "repetition coil line sample",
                5: "repetition coil partition line sample"}  # fmt: skip
    names = (
        defaults[len(shape)] if axes is None else axes.replace(",", " ") if isinstance(axes, str) else " ".join(axes)
    ).split()
    kspace = np.arange(np.prod(shape)).reshape(shape) + 0j
    place = {"line": "kspace_encode_step_1", "partition": "kspace_encode_step_2"}
    readouts, _ = sent(kspace, axes=axes)
    found = np.full(shape, -1 + 0j)
    for readout in readouts:
        for coil in range(readout.data.shape[0]):
            index = [
                slice(None)
                if name == "sample"
                else coil
                if name == "coil"
                else readout.head["idx"][place.get(name, name)]
                for name in names
            ]
            found[tuple(index)] = readout.data[coil]
    np.testing.assert_array_equal(found, kspace)
    assert sum(bool(r.flags & layout.LAST_IN_SLICE) for r in readouts) == np.prod(
        [n for n, name in zip(shape, names) if name not in ("coil", "partition", "line", "sample", "average")]
    )


def test_averages_are_one_frame():
    """Its first readout opens it, its last one ends it."""
    readouts, header = sent(noise(3, 2, 4, 8), axes="average coil line sample")
    assert [r.flags for r in readouts] == [layout.FIRST_IN_SLICE, *[0] * 10, layout.LAST_IN_SLICE]
    assert [counters(r).get("average", 0) for r in readouts] == [0] * 4 + [1] * 4 + [2] * 4
    assert header.limits["average"] == (0, 2, 0)


def test_trajectories():
    kspace, k = noise(2, 3, 5, 8), np.random.default_rng(2).random((5, 8, 2)) - 0.5
    k[0, 6] = 0
    weights = np.random.default_rng(3).random((5, 8))
    readouts, header = sent(kspace, k, matrix=16, fov=160, density=weights)
    assert (header.matrix, header.fov, header.trajectory) == ((16, 16, 1), (160, 160, 10), "other")
    for number, readout in enumerate(readouts):
        np.testing.assert_array_equal(readout.trajectory[:, :2], k[number % 5].astype(np.float32))
        np.testing.assert_array_equal(readout.trajectory[:, 2], weights[number % 5].astype(np.float32))
        assert int(readout.head["center_sample"]) == 6
    per_frame = np.stack([k, -k])
    for number, readout in enumerate(sent(kspace, per_frame, matrix=16)[0]):
        np.testing.assert_array_equal(readout.trajectory, per_frame[number // 5, number % 5].astype(np.float32))
    for readout, plain in zip(sent(kspace, k[..., 0] + 1j * k[..., 1], matrix=16)[0], sent(kspace, k, matrix=16)[0]):
        np.testing.assert_array_equal(readout.trajectory, plain.trajectory)


def test_partitions_share_the_spokes():
    kspace, k = noise(1, 2, 3, 4, 8), np.random.default_rng(2).random((4, 8, 2)) - 0.5
    readouts, header = sent(kspace, k, matrix=8)
    assert header.matrix == (8, 8, 3) and header.limits["kspace_encoding_step_2"] == (0, 2, 1)
    for number, readout in enumerate(readouts):
        np.testing.assert_array_equal(readout.trajectory, k[number % 4].astype(np.float32))
        np.testing.assert_array_equal(readout.data, kspace[0, :, number // 4, number % 4])
    cube = np.random.default_rng(3).random((4, 8, 3)) - 0.5
    assert sent(noise(2, 4, 8), cube, matrix=8)[1].matrix == (8, 8, 8)


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("cycles_per_pixel", (1, 1)),
        ("cycles_per_fov", (16, 32)),
        ("radians_per_pixel", (2 * np.pi, 2 * np.pi)),
        ("cycles_per_m", (1000 / 2, 1000 / 4)),  # pixels of 2 and 4 mm
    ],
)
def test_units(unit, scale):
    k = np.random.default_rng(2).random((5, 8, 2)) - 0.5
    readouts, _ = sent(noise(1, 5, 8), k * scale, matrix=(16, 32), fov=(32, 128), trajectory_unit=unit)
    np.testing.assert_allclose(np.stack([r.trajectory for r in readouts]), k, rtol=1e-6)


def test_noise_comes_first():
    measured = noise(3, 100)
    readouts, _ = sent(noise(3, 4, 8), noise=measured)
    assert [r.flags & layout.NOISE for r in readouts] == [layout.NOISE, 0, 0, 0, 0]
    np.testing.assert_array_equal(readouts[0].data, measured)


k2 = np.zeros((4, 8, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((np.zeros((4, 8)),), {}, "must be complex"),
        ((noise(8),), {}, "1 axes needs axes"),
        ((noise(2, 4, 8),), {"axes": "coil line line"}, "each once"),
        ((noise(2, 4, 8),), {"axes": "coil line"}, "3 axes"),
        ((noise(2, 4, 8),), {"axes": "coil line time"}, "with: average"),
        ((noise(2, 4),), {"axes": "coil line"}, "'line' and 'sample'"),
        ((noise(2, 0, 8),), {}, "0 lines"),
        ((noise(2, 4, 8), k2), {}, "give matrix=n"),
        ((noise(2, 4, 8), np.zeros((4, 9, 2))), {"matrix": 8}, r"\(4, 9, 2\).*\(4, 8, 2\)"),
        ((noise(3, 2, 4, 8), np.zeros((2, 4, 8, 2))), {"matrix": 8}, r"needs \(4, 8, 2\) or \(3, 4, 8, 2\)"),
        ((noise(2, 4, 8), np.zeros((4, 8, 4))), {"matrix": 8}, "2 or 3 dimensions"),
        ((noise(2, 4, 8), np.zeros((4, 8))), {"matrix": 8}, r"\[line, sample, dimension\]"),
        ((noise(2, 4, 8), k2), {"matrix": 8, "density": np.zeros((4, 7))}, "the density"),
        ((noise(2, 4, 8), np.zeros((4, 8, 3))), {"matrix": 8, "density": np.zeros((4, 8))}, "2D trajectories only"),
        ((noise(2, 4, 8),), {"density": np.zeros((4, 8))}, "need a trajectory"),
        ((noise(2, 4, 8), k2), {"matrix": 8, "trajectory_unit": "1/cm"}, "not one of: cycles_per_pixel"),
        ((noise(2, 4, 8), k2), {"matrix": 8, "trajectory_type": "rosette"}, "rosette"),
        ((noise(2, 4, 8),), {"matrix": (1, 2, 3, 4)}, "matrix is"),
        ((noise(2, 4, 8),), {"fov": -1}, "fov is"),
        ((noise(2, 4, 8),), {"noise": noise(3, 8)}, "with 2 coils"),
        ((noise(2, 4, 8),), {"header": "<a/>"}, "no encoding"),
        ((noise(2, 4, 8),), {"header": 5}, "not int"),
        (([],), {}, "need a header"),
        ((5,), {"header": "x"}, "not int"),
        ((echotrain.Acquisition(noise(1, 8)),), {"header": "x"}, "one readout is no scan"),
        (([], k2), {"header": "x"}, "trajectory: for k-space arrays only"),
        (("absent.h5",), {}, "no such file"),
        (("absent.h5",), {"matrix": 8}, "matrix: for k-space arrays only"),
        (("absent.npy",), {}, "absent.npy"),
    ],
)
def test_what_is_wrong_is_said(arguments, options, said):
    with pytest.raises(echotrain.ScanError, match=said):
        echotrain.make_scan(*arguments, **options)


def test_npy_files(tmp_path):
    kspace, k = noise(2, 4, 8), k2 + 0.25
    np.save(tmp_path / "kspace.npy", kspace)
    np.save(tmp_path / "k.npy", k)
    np.save(tmp_path / "w.npy", np.ones((4, 8)))
    files, _ = sent(tmp_path / "kspace.npy", tmp_path / "k.npy", density=str(tmp_path / "w.npy"), matrix=8)
    arrays, _ = sent(kspace, k, density=np.ones((4, 8)), matrix=8)
    assert [codec.encode(r) for r in files] == [codec.encode(r) for r in arrays]


def bart(path, values):
    """BART's format by hand: sizes in a text file, values with the first index fastest."""
    sizes = list(values.shape) + [1] * (16 - values.ndim)
    path.with_suffix(".hdr").write_text("# Dimensions\n" + " ".join(map(str, sizes)) + " \n# Command\nsome words\n")
    flat = [values[tuple(reversed(i))] for i in np.ndindex(*reversed(values.shape))]
    path.with_suffix(".cfl").write_bytes(np.array(flat, "<c8").tobytes())


def test_cfl_files(tmp_path):
    values = noise(3, 4, 1, 2, 1, 1)
    bart(tmp_path / "a.cfl", values)
    for name in ("a", "a.cfl", "a.hdr"):
        np.testing.assert_array_equal(echotrain.read_cfl(tmp_path / name), values[..., 0, 0])
    echotrain.write_cfl(tmp_path / "b", values)
    assert (tmp_path / "b.cfl").read_bytes() == (tmp_path / "a.cfl").read_bytes()
    np.testing.assert_array_equal(echotrain.read_cfl(tmp_path / "b"), values[..., 0, 0])
    (tmp_path / "a.cfl").write_bytes(bytes(7))
    with pytest.raises(echotrain.ScanError, match="has 7 bytes"):
        echotrain.read_cfl(tmp_path / "a")
    (tmp_path / "a.hdr").write_text("nothing")
    with pytest.raises(echotrain.ScanError, match="# Dimensions"):
        echotrain.read_cfl(tmp_path / "a")
    with pytest.raises(echotrain.ScanError, match="No such file"):
        echotrain.read_cfl(tmp_path / "absent")


def test_scans_of_bart(tmp_path):
    """Cartesian [x, y, z, coil] with time in dimension 10 and slices in 13."""
    kspace = noise(8, 4, 1, 3, 1, 1, 1, 1, 1, 1, 2, 1, 1, 5)
    bart(tmp_path / "a.cfl", kspace)
    readouts, header = sent(tmp_path / "a")
    assert header.matrix == (8, 4, 1) and len(readouts) == 40
    for readout in readouts:
        at = counters(readout)
        line, time, place = (at.get(n, 0) for n in ("kspace_encode_step_1", "repetition", "slice"))
        np.testing.assert_array_equal(readout.data.T, kspace[:, line, 0, :, 0, 0, 0, 0, 0, 0, time, 0, 0, place])
    bart(tmp_path / "volume.cfl", noise(8, 4, 6, 3))
    assert sent(tmp_path / "volume.cfl")[1].matrix == (8, 4, 6)
    bart(tmp_path / "maps.cfl", noise(8, 4, 1, 3, 2))
    with pytest.raises(echotrain.ScanError, match="dimension 4 has size 2"):
        sent(tmp_path / "maps.cfl")


def test_radial_scans_of_bart(tmp_path):
    """k-space [1, sample, spoke, coil], trajectory [3, sample, spoke] in 1/FOV; the third component is 0."""
    kspace, k = noise(1, 8, 5, 3, 1, 1, 1, 1, 1, 1, 2), np.zeros((3, 8, 5))
    k[:2] = np.random.default_rng(4).random((2, 8, 5)) * 16 - 8
    bart(tmp_path / "k.cfl", kspace)
    bart(tmp_path / "t.cfl", k + 0j)
    readouts, _ = sent(tmp_path / "k", tmp_path / "t", matrix=16)
    assert len(readouts) == 10
    for readout in readouts:
        at = counters(readout)
        spoke, time = at.get("kspace_encode_step_1", 0), at.get("repetition", 0)
        np.testing.assert_array_equal(readout.data.T, kspace[0, :, spoke, :, 0, 0, 0, 0, 0, 0, time])
        np.testing.assert_allclose(readout.trajectory, k[:2, :, spoke].T / 16, rtol=1e-6)
    turning = np.zeros((3, 8, 5, 1, 1, 1, 1, 1, 1, 1, 2)) + 0j
    turning[..., 0], turning[..., 1] = k[..., None, None, None, None, None, None, None], 0.5
    bart(tmp_path / "turning.cfl", turning)
    for readout in sent(tmp_path / "k", tmp_path / "turning", matrix=16)[0]:
        at = counters(readout)
        spoke, time = at.get("kspace_encode_step_1", 0), at.get("repetition", 0)
        expected = turning[:, :, spoke, 0, 0, 0, 0, 0, 0, 0, time].real.T / 16
        np.testing.assert_allclose(readout.trajectory, expected, rtol=1e-6)
    with pytest.raises(echotrain.ScanError, match="read_cfl"):
        sent(tmp_path / "k", k2, matrix=16)


def test_a_measured_trajectory_of_bart():
    beside = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data"
    data = pathlib.Path(os.environ.get("ECHOTRAIN_DATA") or beside) / "trajectories"
    if not (data / "measured_trj_spiral_orig.cfl").exists():
        pytest.skip(f"measured data not found: {data} (set ECHOTRAIN_DATA)")
    k = echotrain.read_cfl(data / "measured_trj_spiral_orig")
    assert k.shape == (2, 27121, 3) and not k.imag.any() and 100 < np.abs(k.real).max() < 130


def test_ismrmrd_files(tmp_path):
    """Written and read by the package ismrmrd."""
    ismrmrd = pytest.importorskip("ismrmrd")
    path, header = tmp_path / "scan.h5", echotrain.Header((8, 4, 1), (8, 4, 1)).xml()
    file = ismrmrd.Dataset(str(path), "dataset", True)
    file.write_xml_header(header.encode())
    positions = [None, np.full((8, 2), 0.1, np.float32), np.full((8, 2), 0.2, np.float32)]
    readouts = [ismrmrd.Acquisition.from_array(noise(2, 8, seed=i), k, acquisition_time_stamp=10 * i, scan_counter=i)
                for i, k in enumerate(positions)]  # fmt: skip
    waves = [ismrmrd.Waveform.from_array(np.full((1, 4), i, np.uint32), time_stamp=t, waveform_id=i)
             for i, t in enumerate((5, 10, 99))]  # fmt: skip
    for readout in readouts:
        file.append_acquisition(readout)
    for wave in waves:
        file.append_waveform(wave)
    file.close()
    scan = echotrain.make_scan(path)
    assert scan.xml == header and scan.readouts == 3
    expected = [readouts[0], waves[0], waves[1], readouts[1], readouts[2], waves[2]]
    assert [codec.encode(item) for item in scan.items] == [codec.encode(item) for item in expected]
    with pytest.raises(echotrain.ScanError, match="it has: dataset"):
        echotrain.make_scan(path, group="other")
    path.write_bytes(b"no HDF5")
    with pytest.raises(echotrain.ScanError, match="cannot be read as HDF5"):
        echotrain.make_scan(path)


def test_image_files(tmp_path):
    """The package ismrmrd reads what is written, and so do we."""
    path = tmp_path / "images.h5"
    images = [echotrain.Image(noise(2, 1, 4, 5, seed=i), image_series_index=1, image_index=i + 1) for i in range(3)]
    images += [echotrain.Image(np.full((3, 4, 5), i, np.float32), image_series_index=2, slice=i) for i in range(2)]
    for i, image in enumerate(images):
        image.set_meta({"number": str(i)})
    echotrain.write_images(path, images, "<xml/>")
    back = echotrain.read_images(path)
    assert len(back) == 5 and echotrain.Hdf5Scan(path).xml == "<xml/>"
    for got, image in zip(back, images):
        np.testing.assert_array_equal(got.data, image.data)
        assert got.data.dtype == image.data.dtype and got.head.tobytes()[:194] == image.head.tobytes()[:194]
        assert got.meta == image.meta
    with pytest.raises(echotrain.ScanError, match="holds images"):
        echotrain.write_images(path, [images[0], echotrain.Image(noise(3, 3))])
    ismrmrd = pytest.importorskip("ismrmrd")
    echotrain.write_images(path, images)
    theirs = ismrmrd.Dataset(str(path), "dataset", False)
    assert (theirs.number_of_images("image_1"), theirs.number_of_images("image_2")) == (3, 2)
    np.testing.assert_array_equal(theirs.read_image("image_2", 1).data, images[4].data)
    assert theirs.read_image("image_2", 1).slice == 1


# --- pipelines -------------------------------------------------------------------------------------------------------


def test_names_and_texts_of_pipelines(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    assert pipeline_text("radial_2d") is None and pipeline_text(None) is None
    assert pipeline_text("default.xml") is None and pipeline_text("absent.yaml") is None
    assert pipeline_text(path) == pipeline_text(str(path)) == pipeline_text("name: mine\n") == "name: mine\n"
    assert pipeline_text("\n    name: mine\n    a: b\n") == "\nname: mine\na: b\n"
    assert json.loads(pipeline_text({"name": "mine", "pipeline": ["a", {"b": {"c": 1e-3, "d": True}}]})) == {
        "name": "mine", "pipeline": ["a", {"b": {"c": 1e-3, "d": True}}]}  # fmt: skip
    for bad in ("folder/mine.yaml", {"a": object()}, {"a": float("nan")}, tmp_path / "absent.yaml"):
        with pytest.raises(echotrain.ScanError):
            pipeline_text(bad)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: mine\n", "token: 'it''s'\nname: mine\n"),
        ("---\nname: mine", "---\ntoken: 'it''s'\nname: mine"),
        ("# {a comment}\nname: mine\n", "token: 'it''s'\n# {a comment}\nname: mine\n"),
        ('{\n  "name": "mine"\n}\n', '{"token": "it\'s", \n  "name": "mine"\n}\n'),
        ("---\n{}", '\n{"token": "it\'s"}'),
        ("", "token: 'it''s'\n"),
    ],
)
def test_tokens_in_texts(text, expected):
    assert with_token(text, "it's") == expected


def test_configs():
    assert encode_pipeline(None) == b"" and encode_pipeline("a") == codec.encode_name("a")
    assert encode_pipeline("a", "t") == codec.encode_config("token: 't'\nuse: 'a'\n")
    assert encode_pipeline(None, "t") == codec.encode_config("token: 't'\n")
    assert encode_pipeline({}, "t") == codec.encode_config('{"token": "t"}\n')
    with pytest.raises(echotrain.ScanError, match="one line"):
        encode_pipeline("a", "t\nuse: b")


def test_reconstruct_has_the_keywords_of_scans_and_servers():
    def keywords(function):
        return {each.name: each.default for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY}

    scan = keywords(echotrain.make_scan)
    assert scan["group"] == "dataset" and {"header", "matrix", "noise"} <= set(scan)
    for function in (echotrain.Client.reconstruct, echotrain.AsyncClient.reconstruct, echotrain.reconstruct):
        assert scan.items() <= keywords(function).items()
    server = {each.name: each.default for each in inspect.signature(echotrain.Client).parameters.values()}
    assert server["port"] == 9002 and server.items() <= keywords(echotrain.reconstruct).items()


def test_unknown_keywords_are_refused(tmp_path):
    client, (readouts, header) = echotrain.Client(), sent(noise(2, 4, 8))
    calls = (echotrain.make_scan, client.reconstruct, echotrain.AsyncClient().reconstruct, echotrain.reconstruct)
    for call in calls:
        for source in (noise(2, 4, 8), readouts, tmp_path / "scan.h5"):
            with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
                call(source, colour=1, header=header)
    with pytest.raises(TypeError, match="'colour'"):
        echotrain.Client(colour=1)
