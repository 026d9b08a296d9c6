"""Branches of pipelines, over the wire: two series of one reconstruction, items routed by what they are, and readouts
and images in one connection. Truth is numpy in float64, or the pixels sent."""

import re
import subprocess

import numpy as np
import pytest

import chains
import reference
import scans
import steps
import wire
from programs import BIN, SOURCE, Server, run_client, simulated_scan

ismrmrd = pytest.importorskip("ismrmrd")

N = 24
XML = wire.header(scans.header_xml("cartesian", (N, N, 1), readouts=N))
PAGE = (SOURCE / "docs" / "pipelines.md").read_text()


def picture(seed):
    """Random complex pixels [y, x], none of them near 0."""
    random = np.random.default_rng(seed)
    return (1 + random.random((N, N))) * np.exp(2j * np.pi * random.random((N, N)))


def readouts(image, contrast=0, flags=0):
    """The lines of one coil whose Cartesian image is `image`."""
    kspace = reference.spectrum(image)
    messages = []
    for y in range(N):
        last = wire.LAST_IN_SLICE if y == N - 1 else 0
        message = wire.acquisition(kspace[None, y], step1=y, flags=last | flags, counter=y)
        messages.append(wire.changed(message, contrast=contrast))
    return messages


def pipeline(*gadgets, keys="backend: auto"):
    return chains.pipeline(*gadgets, keys=keys)


def through(server, config, messages, header=XML):
    return chains.through(server, config, header, messages)


def by_series(reply):
    """The pixels [y, x] of one channel and plane, in order, by series number."""
    found = {}
    for image in reply.images:
        found.setdefault(int(image.head["image_series_index"]), []).append(image.pixels[0, 0])
    return found


def close_to(pixels, truth, tolerance=1e-5):
    return np.linalg.norm(pixels - truth) <= tolerance * np.linalg.norm(truth)


COILS = ("cartesian_kspace", "fft", "coil_combine: {method: none}")


def test_magnitude_and_phase_are_two_series(served):
    truth = [picture(seed) for seed in range(3)]
    messages = [m for contrast, image in enumerate(truth) for m in readouts(image, contrast)]
    reply = through(served, wire.config_file("cartesian_magnitude_phase"), messages)
    series = by_series(reply)
    assert {number: len(images) for number, images in series.items()} == {1: 3, 1001: 3}
    for image, magnitude, phase in zip(truth, series[1], series[1001]):
        assert close_to(magnitude, np.abs(image)) and close_to(magnitude * np.exp(1j * phase), image)
    for image in reply.images:
        of_phases = image.head["image_series_index"] == 1001
        assert image.head["image_type"] == (2 if of_phases else 1)
        assert ("<name>SeriesDescriptionAdditional</name>" in image.attributes) == bool(of_phases)
    # The branch leaves the chain's images as they are without it.
    alone = through(served, pipeline("cartesian_kspace", "fft", "coil_combine: {method: adaptive}", "image"), messages)
    for image, without in zip(series[1], by_series(alone)[1], strict=True):
        np.testing.assert_array_equal(image, without)


def test_items_are_routed_by_what_they_are(served):
    truth = [picture(seed) for seed in range(4)]
    user_3 = 1 << 58
    messages = [m for n, image in enumerate(truth) for m in readouts(image, n, user_3 if n == 2 else 0)]
    reply = through(served, pipeline(
        "branch: {when: {flag: user_3}, pass_on: false, series_offset: 50, pipeline: [cartesian_kspace, fft, "
        "image: {component: complex}]}",
        *COILS,
        "branch: {when: {contrast: [0, 3]}, pipeline: [resize: {crop_x: 8, crop_y: 8}, image: {component: real}]}",
        "branch: {when: {contrast: {from: 3}}, pass_on: false, pipeline: [image: {component: imag}]}",
        "image: {component: complex}"), messages)  # fmt: skip
    series = by_series(reply)
    assert {number: len(images) for number, images in series.items()} == {51: 1, 1: 2, 2001: 2, 3001: 1}
    assert close_to(series[51][0], truth[2])
    for image, want in zip(series[1], (truth[0], truth[1])):
        assert close_to(image, want)
    middle = slice(N // 2 - 4, N // 2 + 4)
    for image, want in zip(series[2001], (truth[0], truth[3])):
        assert close_to(image, want.real[middle, middle])
    assert close_to(series[3001][0], truth[3].imag)


def test_readouts_and_images_share_a_connection(served):
    truth, before, after = picture(1), np.arange(N * N).reshape(N, N), np.random.default_rng(2).random((N, N))
    lines = readouts(truth)
    sent = [steps.image(before[None, None], series=3, index=5, kind=1), steps.image(after[None, None], series=4),
            steps.image(-after[None, None], series=4, image_type=2)]  # fmt: skip
    messages = [sent[0], *lines[:7], sent[1], *lines[7:], sent[2]]
    reply = through(served, pipeline(
        "branch: {when: {item: images, image_type: magnitude}, pipeline: [invert_contrast: {maximum: 600}, image]}",
        "branch: {when: {item: images, series: 3}, series_offset: 0, pipeline: [image]}",
        *COILS, "image: {component: complex}"), messages)  # fmt: skip
    series = by_series(reply)
    assert {number: len(images) for number, images in series.items()} == {1: 1, 3: 1, 1003: 1, 1004: 1}
    assert close_to(series[1][0], truth)
    np.testing.assert_array_equal(series[3][0], before)
    np.testing.assert_array_equal(series[1003][0], 600 - before)
    np.testing.assert_allclose(series[1004][0], 600 - after, rtol=1e-6)
    assert [t for t in reply.texts if "no branch of pipeline 'test' takes images of series 4 and image_type 2" in t]


def test_the_shipped_pipeline_for_readouts_and_images(served):
    truth, pixels = picture(5), 1 + 99 * np.random.default_rng(6).random((N, N))
    reply = through(served, wire.config_file("cartesian_and_images"),
                    [*readouts(truth), steps.image(pixels[None, None], series=2)])  # fmt: skip
    series = by_series(reply)
    assert {number: len(images) for number, images in series.items()} == {1: 1, 1002: 1}
    for image, want in ((series[1][0], np.abs(truth)), (series[1002][0], pixels)):
        level = np.sort(want.ravel())[int(0.995 * (want.size - 1))]  # becomes 1000
        assert abs(np.median(image / want) * level - 1000) < 1
        assert close_to(image, want * np.median(image / want), 1e-3)
    assert series[1][0].dtype == np.uint16 and series[1002][0].dtype == np.float32


def test_a_branch_gives_coil_maps_to_the_solver(served):
    """What its own images, taken as coil maps, multiply is 1."""
    coils = [picture(seed) for seed in range(3)]
    kspace = reference.spectrum(coils)
    messages = [wire.acquisition(kspace[:, y], step1=y, flags=wire.LAST_IN_SLICE * (y == N - 1)) for y in range(N)]
    reply = through(served, pipeline(
        "cartesian_kspace",
        "branch: {role: coil_maps, pipeline: [fft, image: {component: complex}]}",
        "encoding", "coil_maps: {method: given}", "pcg: {lambda: 0, tolerance: 1.0e-6, iterations: 100}",
        "image: {component: complex}"), messages)  # fmt: skip
    assert list(by_series(reply)) == [1]
    assert close_to(by_series(reply)[1][0], np.ones((N, N)), 1e-3)


def test_steps_of_a_branch_give_their_images_when_they_have_them(tmp_path):
    """A Python module in a branch: its images come on their own, also after the last readout."""
    server = steps.start_server(tmp_path)
    truth = [picture(seed) for seed in range(3)]
    messages = [m for contrast, image in enumerate(truth) for m in readouts(image, contrast)]
    reply = through(server, pipeline(*COILS, f"branch: {{pipeline: [image, {steps.python('pass_on')}]}}", "image"),
                    messages)  # fmt: skip
    series = by_series(reply)
    assert {number: len(images) for number, images in series.items()} == {1: 3, 1001: 3}
    for image, want in zip(series[1001], truth):
        assert close_to(image, np.abs(want))
    assert server.stop() == 0


def test_copies_count_in_the_sessions_memory(tmp_path):
    server = Server(tmp_path, "--backend", "cpu", "--session-memory-mib", "96")
    large = steps.image(np.ones((4, 1, 1024, 1024)), kind=1)  # 32 MiB as complex numbers
    held = "branch: {pipeline: [stack_slices: {slices: 2}, image]}"
    config = pipeline(held, held, held, "stack_slices: {slices: 2}", "image", keys="input: images")
    reply = wire.exchange(server.address, [config, wire.header("Dummy XML header"), large, wire.close()])
    assert any("resources" in t or "budget" in t for t in reply.errors()), reply.texts
    config = pipeline("branch: {pipeline: [image]}", "image", keys="input: images")
    small = [steps.image(np.ones((1, 1, 8, 8)))]
    assert len(through(server, config, small, wire.header("Dummy XML header")).images) == 2
    assert server.stop() == 0


def test_wrong_branches_are_refused_where_they_are(served):
    images, noise = (f"branch: {{when: {{{key}}}, pipeline: [image]}}" for key in ("item: images", "kind: noise"))
    for branches, words in (
        (["branch: {when: {contrst: 1}, pipeline: [image]}"], "9:21: unknown key 'contrst'; did you mean 'contrast'?"),
        (["branch: {pipeline: [fft, image]}"], "9:25: 'fft' takes KSpace or Grid, but the branch gets CoilImages"),
        ([images, noise], "10:21: 'kind' tells readouts apart"),
        (["branch: {when: {contrast: 0}}"], "9:5: a branch needs gadgets of its own"),
    ):
        config = pipeline(*COILS, *branches, "image")
        reply = wire.exchange(served.address, [config, XML, wire.close()])
        assert any("bad-config" in t and words in t for t in reply.errors()), reply.texts


def test_a_branch_is_explained_with_all_its_keys():
    command = [BIN / "echotrain-server", "--explain", "branch"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    known = "when pass_on series_offset role pipeline item kind flag content image_type meta encoding slice contrast"
    for key in f"{known} phase repetition set series".split():
        assert re.search(rf"\b{key}[:,]", shown.stdout), key
        assert f"`{key}`" in PAGE or f" {key}:" in PAGE or f"`{key}:" in PAGE, key


def test_recon_takes_images_beside_readouts_for_a_branch(tmp_path):
    truth, pixels = picture(7), np.random.default_rng(8).random((N, N)).astype("f4")
    file = tmp_path / "both.h5"
    scans.Scan(XML[6:].decode(), readouts(truth)).save(file)
    dataset = ismrmrd.Dataset(file, "dataset", create_if_needed=False)
    dataset.append_image("image_2", ismrmrd.Image.from_array(pixels, transpose=False, image_series_index=2))
    dataset.close()
    made = run_client("recon", file, "-c", "cartesian_and_images", "-o", tmp_path / "out.h5")
    assert made.returncode == 0, made.stderr
    shown = {series: scans.read_images(tmp_path / "out.h5", f"image_{series}")[1] for series in (1, 1002)}
    assert [len(images) for images in shown.values()] == [1, 1]
    want = np.abs(truth)
    assert close_to(shown[1][0, 0, 0], want * np.median(shown[1][0, 0, 0] / want), 1e-3)


def test_the_example_of_the_page_is_a_pipeline(tmp_path):
    (example,) = re.findall(r"## Branches\n.*?```yaml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "example.yaml"
    file.write_text("echotrain: 1\nname: example\ndescription: of the page\n" + example)
    shown = subprocess.run([BIN / "echotrain-server", "--check", file], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert "branch: CoilImages -> series + 100, when content is g_factor; not passed on\n  image: " in shown.stdout
    assert "branch: CoilImages -> series + 2000\n" in shown.stdout
    # The scan of it, by the client without a server.
    options = "--trajectory cartesian --matrix 48 --coils 4 --acceleration 2 --calibration 16 --no-truth"
    simulated_scan(tmp_path / "scan.h5", *options.split())
    made = run_client("recon", tmp_path / "scan.h5", "-c", file, "-o", tmp_path / "out.h5")
    assert made.returncode == 0, made.stderr
    for series in (1, 103, 2001):
        assert len(scans.read_images(tmp_path / "out.h5", f"image_{series}")[0]) == 1
