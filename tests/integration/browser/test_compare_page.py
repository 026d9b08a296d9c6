"""Maps with colour bars, two images and their difference, and the loop's controls, in a headless Chromium."""

import re

import numpy as np
import pytest

import chains
import wire
from browser import guarded_server
from programs import ends_well

MATRIX = 96
LIPARI = (3, 19, 38), (253, 245, 218)  # its ends, by the table of Crameri's colour maps


@pytest.fixture
def server(tmp_path):
    yield from ends_well(guarded_server(tmp_path))


@pytest.fixture
def page(page):
    yield page
    page.usual_look()


def send(server, *images, attributes=""):
    """A scan of images [y, x], repetition by repetition."""
    messages = [chains.pipeline("image", keys="input: images"), wire.header("Dummy XML header")]
    for repetition, pixels in enumerate(images):
        messages.append(wire.image(pixels[None, None], attributes=attributes, image_series_index=1, image_index=repetition + 1, image_type=1,
                                   repetition=repetition, field_of_view=(200, 200, 5), read_dir=(1, 0, 0), phase_dir=(0, 1, 0),
                                   slice_dir=(0, 0, 1)))  # fmt: skip
    reply = wire.exchange(server.address, [*messages, wire.close()])
    assert not reply.errors() and len(reply.images) == len(images), reply.texts


def vials():
    """[y, x]: twelve discs of 1/12 to 1, nothing between them."""
    y, x = np.mgrid[:MATRIX, :MATRIX] / MATRIX
    made = np.zeros((MATRIX, MATRIX))
    for i in range(12):
        made[np.hypot(x - (i % 4 + 0.5) / 4, y - (i // 4 + 0.5) / 3) < 0.1] = (i + 1) / 12
    return made


def meta(**values):
    inner = "".join(f"<meta><name>{name}</name><value>{value}</value></meta>" for name, value in values.items())
    return f"<ismrmrdMeta>{inner}</ismrmrdMeta>"


T1 = meta(map_quantity="T1", map_unit="ms", map_statistic="value", DataRole="Quantitative", RescaleSlope="0.1", WindowCenter="1000", WindowWidth="2000")


def show(page, scan, pane=0):
    """Chooses a scan from the list of one of the pictures."""
    page.until(lambda: page.script(f"return [...document.querySelectorAll('[aria-label$=\": scan\"]')[{pane}].options].some((o) => o.value === '{scan}')"), "the scan")
    page.script(f"const e = document.querySelectorAll('[aria-label$=\": scan\"]')[{pane}]; e.value = '{scan}'; e.dispatchEvent(new Event('change'))")


def colour(page, selector, x, y):
    """A canvas's colour, at parts of its width and height."""
    return tuple(page.script(
        "const c = document.querySelector(arguments[0]), copy = document.createElement('canvas');"
        "copy.width = c.width, copy.height = c.height;"
        "const drawn = copy.getContext('2d', {willReadFrequently: true}); drawn.drawImage(c, 0, 0);"
        "return [...drawn.getImageData(Math.min(c.width - 1, arguments[1] * c.width), Math.min(c.height - 1, arguments[2] * c.height), 1, 1).data]"
        ".slice(0, 3)", selector, x, y))  # fmt: skip


def test_a_map_has_its_colours_its_window_and_a_bar(page, server):
    """Pixels of a tenth of a millisecond, 500 ms on the left and 2000 ms on the right, in a window of 0 to 2000 ms."""
    pixels = np.full((MATRIX, MATRIX), 5000, "u2")
    pixels[:, MATRIX // 2 :] = 20000
    send(server, pixels, attributes=T1)
    page.until(lambda: page.data(".picture canvas", "colours") == "lipari", "the map")
    assert (float(page.data(".picture canvas", "low")), float(page.data(".picture canvas", "high"))) == (0, 2000)
    assert page.text(".colour-bar p") == "T1 [ms]"
    assert page.script("return [...document.querySelectorAll('.colour-bar .ticks span')].map((e) => e.textContent)") == ["0", "500", "1000", "1500", "2000"]
    for x, expected in zip((0, 1), LIPARI):
        assert np.abs(np.subtract(colour(page, ".colour-bar canvas", x, 0), expected)).max() <= 1
    # The picture's colours are the bar's at the same values.
    assert np.abs(np.subtract(colour(page, ".picture canvas", 0.25, 0.5), colour(page, ".colour-bar canvas", 0.25, 0))).max() <= 2
    assert np.abs(np.subtract(colour(page, ".picture canvas", 0.75, 0.5), LIPARI[1])).max() <= 1
    from selenium.webdriver import ActionChains

    picture = page.driver.find_element("css selector", ".picture canvas")
    page.script("arguments[0].scrollIntoView({block: 'center'})", picture)
    ActionChains(page.driver).move_to_element_with_offset(picture, -picture.rect["width"] // 4, 0).perform()
    assert re.search(r": 500 ms at", page.text(".voxel")), page.text(".voxel")
    assert "map of T1 [ms]" in page.text(".caption") and "(T1 [ms])" in page.text(".toolbar select:not([hidden])")
    page.click(".colours input")  # grey: a quarter of the window is a quarter of white
    page.until(lambda: page.data(".picture canvas", "colours") == "grey", "greys")
    assert colour(page, ".picture canvas", 0.25, 0.5) == (63, 63, 63)
    assert colour(page, ".colour-bar canvas", 1, 0) == (255, 255, 255)
    page.click(".colours input")
    page.require_accessible()
    send(server, (20000 * vials()).astype("u2"), attributes=T1)
    page.until(lambda: page.data(".picture canvas", "image") == "2", "a map of vials")
    page.picture("live_page_map", ".pane", scale=0.75)


def test_images_that_are_no_maps_have_no_bar(page, server):
    send(server, np.arange(MATRIX * MATRIX, dtype="f4").reshape(MATRIX, MATRIX))
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the image")
    assert page.data(".picture canvas", "colours") == "grey"
    assert page.script("return document.querySelector('.colour-bar').hidden && document.querySelector('.colours').hidden")


@pytest.mark.parametrize("width, theme", [(390, "light"), (768, "dark"), (1400, "light")])
def test_two_scans_and_their_difference(page, server, width, theme):
    """The second scan is 1.25 of the first, but for one square; a float64 sum says by how much they differ."""
    page.look(width, theme)
    rng = np.random.default_rng(5)
    first = (100 * vials() + rng.uniform(0, 2, (MATRIX, MATRIX))).astype("f4")
    second = 1.25 * first
    second[24:36, 24:36] += 40
    send(server, first)
    send(server, second)
    page.until(lambda: page.data(".picture canvas", "image") == "2", "the second scan's image")
    show(page, 1)
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the first scan's image")
    page.click("[data-view=history]")
    page.until(lambda: page.text(".ended .title") == "Scan 2", "the list")
    page.click(".ended .compare")
    page.until(lambda: page.data(".difference canvas", "nrmse"), "the difference")
    page.until(lambda: "scan 1, image 1 less scan 2, image 1" in page.text(".difference .caption"), "both scans")

    def expected(factor):
        difference = first.astype(float) - factor * second
        return np.sqrt((difference**2).sum() / (first.astype(float) ** 2).sum())

    assert float(page.data(".difference canvas", "nrmse")) == pytest.approx(expected(1), rel=1e-4)
    page.click(".difference input[type=checkbox]")
    factor = (first.astype(float) * second).sum() / (second.astype(float) ** 2).sum()
    page.until(lambda: page.data(".difference canvas", "factor") != "1", "the factor")
    assert float(page.data(".difference canvas", "factor")) == pytest.approx(factor, rel=1e-4)
    assert float(page.data(".difference canvas", "nrmse")) == pytest.approx(expected(factor), rel=1e-4)
    red, _, blue = colour(page, ".difference canvas", 30 / MATRIX, 30 / MATRIX)
    assert blue > red + 30  # the square is brighter in the second one: below zero
    assert page.fits()
    page.shot(f"difference_{width}_{theme}")
    if width == 1400:
        page.picture("live_page_compare", "#viewer", scale=0.6)
    page.require_accessible()
    page.click("#viewer > p button")  # one picture again
    assert page.script("return document.querySelectorAll('.pane').length") == 1


def test_images_of_other_sizes_have_no_difference(page, server):
    send(server, np.ones((MATRIX, MATRIX), "f4"))
    send(server, np.ones((MATRIX, 2 * MATRIX), "f4"))
    page.until(lambda: page.data(".picture canvas", "image") == "2", "the images")
    page.click("[data-view=history]")
    page.until(lambda: len(page.driver.find_elements("css selector", ".ended .compare")) == 2, "the list")
    page.driver.find_elements("css selector", ".ended .compare")[1].click()
    page.until(lambda: page.text(".difference .caption") == f"The images differ in size: {2 * MATRIX} × {MATRIX} and {MATRIX} × {MATRIX}.", "the reason")


def test_the_loop_tells_how_fast_it_is(page, server):
    """Twelve images at ten a second, one by one; and by hand, with the buttons and the space bar."""
    send(server, *[np.full((MATRIX, MATRIX), 1 + i, "f4") for i in range(12)])
    page.until(lambda: page.text(".sliders output") == "12 of 12", "the images")
    page.click("[aria-label='Image: one back']")
    page.until(lambda: page.data(".picture canvas", "image") == "11", "the image before")
    page.click("[aria-label='Image: one on']")
    page.until(lambda: page.data(".picture canvas", "image") == "12", "the next image")
    page.driver.find_element("css selector", ".picture canvas").send_keys(" ")
    told = page.until(lambda: re.fullmatch(r"([\d.]+) shown", page.text(".measured")), "the speed")
    assert 0 < float(told[1]) <= 11  # ten are asked for; a busy machine shows fewer
    page.driver.find_element("css selector", ".picture canvas").send_keys(" ")
    assert page.text(".measured") == "" and page.script("return document.querySelector('.toolbar [aria-pressed]').ariaPressed") == "false"
