"""Python functions on arrays as steps of a pipeline."""

import re
import shutil
import sys
import threading

import numpy as np
import pytest
import reference
import scans
import steps
import wire
from programs import SOURCE, ends_well, run_client, simulated_scan
from python_client import PACKAGE, echotrain

FFT, RSS = "fft: {direction: inverse}", "coil_combine: {method: rss}"
PLAIN = ("cartesian_kspace", FFT, RSS, "image")


def array_step(function, takes, gives, **options):
    return steps.python(options.pop("module", "array_steps"), function=function, takes=takes, gives=gives, **options)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The modules, and the package that a user's interpreter has installed."""
    folder = tmp_path_factory.mktemp("modules")
    for name in ("gaussian.py", "array_steps.py"):
        shutil.copy(steps.MODULES / name, folder)
    (folder / "echotrain").symlink_to(PACKAGE / "echotrain")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, modules):
    started = steps.start_server(tmp_path_factory.mktemp("arrays"), "--python-memory-mib", "512", modules=modules)
    yield from ends_well(started)


def scan(server, chain, messages, header=None):
    return wire.exchange(server.address, [steps.pipeline(*chain), header or steps.header(), *messages, wire.close()])


def good(reply, images):
    assert not reply.errors() and len(reply.images) == images, (reply.texts, len(reply.images))
    return reply.images


def frames(n=3, size=steps.N):
    kspace = [steps.random_kspace(seed, n=size) for seed in range(n)]
    return kspace, [m for i, each in enumerate(kspace) for m in steps.readouts(each, i)]


def near(found, want, bound=1e-5):
    assert np.linalg.norm(found - want) <= bound * np.linalg.norm(want)


# --- what functions do ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mib", [1, 64])
@pytest.mark.parametrize("size", [steps.N, 320])  # 1.6 MB of k-space: more than one MiB
@pytest.mark.parametrize("function, factor", [("same", 1), ("copied", 1), ("twice", 2)])
def test_an_item_that_passes_a_function_keeps_its_bits(server, function, factor, size, mib):
    _, messages = frames(2, size)
    header = steps.header(size)
    plain = good(scan(server, PLAIN, messages, header), 2)
    k = array_step(function, "KSpace", "KSpace", shared_mib=mib)
    images = array_step(function, "CoilImages", "CoilImages", shared_mib=mib)
    for chain in ((PLAIN[0], k, *PLAIN[1:]), (*PLAIN[:2], images, *PLAIN[2:]), (PLAIN[0], k, FFT, images, *PLAIN[2:])):
        found = good(scan(server, chain, messages, header), 2)
        times = factor ** sum("array_steps" in each for each in chain)
        for image, want in zip(found, plain):
            if size == steps.N:
                np.testing.assert_array_equal(image.pixels, times * want.pixels)
            near(image.pixels, times * want.pixels, 1e-6)  # larger ones are made by one gadget, which rounds otherwise
            differ = [name for name in want.head.dtype.names if np.any(image.head[name] != want.head[name])]
            assert set(differ) <= {"attribute_string_len"}


def test_k_space_becomes_coil_images(server):
    kspace, messages = frames()
    reply = scan(server, ("cartesian_kspace", array_step("transform", "KSpace", "CoilImages"), *PLAIN[2:]), messages)
    for image, data in zip(good(reply, 3), kspace):
        near(image.pixels[0, 0], steps.root_sum_of_squares(data))


def test_k_space_becomes_finished_images(server):
    kspace, messages = frames()
    plain = good(scan(server, PLAIN, messages), 3)
    reply = scan(server, ("cartesian_kspace", array_step("finished", "KSpace", "Images")), messages)
    for i, (image, want) in enumerate(zip(good(reply, 3), plain)):
        near(image.pixels[0, 0], steps.root_sum_of_squares(kspace[i]))
        assert image.pixels.dtype == np.float32
        for name in ("image_type", "image_index", "repetition", "matrix_size", "field_of_view", "image_series_index"):
            assert np.all(image.head[name] == want.head[name]), name
        assert "<name>Of</name><value>a</value><value>b</value>" in re.sub(r"\s*\n\s*", "", image.attributes)


def test_images_are_complex_real_or_magnitudes(server):
    (kspace,), messages = frames(1)
    reply = scan(server, (*PLAIN[:2], array_step("parts", "CoilImages", "Images")), messages)
    images = good(reply, 3)
    assert [int(image.head["image_type"]) for image in images] == [5, 3, 1]
    assert [image.pixels.dtype for image in images] == [np.complex64, np.float32, np.float32]
    assert [int(image.head["image_index"]) for image in images] == [1, 2, 3]
    coil = reference.centred_fft(kspace, steps.N)[0]
    for image, want in zip(images, (coil, coil.real - 1, np.abs(coil))):
        near(image.pixels[0, 0], want)


def test_a_gaussian_smooths_coil_images(server):
    (kspace,), messages = frames(1)
    step = array_step("smooth", "CoilImages", "CoilImages", module="gaussian", config="'{\"sigma\": 1.5}'")
    (image,) = good(scan(server, (*PLAIN[:2], step, *PLAIN[2:]), messages), 1)
    # As scipy defines it: values up to four standard deviations, whose sum is 1, here over periods.
    n, radius = steps.N, int(4 * 1.5 + 0.5)
    away = np.arange(-radius, radius + 1)
    values = np.exp(-(away**2) / (2 * 1.5**2))
    circulant = np.zeros((n, n))
    for i in range(n):
        circulant[i, (i + away) % n] = values / values.sum()
    coils = reference.centred_fft(kspace, n)
    near(image.pixels[0, 0], np.sqrt(np.sum(np.abs(circulant @ coils @ circulant.T) ** 2, axis=0)))
    assert "<name>Smoothed</name>" in image.attributes
    text = (steps.MODULES / "gaussian.py").read_text().partition('"""\n\n')[2].replace("\n\n\n", "\n\n")
    page = (SOURCE / "docs" / "python-steps.md").read_text()
    assert f"```python\n{text}```" in page and f"```yaml\n  - {step}\n```" in page


def radial(n=24, spokes=30, coils=2):
    angle = np.pi * np.arange(spokes) / spokes
    k = np.stack([np.cos(angle), np.sin(angle)], -1)[:, None] * ((np.arange(2 * n) - n) / (2 * n))[:, None]
    random = np.random.default_rng(2)
    data = random.standard_normal((spokes, coils, 2 * n)) + 1j * random.standard_normal((spokes, coils, 2 * n))
    return scans.non_cartesian("radial", (n, n, 1), k.astype(np.float32), data.astype(np.complex64))


def test_samples_become_images(server):
    sent = radial()
    before = ("density_compensation",)
    direct = (*before, array_step("adjoint", "Samples", "CoilImages"), RSS, "image")
    gridded = (*before, array_step("half_weights", "Samples", "Samples"), "gridding", FFT, "deapodization", RSS, "image")
    found = [good(wire.exchange(server.address, sent.stream(steps.pipeline(*chain))), 1)[0].pixels[0, 0]
             for chain in (direct, gridded)]  # fmt: skip
    near(2 * found[1], found[0], 2e-3)  # the error of gridding


def test_readouts_change_before_they_are_sorted(server):
    (kspace,), messages = frames(1)
    step = array_step("weighted_lines", "Readouts", "Readouts")
    (image,) = good(scan(server, (step, *PLAIN), messages), 1)
    weighted = kspace[1:] * (1 + np.arange(steps.N))[:, None]
    near(image.pixels[0, 0], np.abs(reference.centred_fft(weighted, steps.N)[0]))


def test_readouts_keep_their_trajectory_or_get_another_one(server):
    sent = radial()
    after = ("density_compensation", "gridding", FFT, "deapodization", RSS, "image")
    plain, same, turned = (
        good(wire.exchange(server.address, sent.stream(steps.pipeline(*before, *after))), 1)[0].pixels[0, 0]
        for before in ((), *((array_step(name, "Readouts", "Readouts"),) for name in ("same", "turned")))
    )
    near(same, plain, 1e-6)
    # (kx, ky) -> (-ky, kx) turns the image: voxel (x, y) goes to (-y, x) about the centre, which is voxel n/2.
    near(turned[1:, 1:], np.rot90(plain[1:, 1:], -1), 2e-3)  # the error of gridding


@pytest.mark.parametrize("function", ["no_readouts", "more_readouts"])
def test_each_batch_of_readouts_comes_back_once(server, function):
    _, messages = frames(1)
    reply = scan(server, (array_step(function, "Readouts", "Readouts"), *PLAIN), messages)
    assert "must give Readouts back once for each that it takes" in reply.errors()[0]


def test_a_step_gives_coil_maps_and_a_solver_uses_them(server):
    (kspace,), messages = frames(1)
    maps = array_step("set_maps", "NormalEquations", "NormalEquations")
    solve = "pcg: {prior: none, iterations: 100, tolerance: 1.0e-7}"
    (image,) = good(scan(server, ("cartesian_kspace", "encoding", maps, solve, "image"), messages), 1)
    found = {}
    exec((steps.MODULES / "array_steps.py").read_text(), found)
    s, coils = found["known_maps"](2, steps.N)[:, 0], reference.centred_fft(kspace, steps.N)
    x = np.sum(s.conj() * coils, 0) / np.sum(np.abs(s) ** 2, 0)  # all of k-space: voxels are independent
    near(image.pixels[0, 0], np.abs(x))


def test_the_right_hand_side_can_leave_as_images(server):
    (kspace,), messages = frames(1)
    chain = ("cartesian_kspace", "encoding", array_step("set_maps", "NormalEquations", "NormalEquations"))
    step = array_step("right_side", "NormalEquations", "CoilImages")
    (image,) = good(scan(server, (*chain, step, RSS, "image"), messages), 1)
    found = {}
    exec((steps.MODULES / "array_steps.py").read_text(), found)
    s, coils = found["known_maps"](2, steps.N)[:, 0], reference.centred_fft(kspace, steps.N)
    want = np.abs(np.sum(s.conj() * coils, 0))
    near(image.pixels[0, 0] / np.linalg.norm(image.pixels), want / np.linalg.norm(want))  # F^H d, to its scale


@pytest.mark.parametrize("kind", sorted(wire.PIXELS))
def test_images_of_each_pixel_type_change(server, kind):
    pixels = 100 * np.random.default_rng(kind).random((2, 3, 50, 7), np.float32)  # `image` computes in float32
    pixels = pixels.astype(wire.PIXELS[kind])
    meta = "<ismrmrdMeta><meta><name>Purpose</name><value>test</value></meta></ismrmrdMeta>"
    sent = [steps.image(pixels, index=i + 1, attributes=meta, kind=kind, slice=i) for i in range(2)]
    config = steps.pipeline("image", array_step("invert", "Images", "Images"), head="input: images")
    reply = wire.exchange(server.address, [config, steps.header(), *sent, wire.close()])
    for i, image in enumerate(good(reply, 2)):
        np.testing.assert_array_equal(image.pixels, pixels.max() - pixels)
        assert image.pixels.dtype == pixels.dtype and image.head["slice"] == i
        assert "<name>Inverted</name>" in image.attributes and "<name>Purpose</name>" in image.attributes


def test_a_frame_may_give_nothing(server):
    _, messages = frames(4)
    reply = scan(server, (*PLAIN[:2], array_step("none_of_odd", "CoilImages", "CoilImages"), *PLAIN[2:]), messages)
    assert [int(image.head["repetition"]) for image in good(reply, 2)] == [0, 2]


def test_results_that_a_module_keeps_fill_its_memory_and_no_more(server):
    kspace, messages = frames(24, 64)  # of 64 KiB each, in 1 MiB
    step = array_step("keep", "CoilImages", "CoilImages", shared_mib=1)
    reply = scan(server, (*PLAIN[:2], step, *PLAIN[2:]), messages, steps.header(64))
    for image, data in zip(good(reply, 24), kspace):
        near(image.pixels[0, 0], steps.root_sum_of_squares(data))


def test_arrays_of_numpy_lie_where_the_server_reads_them(server):
    kspace, messages = frames(3)
    reply = scan(server, (*PLAIN[:2], array_step("own_arrays", "CoilImages", "CoilImages"), *PLAIN[2:]), messages)
    for image, data in zip(good(reply, 3), kspace):
        near(image.pixels[0, 0], steps.root_sum_of_squares(data))
        found = dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)</value>", image.attributes))
        assert (found["Lies"], found["Child"], found["Parent"]) == ("True", "0", "True")


@pytest.mark.parametrize("mib", [1, 64])
def test_arrays_of_numpy_grow_and_begin_as_zeros(server, mib):
    _, messages = frames(3)
    step = array_step("changes", "CoilImages", "CoilImages", shared_mib=mib)
    good(scan(server, (*PLAIN[:2], step, *PLAIN[2:]), messages), 3)


def test_recon_runs_them_and_run_step_gives_the_same(tmp_path, modules):
    scan_file, config, out = tmp_path / "scan.h5", tmp_path / "steps.yaml", tmp_path / "out.h5"
    simulated_scan(scan_file, "--trajectory", "cartesian", "--matrix", 32, "--coils", 2, "--frames", 2)
    chain = ("cartesian_kspace", array_step("finished", "KSpace", "Images"))
    config.write_text("echotrain: 1\nname: steps\ndescription: A test\npipeline:\n"
                      + "".join(f"  - {gadget}\n" for gadget in chain))  # fmt: skip
    done = run_client("recon", scan_file, "-c", config, "-o", out, "--python", sys.executable, "--python-modules", modules)
    assert done.returncode == 0, done.stderr
    images = echotrain.read_images(out)
    found = {}
    exec((steps.MODULES / "array_steps.py").read_text(), found)
    results = echotrain.run_step(found["finished"], scan_file)
    assert len(images) == len(results) == 2
    for image, result in zip(images, results):
        near(image.data, result.data, 1e-6)


# --- functions that go wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how, why, line",
    [
        ("raise", "has ended with exit code 1", "ValueError: the phantom has no head"),
        ("write", "has ended with exit code 1", "ValueError: assignment destination is read-only"),
        ("exit", "has ended with exit code 7", "will exit"),
        ("crash", r"was ended by signal 11 \(Segmentation fault\)", "will crash"),
        ("hang", r"has neither taken nor given anything for 1 s \(timeout_s\)", ""),
        ("spin", r"has neither taken nor given anything for 1 s \(timeout_s\)", ""),
        ("flood", r"has neither taken nor given anything for 1 s \(timeout_s\)", ""),
        ("shape", "has ended with exit code 1", r"CoilImages are of shape \(2, 1, 31, 32\), not \[coil, 1, 32, 32\]"),
        ("type", "has ended with exit code 1", "of type bool, not complex64"),
        ("item", "has ended with exit code 1", "the step gives KSpace, not CoilImages"),
        ("garbage", "has sent bytes that are no message of a step", "will garbage"),
        ("early", "has given no data", "will early"),
        ("outside", "has given an array that lies outside its memory", "will outside"),
        ("earlier", "has given an array of an earlier item", "will earlier"),
        ("memory", "has ended with exit code 1", "MemoryError"),
    ],
)
def test_a_function_that_goes_wrong_ends_its_scan_and_says_why(server, how, why, line):
    timeout_s = 1 if how in ("hang", "spin", "flood") else 60
    step = array_step("wrong", "CoilImages", "CoilImages", config=how, timeout_s=timeout_s)
    _, messages = frames(2)
    others = []
    beside = threading.Thread(target=lambda: others.append(scan(server, PLAIN, messages)))
    beside.start()
    reply = scan(server, (*PLAIN[:2], step, *PLAIN[2:]), messages)
    assert re.search(f"ERROR    recon-failed: python module 'array_steps' {why}", reply.errors()[0]), reply.texts
    assert any(re.search(line, text) for text in reply.texts), reply.texts
    beside.join()
    good(others[0], 2)
    steps.wait_until(lambda: not steps.children(server.process.pid), "the steps' processes are gone")


def test_a_process_reaches_its_own_scan_only_and_changes_nothing_that_it_was_given(server):
    secret = np.frombuffer(b"a secret of another scan" * 2 * 32 * 32, "<c8")[: 2 * 32 * 32].reshape(2, 32, 32)
    scan(server, (*PLAIN[:1], array_step("same", "KSpace", "KSpace"), *PLAIN[1:]), steps.readouts(np.nan_to_num(secret)))
    _, messages = frames(1)
    reply = scan(server, (*PLAIN[:2], array_step("tell_memory", "CoilImages", "CoilImages"), *PLAIN[2:]), messages)
    (image,) = good(reply, 1)
    found = dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)</value>", image.attributes))
    assert found["Reached"] == "-1"
    for name in ("Map", "Write", "Cut", "CutResults", "Reopened", "Unseal"):
        assert found[name] == "PermissionError", (name, found)


def test_pipelines_that_do_not_fit_are_refused(server):
    for step, why in (
        (array_step("same", "KSpace", "KSpace"), "takes: KSpace is not what comes here; say takes: CoilImages"),
        (array_step("same", "CoilImages", "KSpace"), "of CoilImages, a step makes the same, or Images"),
        (array_step("same", "CoilImages", "images"), "gives: images are messages, but what is taken, CoilImages"),
        (array_step("same", "messages", "Images"), "gives: Images are arrays, for which takes: must name arrays, too"),
        (array_step("same", "CoilImages", "Images", device="cuda"), "device: cuda is not possible yet"),
        (array_step("same", "NormalEquations", "CoilImages"), "takes: NormalEquations is not what comes here; say takes"),
        (steps.python("array_steps"), "here comes CoilImages, which no message carries; say takes: CoilImages"),
    ):
        reply = scan(server, (*PLAIN[:2], step, *PLAIN[2:]), [])
        assert why in reply.errors()[0], reply.texts
    for step, why in (
        (array_step("same", "KSpace", "KSpace"), "takes: KSpace is not what comes here; say takes: Readouts"),
        (array_step("same", "Readouts", "KSpace"), "of Readouts, a step makes the same"),
        (steps.python("array_steps", gives="KSpace"), "gives: KSpace are arrays, for which takes: must name arrays, too"),
    ):
        reply = scan(server, ("noise_adjust", step, *PLAIN), [])
        assert why in reply.errors()[0], reply.texts


def test_a_step_that_says_other_items_than_its_pipeline_ends_the_scan(server):
    _, messages = frames(1)
    step = array_step("transform", "CoilImages", "CoilImages")
    reply = scan(server, (*PLAIN[:2], step, *PLAIN[2:]), messages)
    assert "the step takes KSpace and gives CoilImages, but the pipeline says takes: CoilImages" in str(reply.texts)


def test_memory_of_a_step_is_reserved_before_the_scan(tmp_path, modules):
    server = steps.start_server(tmp_path, "--python-memory-mib", "100", "--memory-mib", "700", modules=modules)
    _, messages = frames(1)
    chain = [(*PLAIN[:2], array_step("same", "CoilImages", "CoilImages", shared_mib=mib), *PLAIN[2:]) for mib in (8, 400)]
    good(scan(server, chain[0], messages), 1)
    assert "memory" in scan(server, chain[1], messages).errors()[0]
    assert server.stop() == 0
