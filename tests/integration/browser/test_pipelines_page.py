"""The live page's view of pipelines: the list, the text and the graph of one, and what the loader says of a text."""

import pytest

from browser import TOKEN, guarded_server
from programs import ends_well

GOOD = "echotrain: 1\nname: mine\ndescription: of a test\npipeline:\n  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"
ODD = "<img src=x onerror=alert(1)>"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "odd.yaml").write_text(
        f"echotrain: 1\nname: odd_one\ndescription: '{ODD}'\npipeline: [noise_adjust, cartesian_kspace, fft, coil_combine, image]\n")  # fmt: skip
    server = guarded_server(tmp_path, "--pipelines", tmp_path / "own")
    yield from ends_well(server)


@pytest.fixture
def page(page):
    page.click("[data-view=pipelines]")
    page.until(lambda: page.text("#pipeline-count"), "the list")
    return page


def gadgets(page, parent="#pipeline"):
    return page.script("return [...document.querySelectorAll(arguments[0] + ' [data-gadget]')].map((e) => e.dataset.gadget)", parent)


def check(page, text):
    """What the page says of it, once it has been checked."""
    page.script("document.getElementById('check-text').value = arguments[0]", text)
    page.click("#check-form button")
    page.until(lambda: page.text("#check-answer") not in ("", "being checked"), "the answer")
    return page.text("#check-answer")


def test_list_and_graph(page):
    """The shipped pipelines are there; one of them shows its gadgets with types, parameters, branches and its text."""
    names = page.script("return [...document.querySelectorAll('[data-pipeline]')].map((e) => e.dataset.pipeline)")
    assert {"cartesian_plain", "grasp_2d", "radial_realtime"} <= set(names)
    drawn = "return [...document.querySelectorAll('#pipeline-list img')].filter((e) => e.naturalWidth > 0).length"
    page.until(lambda: page.script(drawn) >= 3, "pictures of those that are in the window")
    page.shot("pipelines")
    field = page.driver.find_element("css selector", "#pipeline-filter")
    field.send_keys("grasp_2")
    page.until(lambda: page.text("#pipeline-count") == "1 pipeline", "what was looked for")
    page.click("[data-pipeline=grasp_2d]")
    page.until(lambda: page.script("return document.querySelector('#pipeline img')?.naturalWidth") == 128, "its picture")
    page.until(lambda: page.text("#pipeline-name") == "grasp_2d", "the pipeline")
    shown = gadgets(page)
    assert shown == ["noise_adjust", "density_compensation", "fhd", "coil_maps", "regularised", "image"]
    types = page.script("return [...document.querySelectorAll('#pipeline .type')].map((e) => e.textContent)")
    assert types[0] == "Readouts" and types[-1] == "Image" and len(types) == len(shown) + 1
    assert "name: grasp_2d" in page.text("#pipeline-text")
    page.click("#pipeline [data-gadget=regularised] summary")
    given = page.script(
        "return [...document.querySelectorAll('[data-gadget=regularised] tr.given')].map((r) => [r.cells[0].textContent, r.cells[1].textContent])")  # fmt: skip
    assert ["frames", "20"] in given and ["prior", "temporal_variation"] in given
    page.shot("pipeline")
    # A pipeline's own text may hold anything; it is shown as text.
    field.clear()
    field.send_keys("odd")
    page.until(lambda: page.text("#pipeline-count") == "1 pipeline", "the odd one")
    page.click("#pipeline-list li:not([hidden]) button")
    page.until(lambda: page.text("#pipeline-name") == "odd_one", "the odd pipeline")
    assert page.text("#pipeline p") == ODD
    assert page.script("return document.querySelectorAll('main img[onerror], #pipeline img').length") == 0


def test_a_text_is_checked(page):
    assert check(page, GOOD) == "mine is right: the server would take it."
    assert gadgets(page, "#check-graph") == ["noise_adjust", "cartesian_kspace", "fft", "coil_combine", "image"]
    told = check(page, GOOD.replace("noise_adjust", "noise_adjst"))
    assert told == "5:5: no gadget is called 'noise_adjst'; did you mean 'noise_adjust'?"
    assert gadgets(page, "#check-graph") == []
    # The cursor stands at the mistake.
    place = page.script("const f = document.getElementById('check-text'); return [document.activeElement === f, f.selectionStart]")
    assert place == [True, GOOD.index("noise_adjust")]
    page.shot("mistake")
    assert ODD in check(page, GOOD.replace("noise_adjust", f'"{ODD}"'))
    assert page.script("return document.querySelectorAll('main img[onerror], #pipeline img').length") == 0
    assert "at most 256 KiB" in check(page, GOOD + "#" * (256 << 10))
    # Who is logged in is asked for the word that the page knows.
    page.driver.find_element("css selector", "#login [type=password]").send_keys(TOKEN + "\n")
    page.until(lambda: "logged in" in page.text("#login"), "the login")
    assert check(page, GOOD.replace("mine", "other")).startswith("other is right")


def test_the_answer_is_that_of_the_last_text(page):
    """The answer to a text before, where it comes later, does not take the place of the newer text's."""
    page.script("""
        const fetch = window.fetch;
        window.fetch = async (...order) => {
          window.fetch = fetch;
          const response = await fetch(...order);
          await new Promise((go) => { window.late = go; });
          return response;
        };""")
    page.script("document.getElementById('check-text').value = arguments[0]", GOOD)
    page.click("#check-form button")
    page.until(lambda: page.script("return window.late !== undefined"), "the first answer")
    assert check(page, GOOD.replace("mine", "other")).startswith("other is right")
    page.script("window.late()")
    page.driver.execute_async_script("setTimeout(arguments[0], 200)")
    assert page.text("#check-answer").startswith("other is right")


def test_keys_alone_do_it(page):
    from selenium.webdriver.common.keys import Keys

    def active(script):
        return page.script(f"const e = document.activeElement; return {script}")

    def tab_to(condition, what):
        for _ in range(80):
            page.driver.switch_to.active_element.send_keys(Keys.TAB)
            if active(condition):
                return
        pytest.fail(f"Tab does not reach {what}")

    page.driver.find_element("css selector", "#pipeline-filter").send_keys("grasp_2")
    page.until(lambda: page.text("#pipeline-count") == "1 pipeline", "what was looked for")
    tab_to("e.dataset.pipeline === 'grasp_2d'", "the pipeline")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: page.text("#pipeline-name") == "grasp_2d", "the pipeline")
    tab_to("e.tagName === 'SUMMARY' && e.closest('[data-gadget=fhd]') !== null", "a gadget")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.script("return document.querySelector('[data-gadget=fhd] details').open")
    tab_to("e.id === 'check-text'", "the text")
    page.driver.switch_to.active_element.send_keys("name: x")
    tab_to("e.closest('#check-form') !== null && e.tagName === 'BUTTON'", "the button")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "pipeline" in page.text("#check-answer"), "the answer")


def test_accessibility(page):
    """Contrast, names of controls, structure: axe-core's rules of WCAG 2.0 A and AA."""
    page.click("[data-pipeline=grasp_2d]")
    page.until(lambda: page.text("#pipeline-name") == "grasp_2d", "the pipeline")
    page.click("#pipeline [data-gadget=regularised] summary")
    check(page, "name: x\npipelin: 1\n")
    page.require_accessible()
