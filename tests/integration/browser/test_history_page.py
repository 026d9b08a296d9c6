"""The view "History" in a headless Chromium: images are taken away, and a capture runs again with another pipeline."""

import fcntl
import io
import re
import socket
import urllib.request
import zipfile

import numpy as np
import pytest

import chains
import dicom_files
import scans
import wire
from browser import TOKEN, guarded_server
from programs import ends_well

MATRIX = 32


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(driver, downloads):
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    return driver


@pytest.fixture
def server(tmp_path):
    server = guarded_server(tmp_path, "--capture-directory", tmp_path / "captures")
    yield from ends_well(server)


def scan(server, config=None, images=1):
    """A Cartesian scan of one coil; its (first) image."""
    rng = np.random.default_rng(8)
    kspace = (rng.standard_normal((1, 1, MATRIX, MATRIX, 2)) @ [1, 1j]).astype("c8")
    reply = wire.exchange(server.address, scans.cartesian(kspace).stream(config or wire.config_file("cartesian_plain")))
    assert not reply.errors() and len(reply.images) == images
    return reply.images[0].pixels[0, 0]


def log_in(page):
    field = page.until(lambda: page.driver.find_elements("css selector", "#login [type=password]"), "the login")[0]
    field.send_keys(TOKEN + "\n")
    page.until(lambda: "logged in" in page.text("#login"), "the login")


def shown(page, selector):
    return page.script("const e = document.querySelector(arguments[0]); return e !== null && !e.hidden", selector)


def closed(capture):
    """Whether the server is done with the file: it holds a lock until then."""
    with open(capture, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_images_are_taken_away(page, server, downloads):
    image = scan(server)
    page.click("[data-view=history]")
    page.until(lambda: "1 images" in page.text(".ended .outcome"), "the scan's end")
    assert not shown(page, ".downloads")  # who is not logged in takes nothing
    log_in(page)
    page.until(lambda: shown(page, ".downloads"), "the buttons")
    page.shot("downloads")

    def take(format_name, pattern):
        page.click(f"[data-format={format_name}]")
        def there():
            # Chromium makes an empty file of the name first, and puts what came in its place.
            return [one for one in downloads.iterdir() if re.fullmatch(pattern, one.name) and one.stat().st_size > 0]
        return page.until(there, f"the file {pattern}")[0].read_bytes()

    nifti = take("nifti", r"scan_1_series_\d+\.nii")
    np.testing.assert_array_equal(np.frombuffer(nifti[352:], "<f4").reshape(MATRIX, MATRIX), image)
    for format_name in ("png", "dicom"):
        archive = zipfile.ZipFile(io.BytesIO(take(format_name, rf"scan_1_{format_name}\.zip")))
        assert archive.testzip() is None and len(archive.namelist()) == 1
    assert take("hdf5", r"scan_1\.h5").startswith(b"\x89HDF\r\n")
    assert image.astype("<f4").tobytes() in take("mrd", r"scan_1\.mrd")
    assert page.text(".download-told") == ""


def test_why_there_is_no_file_is_said_in_words(page, server):
    """Two images of one place make no volume; the page says so instead of a download that fails."""
    pytest.importorskip("ismrmrd")
    one = wire.image_of_package(dicom_files.image(np.ones((4, 4), "f4")))
    messages = [chains.pipeline("image", keys="input: images"), wire.header("Dummy XML header"), one, one, wire.close()]
    reply = wire.exchange(server.address, messages)
    assert len(reply.images) == 2, reply.texts
    log_in(page)
    page.click("[data-view=history]")
    page.until(lambda: "2 are kept" in page.text(".ended .outcome"), "the images")
    page.click("[data-format=nifti]")
    page.until(lambda: "several images of the same counters" in page.text(".download-told"), "the reason")
    assert all("409" in line for line in page.complaints())


def test_a_capture_runs_again_with_another_pipeline(page, server, tmp_path):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    image = scan(server)
    log_in(page)
    page.click("[data-view=history]")
    page.until(lambda: shown(page, "#replay"), "the captures")
    (capture,) = [one for one in (tmp_path / "captures").iterdir() if one.suffix == ".mrd"]
    page.until(lambda: page.script("return document.querySelectorAll('#replay-pipeline option').length") > 5, "pipelines")
    assert page.script("return document.querySelector('#replay-capture').value") == capture.name
    assert re.search(r"UTC, scan 1, .* KiB", page.text("#replay-capture"))
    page.shot("replay")
    page.until(lambda: closed(capture), "the end of the capture's writing")
    # By keyboard alone: the pipeline, then the button.
    Select(page.driver.find_element("css selector", "#replay-pipeline")).select_by_value("cartesian_magnitude_phase")
    page.driver.find_element("css selector", "#replay-pipeline").send_keys(Keys.TAB)
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: page.data(".picture canvas", "image") == "3", "the images of the replay")
    assert "scan 2" in page.text(".pane .caption")
    page.click("[data-view=history]")
    page.until(lambda: "Scan 2" in page.text(".ended .title"), "its end")
    assert page.text(".ended .outcome").startswith(f"complete: {MATRIX} lines, 2 images")
    assert page.text(".ended .pipeline") == "cartesian_magnitude_phase"
    assert len([one for one in (tmp_path / "captures").iterdir() if one.suffix == ".mrd"]) == 1  # it is not captured again
    host, port = server.admin
    ask = urllib.request.Request(f"http://{host}:{port}/live/download?scan=2&format=nifti",
                                 headers={"Authorization": f"Bearer {TOKEN}"})  # fmt: skip
    archive = zipfile.ZipFile(io.BytesIO(urllib.request.urlopen(ask, timeout=20).read()))
    made = [np.frombuffer(archive.read(name)[352:], "<f4").reshape(MATRIX, MATRIX) for name in archive.namelist()]
    magnitudes = [one for one in made if one.min() >= 0]
    # The same data: what the other pipeline calls the magnitude is what cartesian_plain made of them, to single precision.
    assert len(made) == 2 and len(magnitudes) == 1
    np.testing.assert_allclose(magnitudes[0], image, rtol=1e-5, atol=1e-5 * image.max())


def test_the_table_is_searched_and_sorted(page, server):
    """Rows with a thumbnail of the image that was sent back; a scan that failed offers its capture."""
    page.click("[data-view=history]")
    assert "echotrain send" in page.text("#no-ended pre")
    image = scan(server)
    scan(server, wire.config_file("cartesian_magnitude_phase"), images=2)
    log_in(page)
    xml = scans.header_xml("cartesian", (MATRIX, MATRIX, 1), readouts=MATRIX)
    with socket.create_connection(server.address, timeout=20) as failing:
        failing.sendall(wire.config_file("cartesian_plain") + wire.header(xml) + wire.acquisition(np.ones((1, MATRIX), "c8")))
        page.until(lambda: page.text(".scan .lines").startswith("1 "), "its first line")
        stop = urllib.request.Request("http://{}:{}/sessions/3/stop".format(*server.admin), method="POST",
                                      headers={"Authorization": f"Bearer {TOKEN}"})  # fmt: skip
        urllib.request.urlopen(stop, timeout=20).close()
        while failing.recv(1 << 16):
            pass

    def rows():
        return page.script("return [...document.querySelectorAll('.ended .title')].map((e) => e.textContent)")

    page.until(lambda: rows() == ["Scan 3", "Scan 2", "Scan 1"], "the newest first")
    page.click("[data-sort=began]")
    assert rows() == ["Scan 1", "Scan 2", "Scan 3"]
    assert page.script("return document.querySelector('[data-sort=began]').closest('th').ariaSort") == "ascending"
    page.click("[data-sort=images]")
    assert rows() == ["Scan 3", "Scan 1", "Scan 2"]  # 0, 1 and 2 images
    told = page.script("return [...[...document.querySelectorAll('.ended dl')].at(-1).children].map((e) => [e.localName, e.textContent])")
    assert told[told.index(["dt", "readouts"]) + 1] == ["dd", str(MATRIX)]

    field = page.driver.find_element("css selector", "#ended-filter")
    field.send_keys("magnitude_ph")
    assert rows() == ["Scan 2"] and page.text("#ended-count") == "1 scan"
    page.script("const e = document.getElementById('ended-filter'); e.value = 'scan 1'; e.dispatchEvent(new Event('input'))")
    assert rows() == ["Scan 1"]
    page.until(lambda: page.script("return document.querySelector('.ended canvas').width") == MATRIX, "its thumbnail")
    grey = page.script("const c = document.querySelector('.ended canvas');"
                       "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((v, i) => i % 4 === 0)")  # fmt: skip
    expected = 255 * (image - image.min()) / (image.max() - image.min())
    assert np.abs(np.reshape(grey, (MATRIX, MATRIX)) - expected).max() <= 1  # rounded down, from single precision
    page.script("const e = document.getElementById('ended-filter'); e.value = ''; e.dispatchEvent(new Event('input'))")

    page.click("[data-view=now]")
    page.click("[data-view=history]")  # the list of captures is read when the view opens
    page.until(lambda: shown(page, "tr[data-key='3'] .again"), "the offer")
    assert not shown(page, "tr[data-key='1'] .again")  # nothing failed there
    page.shot("history_table")
    page.click("tr[data-key='3'] .again")
    assert "-s3-" in page.script("return document.querySelector('#replay-capture').value")
    assert page.script("return document.activeElement.id") == "replay-pipeline"


def test_an_image_within_so_many_pixels(server):
    """A quarter of 32 pixels, each the mean of 4 x 4."""
    image = scan(server)
    with urllib.request.urlopen("http://{}:{}/live/image?scan=1&within=8".format(*server.admin), timeout=20) as answer:
        body = answer.read()
    small = np.frombuffer(body[4 + int.from_bytes(body[:4], "little"):], "<f4").reshape(8, 8)
    np.testing.assert_allclose(small, image.reshape(8, 4, 8, 4).mean(axis=(1, 3)), rtol=1e-5)


def test_accessibility(page, server):
    scan(server)
    log_in(page)
    page.click("[data-view=history]")
    page.until(lambda: shown(page, "#replay"), "the captures")
    page.until(lambda: shown(page, ".downloads"), "the buttons")
    page.require_accessible()
    # Every button of a scan that has ended, and of the replay, can be reached by Tab.
    wanted = page.script("return [...document.querySelectorAll('main#history button, main#history select')]"
                         ".filter((e) => e.offsetParent).length")  # fmt: skip
    assert wanted >= 9
    page.script("document.querySelector('[data-view=history]').focus()")
    reached = set()
    from selenium.webdriver.common.keys import Keys

    for _ in range(wanted + 8):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.script("const e = document.activeElement; return e.closest('main#history') && "
                                "e.matches('button, select') ? e : null"))  # fmt: skip
    assert len(reached - {None}) == wanted


def test_two_series_are_scrolled_and_zoomed_together(page, server):
    """And each by itself when they are not linked."""
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    pytest.importorskip("ismrmrd")
    messages = [
        wire.image_of_package(dicom_files.image(np.full((8, 8), 1 + r, "f4"), repetition=r, image_series_index=series,
                                                image_index=r + 1))
        for r in range(4) for series in (1, 2)
    ]  # fmt: skip
    wire.exchange(server.address, [chains.pipeline("image", keys="input: images"), wire.header("Dummy XML header"),
                                   *messages, wire.close()])  # fmt: skip
    page.until(lambda: page.data(".picture canvas", "image") == "8", "the newest image")
    page.until(lambda: page.script("return document.querySelectorAll('.pane [aria-label$=series] option').length") == 2, "the series")
    page.driver.find_element("xpath", "//button[text()='Two side by side']").click()

    def numbers():
        return page.script("return [...document.querySelectorAll('.pane .picture canvas')].map((c) => Number(c.dataset.image))")

    def zooms():
        return page.script("return [...document.querySelectorAll('.pane .picture canvas')].map((c) => c.dataset.zoom)")

    page.until(lambda: numbers() == [8, 8], "both")
    page.until(lambda: page.script("return document.querySelectorAll('.pane [aria-label$=series] option').length") == 4, "both series")
    Select(page.driver.find_elements("css selector", ".pane [aria-label$=series]")[1]).select_by_index(0)
    page.until(lambda: numbers() == [8, 7], "two series")
    first, second = page.driver.find_elements("css selector", ".pane .picture canvas")
    first.send_keys(Keys.PAGE_UP)  # the repetition before, of both
    page.until(lambda: numbers() == [6, 5], "both, one back")
    second.send_keys(Keys.PAGE_UP)
    page.until(lambda: numbers() == [4, 3], "both, by the other one")
    second.send_keys("+")
    assert zooms() == ["1.5", "1.5"]
    page.click(".linked input")
    first.send_keys(Keys.PAGE_UP, "+")
    page.until(lambda: numbers() == [2, 3], "only the first")
    assert zooms() == ["2", "1.5"]
    page.driver.find_element("xpath", "//button[text()='Two side by side']").click()
