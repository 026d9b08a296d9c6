"""Steps of arrays without a server: what a function may take and give, memory that is shared, files."""

import os
import socket
import threading

import numpy as np
import pytest

import echotrain
from echotrain import CoilImages, Images, KSpace, NormalEquations, Readouts, Samples
from echotrain.steps import serve as wire
from echotrain.steps.area import Inputs, Results
from echotrain.steps.items import results_of
from echotrain.steps.step import with_config


def complex_noise(*shape, seed=1):
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(np.complex64)


KSPACE = KSpace(complex_noise(3, 1, 6, 8), padded=(1, 6, 8), image=(1, 6, 4), meta={"a": "b"})
COILS = CoilImages(complex_noise(3, 1, 6, 4), meta={})
SAMPLES = Samples(complex_noise(5, 2), weights=np.ones(5, np.float32), coordinates=np.zeros((5, 2)), image=(1, 4, 4))


def test_the_decorator_refuses_pairs_that_no_step_has():
    for takes, gives in ((KSpace, KSpace), (KSpace, Images), (Samples, CoilImages), ("Images", "Images")):
        assert echotrain.step(takes=takes, gives=gives)(results_of) is results_of
    with pytest.raises(echotrain.StepError, match="takes CoilImages gives CoilImages or Images, not KSpace"):
        echotrain.step(takes=CoilImages, gives=KSpace)
    with pytest.raises(echotrain.StepError, match="one of Readouts, KSpace, Samples, NormalEquations, CoilImages, Images, not Grid"):
        echotrain.step(takes="Grid", gives=KSpace)


def test_results_become_items():
    assert results_of(None, COILS, CoilImages) == []
    one, two = results_of([COILS.data, CoilImages(2 * COILS.data, meta={"x": "y"})], COILS, CoilImages)
    assert one.data is COILS.data and one.meta == {} and two.meta == {"x": "y"}
    (image,) = results_of(np.ones((1, 1, 6, 4)), KSPACE, Images)
    assert image.data.dtype == np.float32 and image.meta == {"a": "b"}
    (image,) = results_of(np.ones((1, 1, 6, 4), complex), KSPACE, Images)
    assert image.data.dtype == np.complex64


@pytest.mark.parametrize(
    "result, item, gives, says",
    [
        (KSPACE.data[0], KSPACE, KSpace, r"KSpace are of shape \(1, 6, 8\), not \[coil, 1, 6, 8\]"),
        (KSPACE.data, KSPACE, CoilImages, r"\(3, 1, 6, 8\), not \[coil, 1, 6, 4\]"),
        (KSPACE.data[:0], KSPACE, KSpace, r"\(0, 1, 6, 8\)"),
        (COILS.data > 0, COILS, CoilImages, "type bool, not complex64"),
        (COILS, COILS, Images, "gives CoilImages, not Images"),
        ("images", COILS, CoilImages, "type <U6"),
        (SAMPLES.data[:3], SAMPLES, Samples, r"\(3, 2\), not \[5, coil\]"),
        (Samples(SAMPLES.data, weights=np.ones(4)), SAMPLES, Samples, r"weights .* \(4,\)"),
        (Images(np.ones((1, 1, 2, 2), np.int64)), Images(np.ones((1, 1, 2, 2))), Images, "int64, not one of: uint16"),
        (np.ones((2, 2)), Images(np.ones((1, 1, 2, 2))), Images, r"\[channel, z, y, x\], not of shape \(2, 2\)"),
    ],
)
def test_what_is_no_item_is_refused_and_the_reason_told(result, item, gives, says):
    with pytest.raises(echotrain.StepError, match=says):
        results_of(result, item, gives)


def test_a_second_argument_is_the_config():
    assert with_config(lambda item: item, 7)(1) == 1
    assert with_config(lambda item, config: (item, config), 7)(1) == (1, 7)
    assert with_config(lambda item, config=3: (item, config), 7)(1) == (1, 3)


@pytest.fixture
def files():
    """Two files in memory, of which the first has been written by the server."""
    size = 1 << 16
    made = [os.memfd_create(name) for name in ("inputs", "results")]
    for each in made:
        os.truncate(each, size)
    yield made, size
    for each in made:
        os.close(each)


def test_memory_of_results_is_used_again_when_nobody_holds_it(files):
    (_, file), size = files
    results = Results(file, size)
    half = [results.try_empty((size // 2,), np.dtype("u1")) for _ in range(2)]
    assert [results.place_of(each) for each in half] == [0, size // 2]
    assert results.try_empty((1,), np.dtype("u1")) is None
    assert results.place_of(results.empty((4,), "u1")) == -1  # ordinary memory
    results.hold(0, half[0])
    half.clear()
    assert results.place_of(results.try_empty((size // 2,), np.dtype("u1"))) == size // 2
    assert results.try_empty((size,), np.dtype("u1")) is None  # the server holds one half
    results.release(0)
    whole = results.try_empty((size,), np.dtype("u1"))
    assert results.place_of(whole) == 0 and results.place_of(whole[1:]) == -1


def conversation(files, function, takes, gives, items):
    """What a server gets back for items, each a message's arrays and facts."""
    (inputs, results), size = files
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    failures = []

    def run():
        try:
            wire.serve(theirs, (inputs, results, -1), function, takes, gives, {"gain": 3})
        except Exception as error:
            failures.append(error)
        theirs.close()

    thread = threading.Thread(target=run)
    thread.start()
    link = wire.Link(ours, Inputs(inputs, size), Results(results, size))
    link.add(wire.GREETING, {}, {"version": wire.VERSION, "header": "Dummy XML header"})
    replies = []
    for arrays, facts in items:
        link.add(wire.ITEM, arrays, facts)
        link.flush()
        while (message := link.receive()).kind != wire.DONE:
            replies.append(message)
    link.add(wire.END, {}, {})
    link.flush()
    thread.join()
    ours.close()
    if failures:
        raise failures[0]
    return replies


FRAME = {name: "0" for name in echotrain.Frame.__dataclass_fields__ if name != "reference"}
REFERENCE = np.zeros(340, np.uint8)


def test_a_function_gets_items_and_its_results_go_back(files):
    def twice(item, config):
        assert item.frame.slice == 2 and item.meta == {"of": ["a", "b"], "one": "c"} and item.header is None
        assert not item.data.flags.writeable and item.image == (1, 4, 2)
        item.meta["gain"] = str(config["gain"])
        return [item.data * config["gain"], None, KSpace(item.data, meta={"empty": ""})]

    data = complex_noise(1, 1, 4, 2)
    facts = {**FRAME, "slice": "2", "image": "1,4,2", "meta.of": "a\x1fb", "meta.one": "c"}
    one, two = conversation(files, twice, "KSpace", "KSpace", [({"data": data, "reference": REFERENCE}, facts)])
    np.testing.assert_array_equal(one.arrays["data"], data * 3)
    assert one.facts == {"meta": "", "meta.of": "a\x1fb", "meta.one": "c", "meta.gain": "3"}
    np.testing.assert_array_equal(two.arrays["data"], data)
    assert two.facts == {"meta": "", "meta.empty": ""}


def test_meta_that_is_changed_in_place_goes_back(files):
    def change(item):
        item.meta["of"].append("c")
        return item.data

    arrays = {"data": complex_noise(1, 1, 4, 2), "reference": REFERENCE}
    facts = {**FRAME, "image": "1,4,2", "meta.of": "a\x1fb"}
    (one,) = conversation(files, change, "KSpace", "KSpace", [(arrays, facts)])
    assert one.facts == {"meta": "", "meta.of": "a\x1fb\x1fc"}


def test_images_without_a_head_keep_their_meta(files):
    def invert(item):
        return Images(-item.data, meta={"Series": "inverted"})

    arrays = {"data": np.ones((1, 1, 4, 2), np.float32), "head": np.zeros(198, np.uint8)}
    (one,) = conversation(files, invert, "Images", "Images", [(arrays, {})])
    assert "head" not in one.arrays and set(one.facts) == {"attributes"} and "inverted" in one.facts["attributes"]


def test_what_the_server_holds_is_not_written_to_and_not_given_twice(files):
    (inputs, file), size = files
    results = Results(file, size)
    ours, theirs = socket.socketpair()
    link = wire.Link(ours, Inputs(inputs, size), results)
    made = results.empty((4096,), "u1")
    made[:] = 7
    assert link._placed(made) == (wire.IN_RESULTS, 0) and not made.flags.writeable
    assert link._placed(made) == (wire.IN_RESULTS, 4096)
    assert os.pread(file, 8192, 0) == b"\x07" * 8192
    results.release(0)
    assert not results.holds(made)
    ours.close()
    theirs.close()


def test_a_function_that_says_other_items_than_its_pipeline_is_refused(files):
    marked = echotrain.step(takes=CoilImages, gives=Images)(lambda item: item.data)
    with pytest.raises(echotrain.StepError, match="takes CoilImages and gives Images, but the pipeline says takes: KSpace"):
        conversation(files, marked, "KSpace", "KSpace", [])


# --- files -------------------------------------------------------------------------------------------------------------


def cartesian_file(path, nx=8, ny=6, repetitions=2, cut=0, flags=0):
    """k-space [repetition, coil, y, x]; `cut`: samples that lines lack at their beginning."""
    h5py = pytest.importorskip("h5py")
    kspace = complex_noise(repetitions, 3, ny, nx)
    xml = echotrain.Header(matrix=(nx, ny, 1), fov=(2 * nx, ny, 1), recon_matrix=(nx // 2, ny, 1),
                           recon_fov=(nx, ny, 1), limits={"kspace_encoding_step_1": (0, ny - 1, ny // 2)}).xml()  # fmt: skip
    kind = np.dtype([("head", echotrain.layout.ACQUISITION_TYPE), ("traj", h5py.vlen_dtype(np.float32)),
                     ("data", h5py.vlen_dtype(np.float32))])  # fmt: skip
    rows = []
    for repetition in range(repetitions):
        for y in range(ny):
            line = echotrain.Acquisition(kspace[repetition, :, y, cut:], kspace_encode_step_1=y, repetition=repetition,
                                         center_sample=nx // 2 - cut, flags=flags)  # fmt: skip
            rows.append((line.head, np.empty(0, np.float32), line.data.view(np.float32).reshape(-1)))
    with h5py.File(path, "w") as file:
        data = file.create_dataset("dataset/data", (len(rows),), kind)
        for i, row in enumerate(rows):
            data[i] = np.array(row, kind)
        file.create_dataset("dataset/xml", data=[xml.encode()], dtype=h5py.special_dtype(vlen=bytes))
    return kspace


@pytest.mark.parametrize("cut", [0, 3])
def test_run_step_makes_kspace_and_images_of_a_file(tmp_path, cut):
    kspace = cartesian_file(tmp_path / "scan.h5", cut=cut)
    kspace[..., :cut] = 0
    seen = []

    @echotrain.step(takes=KSpace, gives=KSpace)
    def look(item):
        seen.append(item)
        return item

    found = echotrain.run_step(look, tmp_path / "scan.h5")
    assert [item.frame.repetition for item in seen] == [0, 1] and seen[0].image == (1, 6, 4)
    assert seen[0].lines.all() and seen[0].padded == (1, 6, 8)
    for item, want in zip(found, kspace):
        np.testing.assert_array_equal(item.data[:, 0], want)
    images = echotrain.run_step(lambda item: item, tmp_path / "scan.h5", takes=CoilImages, gives=CoilImages)
    k = (np.arange(8) - 4) / 8
    x = np.exp(2j * np.pi * np.outer(np.arange(4) - 2, k))
    k = (np.arange(6) - 3) / 6
    y = np.exp(2j * np.pi * np.outer(np.arange(6) - 3, k))
    for item, data in zip(images, kspace):
        want = np.einsum("yl,cls,xs->cyx", y, data, x) / 48
        np.testing.assert_allclose(item.data[:, 0], want, atol=1e-6)


def test_run_step_leaves_out_what_is_no_line(tmp_path):
    cartesian_file(tmp_path / "noise.h5", flags=1 << 18)
    assert echotrain.run_step(lambda item: item, tmp_path / "noise.h5", takes=KSpace, gives=KSpace) == []
    with pytest.raises(echotrain.StepError, match="holds readouts"):
        echotrain.run_step(lambda item: item, tmp_path / "noise.h5", takes=Images, gives=Images)
    with pytest.raises(echotrain.StepError, match="decorate it"):
        echotrain.run_step(len, tmp_path / "noise.h5")


def test_run_step_takes_images_of_a_file(tmp_path):
    image = echotrain.Image(np.arange(6, dtype=np.int16).reshape(2, 3), slice=4)
    image.set_meta({"Purpose": "test"})
    echotrain.write_images(tmp_path / "images.h5", [image])
    groups = []

    @echotrain.step(takes=Images, gives=Images)
    def twice(item):
        groups.append((item.frame.slice, item.meta, int(item.head["slice"])))
        return 2 * item.data

    (found,) = echotrain.run_step(twice, tmp_path / "images.h5")
    np.testing.assert_array_equal(found.data[0, 0], 2 * image.data[0, 0])
    assert groups == [(4, {"Purpose": "test"}, 4)] and found.data.dtype == np.int16


def test_run_step_gives_readouts_and_no_equations(tmp_path):
    kspace = cartesian_file(tmp_path / "scan.h5")

    @echotrain.step(takes=Readouts, gives=Readouts)
    def one_channel(item):
        assert item.heads["idx"]["kspace_encode_step_1"].tolist() == list(range(6)) and item.trajectory is None
        assert item.kind == "imaging" and item.first and item.last
        return item.data[:, :1]

    found = echotrain.run_step(one_channel, tmp_path / "scan.h5")
    for item, want in zip(found, kspace):
        np.testing.assert_array_equal(item.data[:, 0], want[0])
    with pytest.raises(echotrain.StepError, match="shape \\(6, 3, 7\\), not \\[6, channel, 8\\]"):
        echotrain.run_step(lambda item: item.data[..., 1:], tmp_path / "scan.h5", takes=Readouts, gives=Readouts)
    with pytest.raises(echotrain.StepError, match="run_step makes no NormalEquations"):
        echotrain.run_step(len, tmp_path / "scan.h5", takes=NormalEquations, gives=NormalEquations)


def equations(files, function):
    facts = {**FRAME, "weight": "2.5", "coils": "2", "sets": "1"}
    arrays = {"data": complex_noise(2, 1, 4, 2), "power": np.array([7.0]), "reference": REFERENCE}
    return conversation(files, function, "NormalEquations", "NormalEquations", [(arrays, facts)])


def test_equations_get_maps_of_their_shape(files):
    def give(item):
        assert (item.power, item.weight, item.coils, item.sets, item.maps) == (7, 2.5, 2, 1, None)
        item.maps = np.ones(item.data.shape)
        return item

    (found,) = equations(files, give)
    assert found.arrays["maps"].dtype == np.complex64 and found.arrays["maps"].shape == (2, 1, 4, 2)
    assert "maps" not in equations(files, lambda item: item.data)[0].arrays
    with pytest.raises(echotrain.StepError, match="maps of NormalEquations are of shape \\(1, 1, 4, 2\\), not \\(2, 1, 4, 2\\)"):
        item = NormalEquations(complex_noise(2, 1, 4, 2))
        results_of(NormalEquations(item.data, maps=item.data[:1]), item, NormalEquations)
