"""Images whose values single precision or 16 bits cannot hold: they say so themselves, in one text, and in a metric."""

import http.client
import re

import numpy as np
import pytest

import scans
import wire
from exposition import Metrics
from programs import Server, ends_well

KINDS = {
    "not_finite": ("echotrain_not_finite_pixels", "not finite"),
    "saturated": ("echotrain_saturated_pixels", "larger than 65535"),
    "all_zero": ("echotrain_all_zero", "is zero everywhere"),
}
MATRIX = 16


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--backend", "cpu"))


def counted(server):
    """Images of each kind, by the server's metric."""
    connection = http.client.HTTPConnection(*server.admin, timeout=20)
    connection.request("GET", "/metrics")
    found = Metrics(connection.getresponse().read().decode())
    connection.close()
    return {kind: found["echotrain_odd_images_total", {"kind": kind}] for kind in KINDS}


def attribute(image, name):
    found = re.search(f"<name>{name}</name><value>([^<]*)</value>", image.attributes)
    return int(found[1]) if found else 0


def cartesian(size, repetitions=2, peak=1.0):
    """White noise of this size; the middle of k-space is `peak` times as large, from the second repetition on."""
    random = np.random.default_rng(4)
    kspace = random.standard_normal((repetitions, 2, MATRIX, MATRIX, 2)) @ (1, 1j)
    kspace[1:, :, MATRIX // 2, MATRIX // 2] *= peak
    with np.errstate(over="ignore"):
        return scans.cartesian(np.clip(kspace.real * size, -3e38, 3e38) + 1j * np.clip(kspace.imag * size, -3e38, 3e38))


def radial(size):
    angles = np.pi * np.arange(24) / 24
    radii = (np.arange(32) - 16) / 32
    points = np.stack([radii[None] * np.cos(angles)[:, None], radii[None] * np.sin(angles)[:, None]], axis=-1)
    random = np.random.default_rng(5)
    data = size * (random.standard_normal((24, 2, 32, 2)) @ (1, 1j))
    return scans.non_cartesian("radial", (MATRIX, MATRIX, 1), points, data)


def exchange(server, config, scan):
    """The reply, and what the metric counted meanwhile."""
    before = counted(server)
    reply = wire.exchange(server.address, scan.stream(wire.config_file(config)))
    assert not reply.errors(), reply.texts
    after = counted(server)
    return reply, {kind: after[kind] - before[kind] for kind in KINDS}


def check(reply, metric, kind, least_images=1):
    """Every image of the kind says so, one text does, and the metric knows how many there are. Returns their numbers."""
    name, words = KINDS[kind]
    numbers = [attribute(image, name) for image in reply.images]
    odd = sum(number > 0 for number in numbers)
    assert odd >= least_images
    assert metric[kind] == odd
    assert sum(text.startswith("WARNING") and words in text for text in reply.texts) == 1, reply.texts
    return numbers


@pytest.mark.parametrize("size", [1e30, 1e38])
@pytest.mark.parametrize("config", ["cartesian_plain", "radial_2d"])
def test_values_beyond_single_precision(own_server, config, size):
    scan = cartesian(size) if config == "cartesian_plain" else radial(size)
    reply, metric = exchange(own_server, config, scan)
    numbers = check(reply, metric, "not_finite")
    for image, number in zip(reply.images, numbers):
        assert number == np.count_nonzero(~np.isfinite(image.pixels))


@pytest.mark.parametrize("config", ["cartesian_plain", "cartesian_display", "radial_2d"])
def test_values_below_single_precision(own_server, config):
    reply, metric = exchange(own_server, config, radial(1e-42) if config == "radial_2d" else cartesian(1e-42))
    numbers = check(reply, metric, "all_zero")
    for image, number in zip(reply.images, numbers):
        assert number == (0 if np.any(image.pixels) else 1)


@pytest.mark.parametrize("size", [1e30, 1e38])
def test_display_images_of_infinite_values(own_server, size):
    """Sixteen bits cannot hold what is not finite: the pixels look well, so the attribute and the text have to tell."""
    reply, metric = exchange(own_server, "cartesian_display", cartesian(size))
    assert all(image.pixels.dtype == np.uint16 for image in reply.images)
    check(reply, metric, "not_finite", least_images=len(reply.images))


def test_display_images_beyond_the_scale_of_the_first(own_server):
    """The first image sets the scale; a later one, 10,000 times as bright, is cut."""
    reply, metric = exchange(own_server, "cartesian_display", cartesian(1, repetitions=3, peak=1e6))
    numbers = check(reply, metric, "saturated", least_images=2)
    assert numbers[0] == 0
    for image, number in zip(reply.images, numbers):
        assert number == np.count_nonzero(image.pixels == 65535)


@pytest.mark.parametrize("config", ["cartesian_plain", "cartesian_display", "radial_2d"])
def test_ordinary_values_say_nothing(own_server, config):
    reply, metric = exchange(own_server, config, radial(1) if config == "radial_2d" else cartesian(1))
    assert reply.images and not any(metric.values())
    assert not any(words in text for _, words in KINDS.values() for text in reply.texts)
    assert not any(name in image.attributes for name, _ in KINDS.values() for image in reply.images)


def test_the_clients_own_images_stay_as_they_were(own_server):
    """passthrough gives back the very bytes; the text and the metric still tell."""
    messages = [wire.config_file("passthrough"), wire.header(scans.header_xml("cartesian", (8, 8, 1)))]
    for pixels in ([1, np.nan, np.inf, 2], [0, 0, 0, 0], [1, 2, 3, 4], [np.nan, 0, 0, 0]):
        messages.append(wire.image(np.array(pixels, "f4")[None, None, None]))
    before = counted(own_server)
    reply = wire.exchange(own_server.address, [*messages, wire.close()])
    after = counted(own_server)
    assert [image.attributes for image in reply.images] == [""] * 4
    assert reply.images[0].pixels.tobytes() == np.array([1, np.nan, np.inf, 2], "<f4").tobytes()
    assert {kind: after[kind] - before[kind] for kind in KINDS} == {"not_finite": 2, "saturated": 0, "all_zero": 1}
    assert sum("2 of 4 pixels" in text and "not finite" in text for text in reply.texts) == 1
    assert sum("is zero everywhere" in text for text in reply.texts) == 1
