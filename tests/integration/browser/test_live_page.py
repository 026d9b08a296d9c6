"""The live page as a person at a browser meets it: headless Chromium looks at a server while scans run."""

import re
import socket

import numpy as np
import pytest

import reference
import scans
import wire
from browser import Page, TOKEN, guarded_server, shots_folder
from programs import Server

MATRIX = 64
NAME = "O'Neill<img src=x onerror=alert(1)>"


@pytest.fixture
def server(tmp_path):
    server = guarded_server(tmp_path)
    yield server
    for one in Scanner.all:
        one.close()
    assert server.stop() == 0


def squares(repetition):
    """An object with two squares whose brightness tells repetitions apart, and its k-space [line, sample]."""
    image = np.zeros((MATRIX, MATRIX), np.complex64)
    image[20:40, 10:30] = 100 * (repetition + 1)
    image[44:54, 36:60] = 50
    return image, reference.spectrum(image)


class Scanner:
    """A Cartesian scan that goes on when the test says so."""

    all = []  # sockets, of which a test that failed may leave some open

    def __init__(self, server, repetitions=2, pipeline="cartesian_plain"):
        xml = scans.header_xml("cartesian", (MATRIX, MATRIX, 1), readouts=MATRIX, repetitions=repetitions)
        subject = f"<subjectInformation><patientName>{NAME.replace('<', '&lt;')}</patientName></subjectInformation>"
        at = xml.index("<acquisitionSystemInformation>")
        self.socket = socket.create_connection(server.address, timeout=20)
        self.all.append(self.socket)
        self.socket.sendall(wire.config_file(pipeline) + wire.header(xml[:at] + subject + xml[at:]))

    def lines(self, first, last, repetition=0):
        kspace = squares(repetition)[1]
        for line in range(first, last):
            flags = wire.LAST_IN_SLICE if line == MATRIX - 1 else 0
            self.socket.sendall(wire.acquisition(kspace[None, line], flags=flags, step1=line, repetition=repetition))

    def finish_quietly(self):
        """What the server says to the end, when it has ended the session."""
        received = b""
        while part := self.socket.recv(1 << 16):
            received += part
        self.socket.close()
        return received

    def finish(self):
        self.socket.sendall(wire.close())
        return self.finish_quietly()


def filled(page):
    return int(page.data(".scan canvas", "filled") or 0)


def test_a_scan_from_its_first_line_to_its_images(page, server):
    """The picture of k-space fills with the lines; images come while the scan runs; window, scroll and voxels work."""
    from selenium.webdriver import ActionChains

    scanner = Scanner(server)
    page.until(lambda: page.text(".scan .title"), "the scan")
    scanner.lines(0, 20)
    page.until(lambda: filled(page) == 20, "20 lines")
    assert page.text(".scan .lines") == "20 of 128 announced lines"
    assert "cartesian_plain" in page.text(".scan .title")
    # What the picture shows: the rows of the lines that have come, and no others.
    rows = page.script(
        "const c = document.querySelector('.scan canvas'); const d = c.getContext('2d').getImageData(0, 0, 96, 96).data;"
        "return [...Array(96).keys()].map((y) => d[4 * (y * 96 + 40) + 2])"
    )
    bright = [y for y, blue in enumerate(rows) if blue > 200]
    assert bright == [y for y in range(96) if y * MATRIX // 96 < 20]
    page.shot("filling")
    scanner.lines(20, MATRIX)
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the first image")
    scanner.lines(0, MATRIX, repetition=1)
    page.until(lambda: page.data(".picture canvas", "image") == "2", "the second image")
    assert "scanning" in page.text(".scan .stage")  # and yet there are images
    page.shot("image")
    page.picture("live_page")

    picture = page.driver.find_element("css selector", ".picture canvas")
    page.script("arguments[0].scrollIntoView({block: 'center'})", picture)
    size = picture.rect
    # The middle of the first square: 200 there, as it was sent (the server's transform is numpy's ifft2; 1e-3: single
    # precision).
    ActionChains(page.driver).move_to_element_with_offset(
        picture, round((20.5 / MATRIX - 0.5) * size["width"]), round((30.5 / MATRIX - 0.5) * size["height"])
    ).perform()
    told = re.fullmatch(r"voxel \((\d+), (\d+), 0\): (\S+) at \((\S+), (\S+), (\S+)\) mm, LPS", page.text(".voxel"))
    assert told, page.text(".voxel")
    x, y = int(told[1]), int(told[2])
    assert abs(x - 20) <= 1 and abs(y - 30) <= 1
    assert float(told[3]) == pytest.approx(200, rel=1e-3)

    before = float(page.data(".picture canvas", "low")), float(page.data(".picture canvas", "high"))
    ActionChains(page.driver).click_and_hold(picture).move_by_offset(60, 0).release().perform()
    after = float(page.data(".picture canvas", "low")), float(page.data(".picture canvas", "high"))
    assert after[1] - after[0] > before[1] - before[0]  # to the right: wider
    assert sum(after) == pytest.approx(sum(before), abs=1e-3 * before[1])  # and nothing else
    page.shot("window")

    page.until(lambda: page.script("return document.querySelectorAll('[data-counter=repetition]').length") == 1, "sliders")
    page.script("document.querySelector('.picture canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: -1, cancelable: true}))")
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the image before")
    assert not page.script("return document.querySelector('.controls input[type=checkbox]').checked")  # follows no more

    scanner.finish()
    page.click("[data-view=history]")
    page.until(lambda: page.text(".ended .outcome").startswith("complete: 128 lines, 2 images"), "the end")
    page.until(lambda: page.text("#no-scans") and not page.text(".scan .title"), "the scan's leaving")
    everything = page.script("return document.documentElement.outerHTML")
    assert "Neill" not in everything  # no patient's name unless the server says so


def test_keys_do_what_the_mouse_does(page, server):
    from selenium.webdriver.common.keys import Keys

    scanner = Scanner(server)
    for repetition in range(2):
        scanner.lines(0, MATRIX, repetition)
    page.until(lambda: page.data(".picture canvas", "image") == "2", "images")
    page.until(lambda: page.script("return document.querySelectorAll('[data-counter=repetition]').length") == 1, "sliders")
    picture = page.driver.find_element("css selector", ".picture canvas")
    picture.send_keys(Keys.PAGE_UP)
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the image before")
    high = float(page.data(".picture canvas", "high"))
    picture.send_keys(Keys.ARROW_RIGHT)
    assert float(page.data(".picture canvas", "high")) > high
    picture.send_keys("+")
    assert page.data(".picture canvas", "zoom") == "1.5"
    picture.send_keys(Keys.HOME)
    assert float(page.data(".picture canvas", "high")) == pytest.approx(high)
    # Every control can be reached by Tab.
    page.script("document.activeElement.blur()")
    body, reached = page.driver.find_element("css selector", "body"), set()
    wanted = page.script("return [...document.querySelectorAll('main#now button, main#now input, main#now select, header button, "
                         "main#now canvas[tabindex]')].filter((e) => e.offsetParent).length")  # fmt: skip
    for _ in range(wanted + 3):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.script("return document.activeElement === document.body ? null : document.activeElement"))
    assert len(reached - {None}) >= wanted, f"{len(reached)} of {wanted}; {body.tag_name}"
    scanner.finish()


def test_a_refused_scan_says_why(page, server):
    """And what it said comes as text, whatever it holds."""
    name = "none<b>such</b>"
    with socket.create_connection(server.address, timeout=20) as client:
        client.sendall(wire.config_file(name))
        while client.recv(1 << 16):
            pass
    page.click("[data-view=history]")
    page.until(lambda: "bad-config" in page.text(".ended .error"), "the reason")
    assert "none<b>such</b>" in page.text(".ended .error")
    assert page.script("return document.querySelectorAll('.ended b').length") == 0
    page.shot("refused")


def test_the_server_goes_and_comes_back(driver, tmp_path):
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--backend", "cpu")
    page = Page(driver, "http://{}:{}/page/".format(*server.admin), shots_folder(tmp_path / "shots"))
    page.until(lambda: page.data("#server", "link") == "open" or page.text("#server") == "connected", "the connection")
    server.stop()
    page.until(lambda: page.data("#server", "link") == "lost", "the loss")
    page.shot("lost")
    (tmp_path / "again").mkdir()
    again = Server(tmp_path / "again", "--backend", "cpu", "--admin-port", server.admin[1])
    page.until(lambda: page.text("#server") == "connected", "the server's return")
    scanner = Scanner(again)
    page.until(lambda: page.text(".scan .title"), "its scan")
    scanner.finish()
    page.driver.get("about:blank")
    page.complaints()  # requests that failed meanwhile
    assert again.stop() == 0


def test_login_and_stop(page, server):
    scanner = Scanner(server)
    page.until(lambda: page.text(".scan .title"), "the scan")
    assert page.script("return document.querySelector('.scan .stop').hidden")
    field = page.until(lambda: page.driver.find_elements("css selector", "#login [type=password]"), "the login")[0]
    field.send_keys("not-a-token-of-anybody\n")
    page.until(lambda: "no token" in page.text("#login"), "the refusal")
    assert all("/login" in line and "401" in line for line in page.complaints())
    field.clear()
    field.send_keys(TOKEN + "\n")
    page.until(lambda: "logged in" in page.text("#login"), "the login")
    cookie = page.driver.get_cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert page.script("return document.cookie") == ""
    page.until(lambda: not page.script("return document.querySelector('.scan .stop').hidden"), "the button")
    page.click(".scan .stop")
    page.click("[data-view=history]")
    page.until(lambda: "stopped" in page.text(".ended .error"), "the end of the scan")
    assert b"an administrator of the server has stopped this session" in scanner.finish_quietly()


def test_accessibility(page, server):
    """Contrast, names of controls, structure: axe-core's rules of WCAG 2.0 A and AA."""
    scanner = Scanner(server)
    scanner.lines(0, MATRIX)
    page.until(lambda: page.data(".picture canvas", "image") == "1", "the image")
    for view in ("now", "history"):
        page.click(f"[data-view={view}]")
        page.require_accessible()
        if view == "now":
            scanner.finish()
