#!/usr/bin/env python3
"""Builds the site of docs/: .ci/site.py [SITE]   (default: build/site; needs mkdocs-material, ./run setup docs)

MkDocs knows one folder. This gathers what belongs to the site in SITE-sources: docs/, the documents of the root as
project/, and each file or folder of the tree that a page leads to as tree/, with links changed to fit. Then MkDocs builds
it, strictly.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from check_links import EXTERNAL, FENCE, found_links

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
LIST = re.compile(r"^ {0,3}([-*]|\d+\.) ")


class Gathered:
    """The sources of the site; `place` is where a file of the tree goes, and gathers it."""

    def __init__(self, folder):
        self.folder = folder
        self.waiting = []
        self.places = {}

    def place(self, path):
        path = path.resolve()
        if path in self.places:
            return self.places[path]
        name = path.relative_to(ROOT)
        if path.is_dir():
            to = self.place(path / "README.md") if (path / "README.md").exists() else None
            to = to or self.folder / "tree" / name / "README.md"
        elif name.parts[0] == "docs":
            to = self.folder / name.relative_to("docs")
        elif str(name) in PROJECT:
            to = self.folder / "project" / name
        else:
            to = self.folder / "tree" / name
        self.places[path] = to
        self.waiting.append(path)
        return to

    def write_all(self):
        while self.waiting:
            path = self.waiting.pop()
            to = self.places[path]
            if path.is_dir() and (path / "README.md").exists():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                to.write_text(self.page(listing(path), path / "README.md"), encoding="utf-8")
            elif path.suffix == ".md":
                to.write_text(self.page(path.read_text(encoding="utf-8"), path), encoding="utf-8")
            else:
                shutil.copy(path, to)

    def page(self, text, path):
        """The text with its links led to where files went, as a Markdown that MkDocs reads as GitHub does."""
        here = self.folder / "tree" / path.relative_to(ROOT) if path not in self.places else self.places[path]
        for found in reversed(list(found_links(text))):
            if EXTERNAL.match(found[1]) or found[1].startswith("#"):
                continue
            name, hash_sign, anchor = found[1].partition("#")
            to = os.path.relpath(self.place(path.parent / name), here.parent)
            text = text[: found.start(1)] + to + hash_sign + anchor + text[found.end(1) :]
        return spaced(text)


def listing(folder):
    """A page of the files of a folder that has none."""
    names = subprocess.run(["git", "-C", folder, "ls-files"], capture_output=True, text=True).stdout.split()
    names = names or sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return f"# {folder.relative_to(ROOT)}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def spaced(text):
    """A blank line before each list that follows a paragraph, which Python's Markdown needs."""
    lines, fence, listed = [], None, False
    for line in text.splitlines():
        if found := FENCE.match(line):
            if fence is None:
                fence = found[1]
            elif found[1].startswith(fence):
                fence = None
        elif fence is None:
            begins = bool(LIST.match(line))
            if begins and not listed and lines and lines[-1].strip():
                lines.append("")
            listed = begins or (listed and (not line.strip() or line.startswith("  ")))
        lines.append(line)
    return "\n".join(lines) + "\n"


def keep_local(site):
    """MkDocs Material would load a shim for file:// and a painter of diagrams from unpkg.com; no page needs them."""
    for script in site.glob("assets/javascripts/*.js"):
        script.write_text(script.read_text(encoding="utf-8").replace("https://unpkg.com/", "not-loaded/"), encoding="utf-8")


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] and sys.argv[1].startswith("-"):
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    site = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    sources = site.with_name(site.name + "-sources")
    shutil.rmtree(sources, ignore_errors=True)
    gathered = Gathered(sources)
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file() and "build" not in path.relative_to(ROOT).parts:
            gathered.place(path)
    for name in sorted(PROJECT):
        gathered.place(ROOT / name)
    gathered.write_all()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ROOT / ".ci" / "mkdocs.yml", "-d", site]
    environment = {**os.environ, "ECHOTRAIN_SITE_SOURCES": str(sources), "NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: warnings that are not logged are not counted, and --strict would let them pass.
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(*(line for line in done.stdout.splitlines() if not line.startswith("INFO")), sep="\n", file=sys.stderr)
        sys.exit("error: the site was not built; what is wrong with its pages is said above")
    keep_local(site)
    pages = len(list(site.rglob("*.html")))
    print(f"== site: {pages} pages in {site}; to read it: python3 -m http.server -b 127.0.0.1 -d {site}")


if __name__ == "__main__":
    main()
