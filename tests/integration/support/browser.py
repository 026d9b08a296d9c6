"""A headless Chromium that looks at the live page."""

import base64
import importlib.util
import os
import pathlib
import shutil
import time

import pytest

from programs import SOURCE, Server

TOKEN = "a-token-of-an-administrator"


def guarded_server(folder, *options):
    """A server in `folder` whose admin port wants TOKEN of who changes something."""
    (folder / "server").mkdir()
    (folder / "tokens").write_text(TOKEN + "\n")
    return Server(folder / "server", "--backend", "cpu", "--admin-token-file", folder / "tokens", *options)


def open_browser(folder):
    """A driver of Selenium, or a skip that says what is missing."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no Selenium (./run setup browser)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium with chromedriver (./run setup browser; on Ubuntu both are snaps, which cannot be used)")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--window-size=1400,1000", f"--user-data-dir={folder}"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return selenium.Chrome(options=options, service=selenium.ChromeService(driver))


def axe_source():
    """axe-core, as a package of Python brings it (`./run setup browser`); a skip where none is installed."""
    for package, name in (("axe_playwright_python", "axe.min.js"), ("axe_selenium_python", "node_modules/axe-core/axe.min.js")):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            if (pathlib.Path(folder) / name).is_file():
                return (pathlib.Path(folder) / name).read_text(encoding="utf-8")
    pytest.skip("no axe-core (./run setup browser)")


class Page:
    """What the test does with the page and sees of it."""

    def __init__(self, driver, url, shots):
        self.driver, self.url, self.shots = driver, url, pathlib.Path(shots)
        self.shots.mkdir(parents=True, exist_ok=True)
        driver.get(url)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, selector):
        """The text of the first element, or "" when there is none."""
        return self.script("const e = document.querySelector(arguments[0]); return e ? e.textContent : ''", selector)

    def data(self, selector, name):
        return self.script("return document.querySelector(arguments[0])?.dataset[arguments[1]]", selector, name)

    def click(self, selector):
        self.driver.find_element("css selector", selector).click()

    def until(self, condition, what, timeout_s=20):
        end = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"waited too long for {what}; the page says: {self.text('body')}"
            time.sleep(0.03)

    def look(self, width, theme, height=900):
        """A window of this width on a machine with a light or dark theme."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})

    def usual_look(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def fits(self):
        """Whether nothing makes the page wider than its window."""
        return self.script("return document.documentElement.scrollWidth <= window.innerWidth")

    def shot(self, name):
        self.driver.save_screenshot(str(self.shots / f"{name}.png"))

    def picture(self, name, of=None, scale=1.0):
        """A picture of the window, or of a whole element, for docs/: `ECHOTRAIN_PICTURES=docs ./run test -R 'live_page|diagnose_view'`."""
        folder = os.environ.get("ECHOTRAIN_PICTURES")
        if not folder:
            return
        order = {"format": "png"}
        if of:
            box = self.script("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
                              "return [b.x + scrollX, b.y + scrollY, b.width, b.height]", of)  # fmt: skip
            clip = dict(zip(("x", "y", "width", "height"), box), scale=scale)
            order.update(clip=clip, captureBeyondViewport=True)
        data = base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", order)["data"])
        assert len(data) <= 150 << 10, f"{name}.png has {len(data)} bytes"
        (SOURCE / folder / f"{name}.png").write_bytes(data)

    def require_accessible(self):
        """Contrast, names of controls, structure: by all rules of axe-core, of which none is switched off, nothing serious is wrong;
        by those of WCAG A and AA nothing at all."""
        if not self.script("return 'axe' in window"):
            self.script(axe_source())
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then(done, (error) => done({error: String(error)}));"
        )
        assert "error" not in found, found["error"]
        assert len(found["passes"]) > 5
        wrong = [
            f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:200] for node in one['nodes']]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical") or any(tag.startswith("wcag") for tag in one["tags"])
        ]
        assert wrong == [], "\n".join(wrong)

    def complaints(self):
        """What the browser has to say against the page: scripts that failed, requests that its policy forbids."""
        return [line["message"] for line in self.driver.get_log("browser") if "favicon" not in line["message"]]


def shots_folder(default):
    """Where screenshots go: ECHOTRAIN_SCREENSHOTS, or a folder of the test's."""
    return pathlib.Path(os.environ.get("ECHOTRAIN_SCREENSHOTS") or default)
