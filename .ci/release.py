#!/usr/bin/env python3
"""Prepares a release: writes its version wherever one stands, and closes the section Unreleased of CHANGELOG.md.

    ./run release VERSION [--root ROOT]

A version is MAJOR.MINOR.PATCH. Nothing is committed or tagged: what comes next is printed (CONTRIBUTING.md, Releases).
"""

import argparse
import datetime
import pathlib
import re
import subprocess
import sys

# The places that have the version as the first group of a pattern; clients/python/tests/test_version.py holds them together.
PLACES = {
    "CMakeLists.txt": [r"^project\(echotrain VERSION (\S+) "],
    "clients/python/echotrain/__init__.py": [r'^__version__ = "(.*?)"'],
    "docker/helm/echotrain/Chart.yaml": [r"^version: (.*)$", r'^appVersion: "(.*)"$'],
    "docker/Dockerfile": [r"^ARG VERSION=(.*)$"],
    "docs/deploy.md": [r"echotrain(?:-dev)?_(\d[\w.]*)_amd64\.deb", r"echotrain-(\d[\w.]*)-(?:Linux|py3)", r"_V(\d[\w.]*)\.zip"],
    "docs/openrecon.md": [r"_V(\d[\w.]*)\.zip"],
}
OPEN = "## Unreleased\n"

NEXT = """== {version} stands in {places} files and CHANGELOG.md's section is closed; nothing is committed. Next:
     git diff && git commit -am "Release {version}"
     bash .ci/run && ./run test --long                     # on that commit
     git tag -a {version} -m "Echotrain {version}" && git push origin HEAD {version}"""


def versions(root, place, pattern):
    return set(re.findall(pattern, (root / place).read_text(encoding="utf-8"), re.MULTILINE))


def with_version(text, pattern, version):
    """The text with the version in place of the pattern's group."""
    return re.sub(pattern, lambda it: text[it.start() : it.start(1)] + version + text[it.end(1) : it.end()], text, flags=re.M)


def closed(changelog, version, day):
    """CHANGELOG.md with the entries of Unreleased as a section of their own; None where there are none."""
    before, heading, behind = changelog.partition(OPEN)
    if not re.search(r"^- ", behind.partition("\n## ")[0], re.MULTILINE):
        return None
    return f"{before}{heading}\n## {version} ({day})\n{behind}"


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout


def numbers(version):
    return [int(part) for part in version.split(".")]


def main():
    parser = argparse.ArgumentParser(prog="./run release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    root, version = options.root, options.version
    (present,) = versions(root, "CMakeLists.txt", *PLACES["CMakeLists.txt"])
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version) or numbers(version) <= numbers(present):
        sys.exit(f"error: '{version}' is no version above {present}; write one as in ./run release 1.2.3")
    if git(root, "status", "--porcelain"):
        sys.exit("error: there are changes that are not committed; a release is made of what is")
    if git(root, "tag", "--list", version):
        sys.exit(f"error: there is a tag {version}")
    day = datetime.datetime.now(datetime.timezone.utc).date()
    changelog = closed((root / "CHANGELOG.md").read_text(encoding="utf-8"), version, day)
    if changelog is None:
        sys.exit("error: the section Unreleased of CHANGELOG.md has no entries")
    for place, patterns in PLACES.items():
        text = (root / place).read_text(encoding="utf-8")
        for pattern in patterns:
            text = with_version(text, pattern, version)
        (root / place).write_text(text, encoding="utf-8")
    (root / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    print(NEXT.format(version=version, places=len(PLACES)))


if __name__ == "__main__":
    main()
