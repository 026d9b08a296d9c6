"""The version is that of project(VERSION) in CMakeLists.txt, wherever else it has to be written."""

import pathlib
import re

import pytest

import echotrain

TREE = pathlib.Path(__file__).resolve().parents[3]

PLACES = {
    "clients/python/echotrain/__init__.py": [r'^__version__ = "(.*?)"'],
    "docker/helm/echotrain/Chart.yaml": [r"^version: (.*)$", r'^appVersion: "(.*)"$'],
    "docker/Dockerfile": [r"^ARG VERSION=(.*)$"],
    "docs/deploy.md": [r"echotrain(?:-dev)?_(\d[\w.]*)_amd64\.deb", r"echotrain-(\d[\w.]*)-Linux", r"_V(\d[\w.]*)\.zip"],
}


def versions(place, pattern):
    return set(re.findall(pattern, (TREE / place).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture
def version():
    (version,) = versions("CMakeLists.txt", r"^project\(echotrain VERSION (\S+) ")
    return version


@pytest.mark.parametrize(("place", "pattern"), [(place, one) for place, all_of in PLACES.items() for one in all_of])
def test_the_version_is_the_same_everywhere(version, place, pattern):
    assert versions(place, pattern) == {version}


def test_the_package_has_it(version):
    assert echotrain.__version__ == version
    text = (TREE / "clients" / "python" / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in text and version not in text
