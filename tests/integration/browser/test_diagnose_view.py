"""The live page's view "Diagnose": times of gadgets, noise, trajectory, coils and warnings of a scan, against what was sent."""

import json
import re
import socket
import urllib.request

import numpy as np
import pytest

import scans
import wire
from programs import Server, variant

MATRIX, SPOKES, COILS = 64, 40, 4
LABELS = ["Head_1", "Head_2", "<b>Neck_1</b>", "Neck_2"]
# Rows mix independent noise: what the coils' correlations are follows from it.
MIXING = np.array([[1, 0, 0, 0], [0.9, 0.5, 0, 0], [0, 0.2, 2, 0], [0.1, 0, 0, 0.7]])
# Enough to do for pcg that a busy machine does not hide it.
SLOW = variant("cg_sense_2d", ("iterations: 12, tolerance: 1e-4", "iterations: 100, tolerance: 1e-9"))
BEATS_MS = [800, 900, 850, 1000]


@pytest.fixture
def server(tmp_path):
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--backend", "cpu", "--recent-images-mib", "8")
    yield server
    for one in Radial.all:
        one.close()
    assert server.stop() == 0


def noise_sent():
    random = np.random.default_rng(1)
    white = random.standard_normal((COILS, 4096)) + 1j * random.standard_normal((COILS, 4096))
    return (MIXING @ white).astype(np.complex64)


def stamped(message, time_ms):
    """With the stamps of a readout at `time_ms`, in ticks of 2.5 ms."""
    since = time_ms - max(beat for beat in np.cumsum([0, *BEATS_MS]) if beat <= time_ms)
    return wire.changed(message, acquisition_time_stamp=1000 + time_ms / 2.5, physiology_time_stamp=(since / 2.5, 0, 0))


class Radial:
    """A golden-angle scan of a disc, with noise readouts first, that goes on when the test says so."""

    all = []

    def __init__(self, server, pipeline=None, noise=True, names=LABELS):
        labels = "".join(
            f"<coilLabel><coilNumber>{c}</coilNumber><coilName>{name.replace('<', '&lt;')}</coilName></coilLabel>"
            for c, name in enumerate(names)
        )
        xml = scans.header_xml("radial", (MATRIX, MATRIX, 1), readouts=SPOKES, repetitions=10,
                               system=f"<receiverChannels>{COILS}</receiverChannels>{labels}")  # fmt: skip
        self.socket = socket.create_connection(server.address, timeout=20)
        self.all.append(self.socket)
        self.sent = self.repetition = 0
        self.socket.sendall((wire.config_file(pipeline) if pipeline else wire.config_text(SLOW)) + wire.header(xml))
        if noise:
            self.socket.sendall(wire.acquisition(noise_sent(), flags=wire.NOISE))

    @staticmethod
    def spoke(number):
        angle = np.pi * (np.sqrt(5) - 1) / 2 * number
        return (np.arange(MATRIX) - MATRIX // 2)[:, None] / MATRIX * np.array([[np.cos(angle), np.sin(angle)]])

    def frame(self):
        """All spokes of a repetition in one write."""
        message = b""
        for step in range(SPOKES):
            k = self.spoke(step)
            radius = np.maximum(1e-9, np.hypot(*k.T) * 20)
            data = 1e4 * np.sin(2 * np.pi * radius) / radius  # about a disc
            weights = np.array([1, 0.8, 0.6, 0.4])[:, None] * np.exp(2j * np.pi * k[:, 0] * np.arange(COILS)[:, None])
            flags = wire.LAST_IN_SLICE if step == SPOKES - 1 else 0
            one = wire.acquisition(data * weights, k, flags=flags, step1=step, repetition=self.repetition)
            message += stamped(one, 10.0 * self.sent)
            self.sent += 1
        self.repetition += 1
        self.socket.sendall(message)

    def finish(self):
        self.socket.sendall(wire.close())
        received = b""
        while part := self.socket.recv(1 << 16):
            received += part
        self.socket.close()
        return wire.parse(received)


def why(server, scan, query=""):
    with urllib.request.urlopen("http://{}:{}/live/diagnose?scan={}{}".format(*server.admin, scan, query)) as answer:
        return json.load(answer)


def open_diagnose(page):
    page.click("[data-view=diagnose]")
    page.until(lambda: page.text("#diagnose-times-text"), "an answer")


def bars(page):
    return page.script("return [...document.querySelectorAll('#diagnose-times tbody tr')].map((r) => [r.cells[0].textContent, "
                       "Number(r.querySelector('.bar div').dataset.ms), r.querySelector('.bar div').offsetWidth])")  # fmt: skip


def test_a_running_scan_and_what_is_left_of_it(page, server):
    scanner = Radial(server)
    page.click("[data-view=diagnose]")
    page.until(lambda: "no image has been made yet" in page.text("#diagnose-times-text"), "the scan")
    for _ in range(5):
        scanner.frame()
        page.until(lambda: page.data("#diagnose-times", "frames") == str(scanner.repetition), "the frame's times")
    # A readout that does not fit: the server warns.
    scanner.socket.sendall(wire.acquisition(np.ones((COILS, 7)), np.zeros((7, 3)), step1=0))
    page.until(lambda: "skipped" in page.text("#diagnose-warnings"), "the warning")

    # Times: one place for each gadget (those that run as one have one), and the sum is what images' own times say.
    times = bars(page)
    gadgets = ["noise_adjust", "density_compensation", "fhd", "coil_maps", "pcg", "image"]
    assert [name.split(" ")[0] for name, *_ in times] == ["entrance", *gadgets, "exit"]
    total = sum(ms for _, ms, _ in times)
    assert total == pytest.approx(float(page.data("#diagnose-times", "whole")), abs=1e-3)
    slowest = max(times, key=lambda one: one[1])
    assert slowest[2] == max(width for *_, width in times) > 50
    assert slowest[0] == "pcg"
    assert [width for *_, width in times] == pytest.approx([slowest[2] * ms / slowest[1] for _, ms, _ in times], abs=1.5)  # pixels
    # What the image's own times say: from the frame's last batch until its pixels are converted. The batches before it, of
    # readouts that are only gridded, are the difference: a few percent, unless another program computes in between, which
    # a frame in three may meet here.
    apart = []
    while not apart or apart[-1] > 0.15 * total:
        assert scanner.repetition <= 8, f"all frames' times are apart from those of their images [ms]: {apart}"
        computed = float(re.search(r"([0-9.]+) ms until computed", page.text("#diagnose-times-text"))[1])
        times = bars(page)
        total = sum(ms for _, ms, _ in times)
        apart.append(abs(total - times[-1][1] - computed))
        if apart[-1] > 0.15 * total:
            scanner.frame()
            page.until(lambda: page.data("#diagnose-times", "frames") == str(scanner.repetition), "the frame's times")

    # Noise: labels as sent, correlations as numpy finds them in the same samples.
    names = page.script("return [...document.querySelectorAll('#diagnose-noise-rows tbody th')].map((e) => e.textContent)")
    assert names == LABELS
    expected = np.abs(np.corrcoef(noise_sent()))
    grey = np.array(page.script(
        f"const c = document.getElementById('diagnose-noise'), n = c.width / {COILS};"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        f"return [...Array({COILS * COILS}).keys()].map((i) => d[4 * (Math.floor((Math.floor(i / {COILS}) + 0.9) * n) * c.width"
        f" + Math.floor((i % {COILS} + 0.9) * n))])")).reshape(COILS, COILS)  # fmt: skip
    # 1/255 from rounding; the covariance here has no mean taken off, which is below 1/sqrt(4096) of the deviation.
    assert np.abs(grey / 255 - expected).max() < 2 / 255 + 1 / 4096
    told = page.script("return [...document.querySelectorAll('#diagnose-noise-rows tbody tr')].map((r) => [Number(r.cells[1].textContent), r.cells[2].textContent])")
    assert [std for std, _ in told] == pytest.approx(noise_sent().real.std(axis=1), rel=0.03)  # 4096 samples: 1/sqrt(8192)
    assert told[0][1].startswith("Head_2: ") and told[2][1].startswith("Head_2: ")
    page.driver.find_element("css selector", "#diagnose-noise").send_keys("\ue014")  # arrow right
    assert page.text("#diagnose-noise-read") == f"Head_1 with Head_2: {expected[0, 1]:.3f}"

    # Trajectory: the readouts as sent, ends included.
    shown = why(server, page.data("#diagnose", "scan"))["trajectory"]
    assert shown["axes"] == 2 and shown["every"] == 1 and len(shown["readouts"]) == SPOKES == int(page.data("#diagnose-xy", "readouts"))
    for step, points in enumerate(shown["readouts"]):
        sample = np.arange(48) * (MATRIX - 1) // 47
        assert np.abs(np.reshape(points, (-1, 2)) - Radial.spoke(step)[sample]).max() < 1e-4
    ink = page.script("const c = document.getElementById('diagnose-xy'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                      "return d.filter((v, i) => i % 4 === 3 && v > 0).length")  # fmt: skip
    assert ink > 1000

    # Heart: 200 readouts of 10 ms hold the first intervals.
    intervals = why(server, page.data("#diagnose", "scan"))["heart"]["rr_ms"]
    assert intervals == BEATS_MS[: len(intervals)] and len(intervals) >= 2
    assert f"mean {np.mean(intervals):.0f} ms, 800 to {max(intervals):.0f} ms" in page.text("#diagnose-heart-text")
    assert "noise comes from" in page.text("#diagnose-facts")
    assert page.script("return document.querySelectorAll('#diagnose b').length") == 0  # the label came as text
    page.shot("diagnose")

    scanner.finish()
    page.until(lambda: "(complete)" in page.text("#diagnose-scan option"), "the end")
    assert "skipped" in page.text("#diagnose-warnings")
    assert bars(page) == times
    assert why(server, page.data("#diagnose", "scan"))["noise"]["labels"] == LABELS


def test_what_a_scan_does_not_have(page, server):
    """It says so, in the place where it would be."""
    kspace = np.ones((2, MATRIX), np.complex64)
    scanner = socket.create_connection(server.address, timeout=20)
    Radial.all.append(scanner)
    xml = scans.header_xml("cartesian", (MATRIX, MATRIX, 1), readouts=MATRIX)
    scanner.sendall(wire.config_file("cartesian_plain") + wire.header(xml))
    for line in range(MATRIX):
        scanner.sendall(wire.acquisition(kspace, flags=wire.LAST_IN_SLICE if line == MATRIX - 1 else 0, step1=line))
    open_diagnose(page)
    page.until(lambda: page.data("#diagnose-times", "frames") == "1", "the frame")
    assert "cartesian_kspace + fft + coil_combine" in [name for name, *_ in bars(page)]
    assert page.text("#diagnose-noise-text").startswith("Not in this scan")
    assert page.text("#diagnose-trajectory-text") == ("Not in this scan: readouts have no positions of their own (cartesian). "
                                                 "Now shows which lines have come.")  # fmt: skip
    assert "not in this scan" in page.text("#diagnose-heart-text")
    assert page.text("#diagnose-warnings-none") == "The server has warned of nothing in this scan."
    page.click("#diagnose-coils-open summary")
    page.until(lambda: page.text("#diagnose-coils-text").startswith("None yet"), "the answer")
    for canvas in ("#diagnose-noise", "#diagnose-xy", "#diagnose-heart"):
        assert not page.driver.find_element("css selector", canvas).is_displayed()
    scanner.sendall(wire.close())


def test_coil_images_are_made_while_somebody_looks(page, server):
    scanner = Radial(server, "radial_2d", noise=False)
    scanner.frame()
    open_diagnose(page)
    page.until(lambda: page.data("#diagnose-times", "frames") == "1", "the first frame")
    number = page.data("#diagnose", "scan")
    assert why(server, number)["coils"] is None  # nobody has asked
    page.click("#diagnose-coils-open summary")
    page.until(lambda: page.text("#diagnose-coils-text").startswith("None yet"), "the question")
    scanner.frame()
    page.until(lambda: page.data("#diagnose-coils", "number") == "1", "the strip")
    means = page.script(
        "return [...document.querySelectorAll('#diagnose-coils canvas')].map((c) => { const d = c.getContext('2d').getImageData(0, 0, c.width,"
        " c.height).data; return d.reduce((sum, v, i) => sum + (i % 4 === 0 ? v : 0), 0) / (d.length / 4); })")  # fmt: skip
    # Coils were sent with weights 1, 0.8, 0.6, 0.4, and one scale is for all; 5 %: picked pixels, 8 bits.
    assert len(means) == COILS and np.array(means) / means[0] == pytest.approx([1, 0.8, 0.6, 0.4], rel=0.05)
    page.shot("coils")
    page.click("#diagnose-coils-open summary")
    asked = why(server, number, "&coils=1")["coils"]  # the last one that is asked for
    scanner.frame()
    scanner.frame()
    page.until(lambda: page.data("#diagnose-times", "frames") == "4", "more frames")
    assert why(server, number)["coils"]["number"] == asked["number"] + 1
    scanner.finish()


def test_keys_alone_do_it(page, server):
    from selenium.webdriver.common.keys import Keys

    scanner = Radial(server)
    scanner.frame()
    open_diagnose(page)
    page.until(lambda: page.data("#diagnose-times", "frames") == "1", "the frame")
    page.script("document.querySelector('[data-view=diagnose]').focus()")
    reached = []
    for _ in range(12):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.script("const e = document.activeElement; return e.id || e.parentElement.id"))
    for wanted in ("diagnose-scan", "diagnose-noise", "diagnose-noise-table", "diagnose-coils-open"):
        assert wanted in reached
    scanner.finish()


def test_accessibility(page, server):
    """Contrast, names of controls, structure: axe-core's rules of WCAG 2.0 A and AA."""
    scanner = Radial(server, "radial_2d", names=["Head_1", "Head_2", "Neck_1", "Neck_2"])
    scanner.frame()
    scanner.socket.sendall(wire.acquisition(np.ones((COILS, 7)), np.zeros((7, 3)), step1=0))
    open_diagnose(page)
    page.until(lambda: page.data("#diagnose-times", "frames") == "1", "the frame")
    page.click("#diagnose-coils-open summary")
    page.click("#diagnose-noise-table summary")
    page.until(lambda: page.text("#diagnose-coils-text").startswith("None yet"), "the question")
    scanner.frame()
    page.until(lambda: page.data("#diagnose-coils", "number") == "1", "the strip")
    page.require_accessible()
    page.picture("live_page_diagnose", "#diagnose", scale=0.55)
    scanner.finish()
