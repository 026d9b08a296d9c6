"""The site of docs/: it builds strictly, has every page, and loads nothing from elsewhere."""

import os
import pathlib
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from programs import BIN, SOURCE

PYTHON = pathlib.Path(os.environ.get("ECHOTRAIN_DOCS_PYTHON") or BIN.parent / "venv-docs" / "bin" / "python")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import material, mkdocs"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no MkDocs Material (./run setup docs)")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([PYTHON, SOURCE / ".ci" / "site.py", folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """What a browser would load for the page, and the anchors and links in it."""

    LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "embed": "src", "object": "data"}

    def __init__(self, text):
        super().__init__()
        self.loaded, self.ids, self.links, self.text = [], set(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("id"):
            self.ids.add(values["id"])
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values.get("href", ""))
        if values.get(self.LOADED.get(tag)):
            self.loaded.append(values[self.LOADED[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])

    def handle_data(self, data):
        self.text += data


def test_every_page_is_there(site):
    wanted = {path.relative_to(SOURCE / "docs").with_suffix(".html") for path in (SOURCE / "docs").rglob("*.md")}
    wanted = {path.with_name("index.html") if path.name == "README.html" else path for path in wanted}
    missing = [str(path) for path in wanted if not (site / path).exists()]
    assert not missing, missing
    for name in ("ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG"):
        assert (site / "project" / f"{name}.html").exists()


def test_nothing_comes_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        page = Page(path.read_text(encoding="utf-8"))
        assert len(page.loaded) > 2
        outside = [each for each in page.loaded if re.match(r"(https?:)?//", each)]
        assert not outside, f"{path.relative_to(site)} loads {outside}"
        for each in page.loaded:
            if not each.startswith(("data:", "/")):
                assert (path.parent / re.sub(r"[?#].*", "", each)).exists(), f"{path.relative_to(site)}: no {each}"
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", text), path
        assert not re.search(r"unpkg\.com|jsdelivr|googleapis|gstatic", text), path


def test_links_within_the_site_lead_somewhere(site):
    known = {}
    for path in site.rglob("*.html"):
        if path.name != "404.html":  # served for any address, so its links begin at the root
            known[path.resolve()] = Page(path.read_text(encoding="utf-8"))
    for path, page in known.items():
        for link in page.links:
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or name.startswith("/"):
                continue
            to = (path.parent / name).resolve() if name else path
            if to.is_dir():
                to = to / "index.html"
            assert to.exists(), f"{path.name}: {link}"
            if anchor and to in known:
                assert anchor in known[to].ids, f"{path.name}: {link}"


def test_lists_and_tables_are_lists_and_tables(site):
    """Python's Markdown reads some texts otherwise than GitHub does: what is marked up must not stand there as text."""
    for path in site.rglob("*.html"):
        article = re.search(r"<article.*</article>", path.read_text(encoding="utf-8"), re.DOTALL)
        text = re.sub(r"<(pre|code).*?</\1>", "", article[0], flags=re.DOTALL) if article else ""
        raw = re.findall(r"^(?:\|.*\||- .{20}|#{2,} .*)$", re.sub(r"<[^>]+>", "", text), re.MULTILINE)
        assert not raw, f"{path.relative_to(site)}: {raw[:3]}"


def test_a_broken_page_is_refused(site, tmp_path):
    """--strict counts: a link to a heading that is not there ends the build."""
    config = (SOURCE / ".ci" / "mkdocs.yml").read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# A\n\n[b](#nowhere)\n")
    (tmp_path / "mkdocs.yml").write_text(re.sub(r"^nav:\n.*", "nav: [README.md]\n", config, flags=re.MULTILINE | re.DOTALL))
    command = [PYTHON, "-m", "mkdocs", "build", "--strict", "-f", tmp_path / "mkdocs.yml", "-d", tmp_path / "out"]
    done = subprocess.run(command, env={**os.environ, "ECHOTRAIN_SITE_SOURCES": str(tmp_path / "docs")},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode != 0 and "nowhere" in done.stdout + done.stderr, sys.version
