"""The Python client against the server: what comes back is right, whatever form the scan has."""

import asyncio
import json
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import reference
import scans
from programs import SHIPPED, run_client, variant
from python_client import echotrain, environment, noise, pixels, settled, simulate


@pytest.fixture(scope="module")
def client(server):
    with echotrain.Client(server.host, server.port) as client:
        yield client


def spiral(turns=12, samples=400, arms=8, matrix=32):
    """[arm, sample, 2] in cycles/pixel, and area weights that sum to pi/4."""
    t = (np.arange(samples) + 0.5) / samples
    k = 0.5 * np.sqrt(t)[None, :] * np.exp(2j * np.pi * (turns * np.sqrt(t)[None, :] + np.arange(arms)[:, None] / arms))
    return np.stack([k.real, k.imag], -1), np.full((arms, samples), np.pi / 4 / (arms * samples))


# --- arrays ----------------------------------------------------------------------------------------------------------


def test_arrays_in_images_out(client):
    """Cartesian frames, twice oversampled: the transform in float64."""
    kspace = noise(3, 4, 24, 64)
    images = list(client.reconstruct(kspace, pipeline="cartesian_plain", matrix=(32, 24), fov=(320, 240, 7)))
    assert len(images) == 3
    for repetition, image in enumerate(images):
        truth = reference.rss(reference.centred_fft(kspace[repetition], 32))
        assert image.data.shape == (1, 1, 24, 32)
        assert reference.nrmse(image.data[0, 0], truth) <= 1e-5
        assert (image.repetition, image.index, image.image_type) == (repetition, repetition + 1, "magnitude")
        assert image.field_of_view.tolist() == [320, 240, 7] and image.voxel_size.tolist() == [10, 10, 7]
        assert image.meta["echotrain_readouts"] == "24"
    assert echotrain.stack(images, by=["repetition"]).shape == (3, 1, 1, 24, 32)


def test_slices_contrasts_and_averages_by_axes(client):
    kspace = noise(2, 3, 2, 16, 16, 2)  # contrast, slice, average, line, sample, coil
    images = list(client.reconstruct(kspace, pipeline="cartesian_plain", axes="contrast slice average line sample coil"))
    cube = echotrain.stack(images, by=("contrast", "slice"))
    assert cube.shape == (2, 3, 1, 1, 16, 16)
    for place in np.ndindex(2, 3):
        coils = kspace[place].mean(axis=0).transpose(2, 0, 1)
        assert reference.nrmse(cube[place][0, 0], reference.rss(reference.centred_fft(coils, 16))) <= 1e-5


def test_volumes_by_partitions(client):
    kspace = noise(1, 2, 6, 8, 10)
    (image,) = client.reconstruct(kspace, pipeline="cartesian_plain")
    axes = (1, 2, 3)
    coils = np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(kspace[0].astype(complex), axes), axes=axes), axes)
    assert image.data.shape == (1, 6, 8, 10)
    assert reference.nrmse(image.data[0], reference.rss(coils)) <= 1e-5


@pytest.mark.parametrize("unit", ["cycles_per_pixel", "cycles_per_fov", "radians_per_pixel", "cycles_per_m"])
def test_a_trajectory_and_its_weights(client, unit):
    """sum w d exp(2 pi i k.r) in float64; the gridding kernel is good to 1e-3."""
    k, weights = spiral()
    kspace = noise(3, *weights.shape)
    scale = {"cycles_per_pixel": 1, "cycles_per_fov": 32, "radians_per_pixel": 2 * np.pi, "cycles_per_m": 1000 / 2}[
        unit
    ]
    pipeline = settled("spiral_2d")
    images = list(
        client.reconstruct(kspace, k * scale, pipeline, density=weights, matrix=32, fov=64, trajectory_unit=unit)
    )
    data = (kspace * weights).reshape(3, -1).T
    truth = reference.rss(reference.direct_sum_2d(k.reshape(-1, 2), data, (32, 32)))
    assert len(images) == 1 and reference.nrmse(images[0].data[0, 0], truth) <= 3e-3


@pytest.mark.parametrize(
    ("trajectory", "pipeline"), [("stack_of_stars", "stack_of_stars"), ("kooshball", "kooshball_3d")]
)
def test_3d_arrays_are_what_a_file_is(client, tmp_path, trajectory, pipeline):
    scan = simulate(tmp_path / "scan.h5", trajectory, "--matrix", 16, "--coils", 2)
    text = settled(pipeline)
    _, heads, points, data = scans.read_acquisitions(scan)
    if trajectory == "kooshball":
        kspace, k = np.stack(data).transpose(1, 0, 2), np.stack(points)
    else:
        lines, partitions = (heads["idx"][f"kspace_encode_step_{i}"] for i in (1, 2))
        shape = (partitions.max() + 1, lines.max() + 1)
        kspace = np.zeros((1, 2, *shape, data[0].shape[1]), np.complex64)
        k = np.zeros((shape[1], data[0].shape[1], 2), np.float32)
        for line, partition, values, position in zip(lines, partitions, data, points):
            kspace[0, :, partition, line], k[line] = values, position[:, :2]
    (from_file,) = client.reconstruct(scan, pipeline=text)
    (from_arrays,) = client.reconstruct(kspace, k, pipeline=text, matrix=16, header=echotrain.make_scan(scan).xml)
    made = list(client.reconstruct(kspace, k, pipeline=text, matrix=from_file.data.shape[:0:-1]))
    for image in (from_arrays, *made):
        assert reference.nrmse(image.data, from_file.data) <= 1e-5


def test_noise_whitens(client):
    kspace, measured = noise(3, 16, 16), noise(3, 4000, seed=2)
    mix = np.array([[1, 0, 0], [0.5, 2, 0], [0.1j, 0.3, 0.7]])
    kspace, measured = ((np.einsum("ij,j...->i...", mix, a)).astype(np.complex64) for a in (kspace, measured))
    (image,) = client.reconstruct(kspace, pipeline="cartesian_plain", noise=measured)
    white = np.einsum("ij,jyx->iyx", reference.whitening(measured), kspace)
    assert reference.nrmse(image.data[0, 0], reference.rss(reference.centred_fft(white, 16))) <= 1e-5


def known(image):
    """The attributes but those that a clock made."""
    return {name: value for name, value in image.meta.items() if not name.endswith(("_ms", "_us"))}


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trajectory", "pipeline"), [("cartesian", "cartesian_plain"), ("golden_radial", "radial_2d"),
                                                      ("spiral", "spiral_2d")])  # fmt: skip
def test_files_bit_for_bit_as_the_other_client(server, client, tmp_path, trajectory, pipeline):
    options = ("--matrix", 32, "--coils", 3, "--frames", 3, "--noise", 1, "--noise-scan")
    scan, config = simulate(tmp_path / "scan.h5", trajectory, *options), tmp_path / "mine.yaml"
    config.write_text(settled(pipeline))
    assert server.send(scan, config, tmp_path / "theirs.h5").returncode == 0
    theirs = echotrain.read_images(tmp_path / "theirs.h5")
    ours = list(client.reconstruct(scan, pipeline=config))
    assert len(ours) == 3
    for got, expected in zip(ours, theirs):
        np.testing.assert_array_equal(got.data, expected.data)
        assert got.head.tobytes()[:194] == expected.head.tobytes()[:194]  # behind it: the length of the attributes
        assert known(got) == known(expected) and got.meta["echotrain_readouts"] in got.attributes
    # And the other client reads what we write.
    echotrain.write_images(tmp_path / "ours.h5", ours, echotrain.make_scan(scan).xml)
    compared = run_client("compare", tmp_path / "ours.h5", tmp_path / "theirs.h5", "--max-nrmse", 0)
    assert compared.returncode == 0, compared.stdout + compared.stderr
    told = run_client("info", tmp_path / "ours.h5")
    assert told.returncode == 0 and "echotrain_backend = cpu" in told.stdout


def test_files_of_complex_images(server, client, tmp_path):
    scan = simulate(tmp_path / "scan.h5", "cartesian", "--matrix", 16, "--coils", 2)
    images = list(client.reconstruct(scan, pipeline="coils_2d"))
    assert images[0].data.dtype == np.complex64 and images[0].data.shape == (2, 1, 16, 16)
    echotrain.write_images(tmp_path / "ours.h5", images)
    assert server.send(scan, "coils_2d", tmp_path / "theirs.h5").returncode == 0
    assert run_client("compare", tmp_path / "ours.h5", tmp_path / "theirs.h5", "--max-nrmse", 0).returncode == 0
    back = list(client.reconstruct(tmp_path / "ours.h5", pipeline="passthrough"))
    np.testing.assert_array_equal(back[0].data, images[0].data)


def test_npy_and_cfl_files(client, tmp_path):
    kspace, (k, weights) = noise(3, 8, 400), spiral()
    expected = list(client.reconstruct(kspace, k, "spiral_2d", density=weights, matrix=32))
    for name, array in (("kspace", kspace), ("k", k), ("w", weights)):
        np.save(tmp_path / f"{name}.npy", array)
    options = {"density": tmp_path / "w.npy", "matrix": 32}
    images = list(client.reconstruct(tmp_path / "kspace.npy", tmp_path / "k.npy", "spiral_2d", **options))
    assert reference.nrmse(images[0].data, expected[0].data) <= 1e-5
    echotrain.write_cfl(tmp_path / "kspace", kspace.transpose(2, 1, 0)[None])
    echotrain.write_cfl(tmp_path / "k", np.pad(k.transpose(2, 1, 0) * 32, ((0, 1), (0, 0), (0, 0))))
    images = list(client.reconstruct(tmp_path / "kspace", tmp_path / "k", "spiral_2d", density=weights, matrix=32))
    assert reference.nrmse(images[0].data, expected[0].data) <= 1e-5


def test_types_of_the_package_ismrmrd(client, tmp_path):
    ismrmrd = pytest.importorskip("ismrmrd")
    xsd = pytest.importorskip("ismrmrd.xsd")
    scan = simulate(tmp_path / "scan.h5", "cartesian", "--matrix", 16, "--coils", 2, "--frames", 2)
    expected = list(client.reconstruct(scan, pipeline="cartesian_plain"))
    file = ismrmrd.Dataset(str(scan), "dataset", False)
    header = xsd.CreateFromDocument(file.read_xml_header())
    readouts = (file.read_acquisition(i) for i in range(file.number_of_acquisitions()))
    images = [image.to_ismrmrd() for image in client.reconstruct(readouts, pipeline="cartesian_plain", header=header)]
    assert [image.repetition for image in images] == [0, 1]
    for image, other in zip(images, expected):
        np.testing.assert_array_equal(image.data, other.data)
        assert image.meta["echotrain_backend"] == "cpu"


# --- while the scan runs ---------------------------------------------------------------------------------------------


def cartesian_scan(frames=1, matrix=16, seed=1):
    """Header and readouts."""
    readouts = echotrain.ArrayReadouts(noise(frames, 2, matrix, matrix, seed=seed))
    return readouts.xml, list(readouts)


def test_images_come_while_readouts_are_still_to_come(client):
    """Each frame's readouts are given only once the image of the frame before has come."""
    xml, readouts = cartesian_scan(frames=4)
    seen = threading.Semaphore(1)

    def measure():
        for number, readout in enumerate(readouts):
            if number % 16 == 0:
                assert seen.acquire(timeout=60), "no image of the frame before"
            yield readout

    count = 0
    for image in client.reconstruct(measure(), pipeline="cartesian_plain", header=xml):
        assert image.repetition == count
        count += 1
        seen.release()
    assert count == 4


def test_progress_is_told(client):
    told = []
    images = list(client.reconstruct(noise(3, 2, 16, 16), pipeline="cartesian_plain", rate=200, progress=told.append))
    assert len(images) == 3
    assert told[-1][:3] == (48, 48, 3) and told[-1].bytes > 48 * (342 + 2 * 16 * 8)
    assert len(told) >= 2 and all(a.readouts <= b.readouts for a, b in zip(told, told[1:]))


def test_progress_is_told_to_asyncio(server):
    """As above, and while the readouts pause, until it was told of those before."""
    told, kspace = [], noise(2, 32, 16)

    async def measure():
        for line in range(32):
            while line == 16 and not any(each.readouts == 16 for each in told):
                await asyncio.sleep(0.01)
            flags = 0x80 if line == 31 else 0
            yield echotrain.Acquisition(kspace[:, line], kspace_encode_step_1=line, flags=flags)

    async def main():
        header = echotrain.Header(matrix=(16, 32, 1), fov=(16, 32, 1))
        async with echotrain.AsyncClient(server.host, server.port) as client:
            images = client.reconstruct(measure(), pipeline="cartesian_plain", header=header, progress=told.append)
            return [image async for image in images]

    assert len(asyncio.run(main())) == 1
    assert (told[-1].readouts, told[-1].total, told[-1].images) == (32, None, 1)
    assert [each.readouts for each in told] == sorted(each.readouts for each in told)


def test_a_rate_is_held(client):
    begin = time.monotonic()
    assert len(list(client.reconstruct(noise(3, 2, 16, 16), pipeline="cartesian_plain", rate=100))) == 3
    assert time.monotonic() - begin >= 0.46  # 47 steps of 10 ms


def given_up(server):
    """How many scans the server has seen end early, while reading or while sending."""
    return len(re.findall("summary: (incomplete|peer gone)", server.text()))


def wait_until(condition, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_closing_early_ends_the_connection_and_the_server_lives_on(server, client):
    xml, readouts = cartesian_scan(frames=1)
    stopped, go_on = threading.Event(), threading.Event()

    def endless():
        try:
            while True:
                yield from readouts
                go_on.wait(0.01)
        finally:
            stopped.set()

    for leave in (lambda images: images.close(), lambda images: client.close()):
        stopped.clear()
        ended = given_up(server)
        images = client.reconstruct(endless(), pipeline="cartesian_plain", header=xml)
        next(images)
        leave(images)
        assert stopped.wait(30), "the source was not closed"
        wait_until(lambda: given_up(server) > ended)
        assert len(list(client.reconstruct(noise(2, 16, 16), pipeline="cartesian_plain"))) == 1
        with pytest.raises((StopIteration, echotrain.ConnectionFailed)):
            next(images)


def test_what_the_source_raises_is_raised_here(server, client):
    xml, readouts = cartesian_scan(frames=2)
    came = threading.Event()

    def failing():
        yield from readouts[:17]
        came.wait(60)
        raise RuntimeError("the scanner is on fire")

    images = client.reconstruct(failing(), pipeline="cartesian_plain", header=xml)
    assert next(images).repetition == 0
    came.set()
    with pytest.raises(RuntimeError, match="on fire"):
        next(images)
    with pytest.raises(echotrain.ScanError, match="not of int"):
        list(client.reconstruct([*readouts, 5], pipeline="cartesian_plain", header=xml))


def test_large_scans_of_a_slow_reader(client):
    """Far more images than the buffers hold, read late: nothing is lost or stuck."""
    frames = [echotrain.Image(np.full((1, 1, 512, 512), i, np.float32), image_index=i + 1) for i in range(200)]
    images = client.reconstruct(frames, pipeline="passthrough", header="Dummy XML header")
    first = next(images)
    threading.Event().wait(1)
    rest = list(images)
    assert [int(image.data[0, 0, 0, 0]) for image in (first, *rest)] == list(range(200))


# --- pipelines -------------------------------------------------------------------------------------------------------


def test_own_pipelines(client, tmp_path):
    """A mapping, YAML text and a file are the same pipeline: complex coil images."""
    kspace = noise(2, 16, 16)
    mapping = {
        "echotrain": 1,
        "name": "mine",
        "description": "with 'quotes', \"more\" and ümlauts: {x}",
        "pipeline": ["noise_adjust", "cartesian_kspace", {"fft": {"direction": "inverse"}},
                     {"coil_combine": {"method": "none"}}, {"image": {"component": "complex"}}],
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(
        variant("cartesian_plain", ("{method: rss}", "{method: none}"), ("component: magnitude", "component: complex"))
    )
    truth = reference.centred_fft(kspace, 16)
    for pipeline in (mapping, json.dumps(mapping), path, str(path), path.read_text()):
        (image,) = client.reconstruct(kspace, pipeline=pipeline)
        assert reference.nrmse(image.data[:, 0], truth) <= 1e-5


def test_faults_of_own_pipelines_are_told_with_their_place(client):
    text = variant("radial_2d", ("kernel_width", "kernel_widht"))
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "kernel_widht" in row)
    with pytest.raises(echotrain.ServerError, match=rf":{line}:\d+: .*kernel_widht") as caught:
        list(client.reconstruct(noise(2, 16, 16), pipeline=text))
    assert caught.value.code == "bad-config"


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_errors_of_the_server(client):
    with pytest.raises(echotrain.ServerError) as caught:
        list(client.reconstruct(noise(2, 16, 16), pipeline="radial_3d"))
    assert caught.value.code == "unknown-config" and "radial_2d" in caught.value.text
    assert str(caught.value).startswith("unknown-config: ")
    with pytest.raises(echotrain.ServerError, match="bad-data: .*radial_2d"):
        list(client.reconstruct(noise(2, 16, 16), np.zeros((16, 16, 2)), "cartesian_plain", matrix=16))


def test_images_before_an_error_are_delivered(client):
    xml, readouts = cartesian_scan(frames=2)
    images = client.reconstruct([*readouts, echotrain.Acquisition(noise(1025, 1))], pipeline="cartesian_plain", header=xml)
    assert [next(images).repetition, next(images).repetition] == [0, 1]
    with pytest.raises(echotrain.ServerError, match="too-large"):
        next(images)


def test_warnings_of_the_server(client):
    xml, readouts = cartesian_scan()
    strange = echotrain.Acquisition(noise(2, 16), kspace_encode_step_1=99)
    with pytest.warns(echotrain.ServerWarning, match="kspace_encode_step_1"):
        images = list(client.reconstruct([strange, *readouts], pipeline="cartesian_plain", header=xml))
    assert len(images) == 1
    said = []
    list(client.reconstruct([strange, *readouts], pipeline="cartesian_plain", header=xml,
                            on_text=lambda level, text: said.append((level, text))))  # fmt: skip
    assert any(level == "WARNING" and "kspace_encode_step_1" in text for level, text in said)


def test_a_scan_without_images_is_an_error_with_the_servers_reason(server, client):
    """Lines that lie outside the matrix, of which the server warns; and a noise scan, which it takes in silence."""
    header = echotrain.Header(matrix=(16, 16, 1), fov=(16, 16, 1))
    outside = [echotrain.Acquisition(noise(2, 16), kspace_encode_step_1=50 + line) for line in range(3)]
    with pytest.warns(echotrain.ServerWarning), pytest.raises(echotrain.NoImages) as caught:
        list(client.reconstruct(outside, pipeline="cartesian_plain", header=header))
    assert caught.value.readouts == 3 and "kspace_encode_step_1 is 50" in caught.value.reasons[0]
    assert "no image came of 3 readouts: " in str(caught.value) and caught.value.reasons[0] in str(caught.value)
    silent = [echotrain.Acquisition(noise(2, 16), flags=1 << 18)]
    arguments = {"pipeline": "cartesian_plain", "header": header}
    with pytest.raises(echotrain.NoImages, match="gives no reason"):
        echotrain.reconstruct(silent, host=server.host, port=server.port, **arguments)
    assert list(client.reconstruct(silent, require_images=False, **arguments)) == []

    async def ask_async():
        async with echotrain.AsyncClient(server.host, server.port) as other:
            return [image async for image in other.reconstruct(silent, **arguments)]

    with pytest.raises(echotrain.NoImages, match="of 1 readouts"):
        asyncio.run(ask_async())


def test_hints_are_for_those_who_call_functions(client):
    """The server's texts speak of options of programs."""
    with pytest.raises(echotrain.ServerError, match="name a pipeline first; give pipeline=") as caught:
        list(client.reconstruct(noise(2, 16, 16)))
    assert "--" not in str(caught.value) and "--default-pipeline" in caught.value.text


def test_queries(client):
    assert "radial_2d" in client.query("echotrain::pipelines")
    assert client.query("nonsense") == "Unknown query"


# --- asyncio ---------------------------------------------------------------------------------------------------------


def test_asyncio(server, client):
    xml, readouts = cartesian_scan(frames=3)
    expected = list(client.reconstruct(readouts, pipeline="cartesian_plain", header=xml))
    seen = None

    async def measure():
        for number, readout in enumerate(readouts):
            if number % 16 == 0 and number:
                await asyncio.wait_for(seen.acquire(), 60)
            yield readout

    async def collect(c, source):
        images = []
        async for image in c.reconstruct(source, pipeline="cartesian_plain", header=xml):
            images.append(image)
            if seen is not None:
                seen.release()
        return images

    async def run():
        nonlocal seen
        async with echotrain.AsyncClient(server.host, server.port) as c:
            several = await asyncio.gather(*(collect(c, readouts) for _ in range(3)))
            seen = asyncio.Semaphore(0)
            several.append(await collect(c, measure()))
            with pytest.raises(echotrain.ServerError, match="unknown-config"):
                async for _ in c.reconstruct(readouts, pipeline="none", header=xml):
                    pass
            assert "radial_2d" in await c.query("echotrain::pipelines")
            return several

    for images in asyncio.run(run()):
        assert len(images) == 3
        for image, other in zip(images, expected):
            np.testing.assert_array_equal(image.data, other.data)
    assert len(list(client.reconstruct(readouts, pipeline="cartesian_plain", header=xml))) == 3


@pytest.mark.parametrize("how", ["aclose", "client", "cancel"])
def test_leaving_asyncio_early_ends_the_connection(server, how):
    xml, readouts = cartesian_scan()
    before = given_up(server)

    async def measure():
        while True:
            for readout in readouts:
                yield readout
            await asyncio.sleep(0.01)

    async def run():
        client = echotrain.AsyncClient(server.host, server.port)
        images = client.reconstruct(measure(), pipeline="cartesian_plain", header=xml)
        await images.__anext__()
        if how == "aclose":
            await images.aclose()
        elif how == "client":
            await client.close()
            with pytest.raises(StopAsyncIteration):
                while True:
                    await images.__anext__()
        else:
            everything = asyncio.ensure_future(collect(images))
            await asyncio.sleep(0.05)
            everything.cancel()
            await asyncio.wait([everything])
        # The loop still runs: nothing but the client itself has closed the socket.
        wait_until(lambda: given_up(server) > before)

    async def collect(images):
        return [image async for image in images]

    asyncio.run(run())


def test_several_threads_at_a_time(client):
    xml, readouts = cartesian_scan(frames=2)
    expected = list(client.reconstruct(readouts, pipeline="cartesian_plain", header=xml))
    results = [None] * 4

    def run(place):
        results[place] = pixels(client.reconstruct(readouts, pipeline="cartesian_plain", header=xml))

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        np.testing.assert_array_equal(result, pixels(expected))


# --- the command line ------------------------------------------------------------------------------------------------


def command(*arguments, **variables):
    return subprocess.run([sys.executable, "-m", "echotrain", *map(str, arguments)], capture_output=True, text=True,
                          timeout=200, env={**environment(), **variables})  # fmt: skip


@pytest.fixture
def call(capsys):
    """The same in this process, which is faster."""
    from echotrain.__main__ import main

    def run(*arguments):
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return run


@pytest.fixture(scope="module")
def radial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("radial")
    return simulate(folder / "scan.h5", "golden_radial", "--matrix", 32, "--coils", 2, "--frames", 3, "--readouts", 50)


def test_send_writes_what_it_is_asked_for(server, radial, tmp_path, call):
    address = ("--host", server.host, "--port", server.port)
    pipeline = tmp_path / "mine.yaml"
    pipeline.write_text(settled("radial_2d"))
    expected = pixels(echotrain.reconstruct(radial, pipeline=pipeline, host=server.host, port=server.port))
    outputs = [tmp_path / name for name in ("o.h5", "o.npy", "o.nii.gz", "pictures")]
    for output in outputs:
        run = command if output is outputs[0] else call
        done = run("send", radial, "-c", pipeline, "-o", output, *address)
        assert done.returncode == 0 and "3 images" in done.stdout, done.stderr
        assert "150/150 readouts, 3 images" in done.stderr
    np.testing.assert_array_equal(pixels(echotrain.read_images(outputs[0])), expected)
    np.testing.assert_array_equal(np.load(outputs[1]), expected)
    assert sorted(path.name for path in outputs[3].iterdir()) == [f"image_1_000{i}.png" for i in (1, 2, 3)]
    assert outputs[2].stat().st_size > 1000


def test_send_of_arrays(server, client, tmp_path, call):
    k, weights = spiral()
    kspace = noise(3, *weights.shape)
    for name, array in (("kspace", kspace), ("k", k * 32), ("w", weights)):
        np.save(tmp_path / f"{name}.npy", array)
    done = call("send", tmp_path / "kspace.npy", "--trajectory", tmp_path / "k.npy", "--density", tmp_path / "w.npy",
                "--trajectory-unit", "cycles_per_fov", "--matrix", "32x32", "--fov", 64, "-c", "spiral_2d", "-q",
                "-o", tmp_path / "o.h5", "--host", server.host, "--port", server.port)  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    (expected,) = client.reconstruct(kspace, k, "spiral_2d", density=weights, matrix=32, fov=64)
    (image,) = echotrain.read_images(tmp_path / "o.h5")
    assert reference.nrmse(image.data, expected.data) <= 1e-5
    assert image.field_of_view.tolist() == [64, 64, 2]


def test_the_old_words_are_warned_of(server, radial, tmp_path, call):
    output = tmp_path / "o.h5"
    done = call("recon", radial, "-p", "radial_2d", "-o", output, "-a", server.host, "-p", server.port, "-q")
    assert done.returncode == 0 and output.exists(), done.stderr
    assert "now called send" in done.stderr and "-p NAME is now -c NAME" in done.stderr
    done = call("send", radial, "--pipeline", "radial_2d", "-o", output, "--host", server.host, "-p", server.port, "-q")
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_mistakes_are_told(server, radial, tmp_path, call):
    address = ("--host", server.host, "--port", server.port)
    before = radial.read_bytes()
    for arguments, said in (
        (("send", tmp_path / "none.h5", "-c", "radial_2d", "-o", tmp_path / "o.h5"), "no such file"),
        (("send", radial, "-c", "radial_2d", "-o", radial), "would be lost"),
        (("send", radial, "-c", "radial_2d", "-o", tmp_path / "o.dcm"), "end it with"),
        (("send", radial, "-c", "cartesian_plain", "-o", tmp_path / "o.h5"), "error: bad-data: "),
        (("send", radial, "-c", "radial_2d", "-o", tmp_path / "o.h5", "--matrix", "8"), "matrix: for k-space arrays"),
        (("send", radial, "-c", "radial_2d", "-o", tmp_path / "o.h5", "--token-file", tmp_path / "t"), "--token-file"),
    ):
        done = call(*arguments, *address)
        assert done.returncode == 1 and said in done.stderr, done.stderr
    assert radial.read_bytes() == before and not (tmp_path / "o.h5").exists()


def test_info(server, radial, tmp_path, call):
    told = call("info", radial)
    assert told.returncode == 0, told.stderr
    for fact in ("150 readouts", "32 x 32 x 1 voxels", "goldenangle", "2 coils, 64 samples", "repetition: 0 to 2"):
        assert fact in told.stdout, told.stdout
    asked = command("info", "--host", server.host, "--port", server.port)
    assert asked.returncode == 0 and "radial_2d" in asked.stdout and "Echotrain" in asked.stdout, asked.stderr
    echotrain.write_cfl(tmp_path / "a", np.zeros((1, 64, 5)))
    assert "1 x 64 x 5" in call("info", tmp_path / "a").stdout


def test_view_without_matplotlib_says_how_to_get_it(server, radial):
    code = (
        "import sys; sys.modules['matplotlib'] = None; import echotrain.__main__ as m; sys.exit(m.main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, "view", radial, "-c", "radial_2d"], capture_output=True,
                          text=True, timeout=200, env=environment())  # fmt: skip
    assert done.returncode == 1 and "pip install 'echotrain[view]'" in done.stderr, done.stderr


def test_view_shows_images(server, radial, tmp_path):
    pytest.importorskip("matplotlib")
    address = ("--host", server.host, "--port", server.port)
    picture = tmp_path / "view.png"
    done = command("view", radial, "-c", "radial_2d", "--rate", 400, "--snapshot", picture, *address, MPLBACKEND="Agg")
    assert done.returncode == 0 and "3 images" in done.stdout, done.stderr
    assert picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 5000
    without = command("view", radial, "-c", "radial_2d", *address, MPLBACKEND="Agg")
    assert without.returncode == 1 and "--snapshot" in without.stderr, without.stderr


def test_every_shipped_name_is_known_to_the_server(client):
    told = client.query("echotrain::pipelines")
    for path in SHIPPED.glob("*.yaml"):
        assert path.stem in told
