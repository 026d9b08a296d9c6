"""Scans of a field that is off, over TCP: spirals with a field map from the client, from the assets folder, or of the
pipeline t2star_map."""

import numpy as np
import pytest

import chains
import scans
import wire
from programs import Server, ends_well, measured, simulated_scan, variant

ismrmrd = pytest.importorskip("ismrmrd")

MATRIX, ARMS, SAMPLES, DWELL_US = 40, 30, 200, 20.0


def spiral_of(image, hz, dwell_us=DWELL_US):
    """An object, its field in Hz, and the samples of a spiral with density weights, by a direct sum in float64."""
    y, x = np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2
    t = 1e-6 * dwell_us * np.arange(SAMPLES)
    trajectory, data = [], []
    for arm in range(ARMS):
        r = 0.5 * (np.arange(SAMPLES) + 0.5) / SAMPLES
        angle = 2 * np.pi * (r * 8 + arm / ARMS)
        weight = 2 * np.pi * r * (0.5 / SAMPLES) / ARMS
        trajectory.append(np.stack([r * np.cos(angle), r * np.sin(angle), weight], 1))
        phase = np.exp(2j * np.pi * (-trajectory[-1][:, 0, None, None] * x - trajectory[-1][:, 1, None, None] * y
                                     + t[:, None, None] * hz))  # fmt: skip
        data.append((phase * image).sum((1, 2))[None])
    # What gridding makes of the same samples without a field: blurred by k-space's edge alone.
    k = np.concatenate(trajectory)
    still = np.zeros((MATRIX, MATRIX), complex)
    for kx, ky, weight in k:
        forward = np.exp(-2j * np.pi * (kx * x + ky * y))
        still += weight * (forward * image).sum() * np.conj(forward)
    return image, hz, np.array(trajectory), np.array(data), np.abs(still)


@pytest.fixture(scope="module")
def scene():
    y, x = np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2
    u, v = x / (MATRIX / 2), y / (MATRIX / 2)
    return spiral_of((u**2 + v**2 < 0.7) * (1 + 0.5 * np.sin(9 * u) * np.cos(7 * v)), 160 * np.sin(2 * u + v**2))


@pytest.fixture(scope="module")
def served(tmp_path_factory, scene):
    assets = tmp_path_factory.mktemp("assets")
    dataset = ismrmrd.Dataset(assets / "map.h5", "dataset", create_if_needed=True)
    dataset.append_image("map", ismrmrd.Image.from_array(scene[1].astype("f4")[None, None], transpose=False))
    dataset.close()
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--assets", assets, "--backend", "cpu"))


def messages(scene, text, *before, dwell_us=DWELL_US):
    out = [wire.config_text(text), wire.header(scans.header_xml("spiral", (MATRIX, MATRIX, 1), readouts=ARMS)), *before]
    for arm in range(ARMS):
        flags = wire.FIRST_IN_SLICE * (arm == 0) | wire.LAST_IN_SLICE * (arm == ARMS - 1)
        out.append(wire.acquisition(scene[3][arm].astype("c8"), scene[2][arm].astype("f4"), flags, arm, center=0,
                                    sample_time_us=dwell_us, counter=arm))  # fmt: skip
    return [*out, wire.close()]


def error(reply, truth):
    assert not reply.errors(), reply.errors()
    image = reply.images[0].pixels.squeeze()
    return np.linalg.norm(image - truth) / np.linalg.norm(truth)


def test_a_map_that_is_sent_and_one_of_the_assets_undo_the_blur(served, scene):
    text = variant("spiral_off_resonance")
    of_file = text.replace("field: {accuracy", "field: {file: map.h5, accuracy")
    assert of_file != text
    sent = wire.exchange(served.address, messages(scene, text, wire.image(scene[1].astype("f4")[None, None], "field_map")))
    kept = wire.exchange(served.address, messages(scene, of_file))
    plain = wire.exchange(served.address, messages(scene, variant("spiral_2d")))
    # The conjugate phase is no inverse: where the field bends, densities are not quite those of the trajectory.
    assert error(sent, scene[4]) < 0.12
    assert error(plain, scene[4]) > 0.2
    # Readouts are gridded as they arrive, in parts that differ from run to run.
    two = [reply.images[0].pixels for reply in (sent, kept)]
    assert np.linalg.norm(two[0] - two[1]) < 1e-5 * np.linalg.norm(two[0])
    assert "off_resonance_segments" in sent.images[0].attributes


def test_the_field_of_t2star_map_undoes_the_blur_of_a_later_spiral(served, tmp_path):
    """Vials of -60 to 60 Hz: the field that one scan's echoes tell is sent, as it came back, before the spiral."""
    path = simulated_scan(tmp_path / "echoes.h5", "--trajectory", "cartesian", "--matrix", MATRIX, "--coils", 2, "--vials", 9,
                          "--mapping", "multi_echo", "--snr", 50, "--noise-scan")  # fmt: skip
    header, *readouts = scans.read_messages(path)
    reply = chains.through(served, wire.config_file("t2star_map"), header, readouts)
    (told,) = [image for image in reply.images if "<value>field_map</value>" in image.attributes]
    hz = np.asarray(scans.read_array(path, "truth_b0"), float).reshape(MATRIX, MATRIX)
    vials = np.asarray(scans.read_array(path, "truth_t2star"), float).reshape(MATRIX, MATRIX) > 0
    slow = 4 * DWELL_US  # a turn at the end of a readout, where the field is strongest
    scene = spiral_of(vials.astype(float), hz, slow)

    def error_with(name, *before):
        return error(wire.exchange(served.address, messages(scene, variant(name), *before, dwell_us=slow)), scene[4])

    plain = error_with("spiral_2d")
    known = error_with("spiral_off_resonance", wire.image(hz.astype("f4")[None, None], "field_map"))
    mapped = error_with("spiral_off_resonance", wire.image(told.pixels, attributes=told.attributes))
    # SNR 50 tells the field to 2 Hz where T2* is shortest, 3 % of a turn at the end of a readout.
    assert mapped < 0.7 * plain and mapped < known + 0.05, (plain, known, mapped)


def test_without_a_map_the_client_is_told_how_to_give_one(served, scene):
    reply = wire.exchange(served.address, messages(scene, variant("spiral_off_resonance")))
    assert any("role is field_map" in text for text in reply.errors()), reply.errors()


def test_the_measured_spiral_is_sharper_with_its_map(served, tmp_path):
    """Mean gradient over mean image, over the phantom: docs/off_resonance.md has the figures."""
    folder = measured("spiral_b0_octopus")
    hz = np.load(folder / "fieldmap_hz.npy").T
    dataset = ismrmrd.Dataset(tmp_path / "octopus.h5", "dataset", create_if_needed=True)
    dataset.append_image("map", ismrmrd.Image.from_array(hz.astype("f4")[None, None], transpose=False))
    dataset.close()
    server = Server(tmp_path, "--assets", tmp_path, "--backend", "cpu")
    images = []
    try:
        for text in (variant("spiral_2d"),
                     variant("spiral_off_resonance", ("field: {accuracy", "field: {file: octopus.h5, accuracy"))):  # fmt: skip
            (tmp_path / "config.yaml").write_text(text)
            out = tmp_path / f"out{len(images)}.h5"
            result = server.send(folder / "spiral20.h5", tmp_path / "config.yaml", out)
            assert result.returncode == 0, result.stderr
            images.append(np.asarray(scans.read_images(out)[1][0], float).squeeze())
    finally:
        assert server.stop() == 0
    mask = images[0] > 0.2 * np.percentile(images[0], 99)
    plain, corrected = [np.hypot(*np.gradient(image))[mask].mean() / image[mask].mean() for image in images]
    assert corrected > 1.15 * plain, (plain, corrected)
