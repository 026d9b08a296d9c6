"""A browser, and the live page of the test's `server` in it."""

import pytest

from browser import Page, open_browser, shots_folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = open_browser(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture
def page(driver, server, tmp_path):
    driver.delete_all_cookies()
    page = Page(driver, "http://{}:{}/page/".format(*server.admin), shots_folder(tmp_path / "shots"))
    page.until(lambda: page.text("#server") == "connected", "the connection")
    yield page
    found = page.complaints()
    driver.get("about:blank")  # before the server ends
    page.complaints()
    assert found == []
