"""The version is that of project(VERSION) in CMakeLists.txt, wherever else it has to be written."""

import pathlib
import sys

import pytest

import echotrain

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(TREE / ".ci"))
from release import PLACES, versions  # noqa: E402


@pytest.fixture
def version():
    (version,) = versions(TREE, "CMakeLists.txt", *PLACES["CMakeLists.txt"])
    return version


@pytest.mark.parametrize(("place", "pattern"), [(place, one) for place, all_of in PLACES.items() for one in all_of])
def test_the_version_is_the_same_everywhere(version, place, pattern):
    assert versions(TREE, place, pattern) == {version}


def test_the_package_has_it(version):
    assert echotrain.__version__ == version
    text = (TREE / "clients" / "python" / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in text and version not in text
