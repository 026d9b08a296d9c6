"""The live page on a phone, a tablet and a desk, light and dark: what was chosen is seen, nothing is cut, contrasts suffice."""

import itertools
import re

import pytest

import scans
import wire
from browser import guarded_server
from programs import ends_well

LOOKS = list(itertools.product((390, 768, 1400), ("light", "dark")))
MATRIX = 64


@pytest.fixture
def server(tmp_path):
    yield from ends_well(guarded_server(tmp_path))


@pytest.fixture
def page(page):
    yield page
    page.usual_look()


def send(server, pipeline="cartesian_plain", repetitions=1):
    """A scan to its end; what comes back."""
    import numpy as np

    kspace = np.random.default_rng(3).standard_normal((repetitions, 1, MATRIX, MATRIX, 2)) @ [1, 1j]
    parts = [scans.header_xml("cartesian", (MATRIX, MATRIX, 1), readouts=MATRIX, repetitions=repetitions)]
    messages = [wire.config_file(pipeline), wire.header(parts[0])]
    for repetition, line in itertools.product(range(repetitions), range(MATRIX)):
        flags = wire.LAST_IN_SLICE if line == MATRIX - 1 else 0
        messages.append(wire.acquisition(kspace[repetition, :, line].astype("c8"), flags=flags, step1=line, repetition=repetition))
    return wire.exchange(server.address, [*messages, wire.close()])


def in_window(page, selector):
    """Whether its top is seen."""
    return page.script("const y = document.querySelector(arguments[0]).getBoundingClientRect().top; return y >= 0 && y < innerHeight", selector)


@pytest.mark.parametrize("width", [390, 768, 1400])
def test_a_pipeline_that_is_chosen_is_seen_beside_the_list(page, width):
    page.look(width, "dark")
    page.click("[data-view=pipelines]")
    page.until(lambda: page.text("#pipeline-count"), "the list")
    page.click("[data-pipeline=grasp_2d]")
    page.until(lambda: page.text("#pipeline-name") == "grasp_2d", "the pipeline")
    page.until(lambda: in_window(page, "#pipeline-name"), "its being seen")
    page.shot(f"pipelines_{width}")
    if width == 1400:  # however far one reads, the list stays
        page.script("document.getElementById('check-title').scrollIntoView()")
        assert in_window(page, "#pipelines-title") and in_window(page, "[data-pipeline=grasp_2d]")


def test_a_theme_that_is_chosen_stays(page):
    from selenium.webdriver.support.ui import Select

    def ground():
        return page.script("return getComputedStyle(document.body).backgroundColor")

    page.look(1400, "dark")
    dark = ground()
    page.look(1400, "light")
    light = ground()
    assert sum(map(int, light[4:-1].split(", "))) > 600 > 200 > sum(map(int, dark[4:-1].split(", ")))
    choice = Select(page.driver.find_element("css selector", "#theme"))
    choice.select_by_visible_text("dark")
    assert ground() == dark
    page.driver.get(page.url)
    assert ground() == dark
    Select(page.driver.find_element("css selector", "#theme")).select_by_visible_text("as the system")
    assert ground() == light


def test_delays_are_read_from_the_graph(page, server):
    """Keys and the pointer choose a second; what is read there is what the server says of it."""
    from selenium.webdriver.common.keys import Keys

    # The server's numbers are put in their place: a second with 20 ms and 200 ms, ten seconds ago.
    page.script("""
        const seconds = (value) => Array.from({length: 60}, (_, i) => (i === 49 ? value : 0));
        const told = JSON.stringify({images: 9, p50_ms: 20, p99_ms: 200, p50_of_second: seconds(20), p99_of_second: seconds(200)});
        const parse = JSON.parse;
        JSON.parse = (text) => { const made = parse(text); if (made?.delays) made.delays = parse(told); return made; };""")
    page.until(lambda: page.text("#delay-text").startswith("9 images"), "the numbers")
    graph = page.driver.find_element("css selector", "#delay")
    graph.send_keys(Keys.ARROW_LEFT)
    assert page.text("#delay-read") == "now: no image"
    graph.send_keys(*[Keys.ARROW_LEFT] * 10)
    assert page.text("#delay-read") == "10 s ago: median 20 ms, 99th percentile 200 ms"

    def top_of_bar():
        """Where the median's bar begins, as a part of the height between the axes' ends."""
        return page.script("""
            const c = document.getElementById('delay'), sharp = devicePixelRatio, copy = document.createElement('canvas');
            copy.width = c.width, copy.height = c.height;
            const d = copy.getContext('2d', {willReadFrequently: true});
            d.drawImage(c, 0, 0);
            const step = (c.clientWidth - 52) / 60, x = Math.round((52 + 49.25 * step) * sharp);
            const column = d.getImageData(x, 0, 1, Math.round((c.clientHeight - 18) * sharp)).data;
            const colour = getComputedStyle(document.querySelector('.legend .p50')).color.match(/[0-9]+/g).map(Number);
            const rows = [...Array(column.length / 4).keys()].filter((y) => colour.every((v, i) => column[4 * y + i] === v));
            return (c.clientHeight - 18 - rows[0] / sharp) / (c.clientHeight - 18 - 8);""")

    assert top_of_bar() == pytest.approx(20 / 220, abs=0.015)  # of 1.1 * 200 ms; two pixels of 130
    page.click("#delay-log")
    # From 10 to 1000 ms: log(20 / 10) / log(100).
    assert top_of_bar() == pytest.approx(0.1505, abs=0.015)


def test_every_image_can_be_reached_with_the_slider(page, server):
    """By its place in the series, whatever its counters are."""
    send(server, repetitions=12)
    page.until(lambda: page.data(".picture canvas", "image") == "12", "the newest image")
    page.until(lambda: page.text(".sliders output") == "12 of 12", "the list")
    for place in (0, 7, 11):
        page.script("const e = document.querySelector('[data-counter=image]'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))", place)
        page.until(lambda: page.data(".picture canvas", "image") == str(place + 1), f"image {place + 1}")
        assert page.text(".sliders output") == f"{place + 1} of 12"
    assert max(map(len, re.findall(r"[0-9.]+", page.text(".caption")))) <= 8  # numbers as people write them


@pytest.mark.parametrize("width, theme", LOOKS)
def test_every_view_fits_and_can_be_read(page, server, width, theme):
    """axe-core's rules, contrasts among them, in all views; names of gadgets are not broken letter by letter."""
    send(server)
    page.look(width, theme)
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the image")
    for view in ("now", "diagnose", "history", "pipelines"):
        page.click(f"[data-view={view}]")
        if view == "diagnose":
            page.until(lambda: page.data("#diagnose-times", "frames") == "1", "times")
            high = page.script("return Math.max(...[...document.querySelectorAll('#diagnose-times tbody th, #diagnose-times tbody td:first-child')].map((e) => e.offsetHeight))")
            assert high < 60, "a gadget's name has more than two lines"
        if view == "pipelines":
            page.until(lambda: page.text("#pipeline-count"), "the list")
            page.click("[data-pipeline=grasp_2d]")
            page.until(lambda: page.text("#pipeline-name") == "grasp_2d", "the pipeline")
        assert page.fits(), view
        page.shot(f"{view}_{width}_{theme}")
        page.require_accessible()
    bar = page.script("document.querySelector('[data-view=now]').click();"
                      "return [...document.querySelector('.toolbar').children].filter((e) => e.offsetParent).map((e) => Math.round(e.getBoundingClientRect().top + e.offsetHeight / 2))")  # fmt: skip
    assert max(bar) - min(bar) <= 6, "the toolbar wraps"
