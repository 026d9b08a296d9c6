"""What ctest and `./run test` tell of tests in Python that were skipped."""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parent / "support" / "skipped.py"
PARTS = """
import pytest
def test_passes(): pass
@pytest.mark.parametrize("case", range(4))
def test_needs_more(case): pytest.skip("no GPU")
@pytest.mark.skipif(True, reason="no nc")
def test_needs_a_program(): pass
"""
WHOLE = "import pytest\npytest.importorskip('nonesuch', reason=\"needs 'nonesuch'\")\ndef test_never(): pass\n"


def results(folder, name, text):
    """What pytest writes of a file with this text."""
    (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    subprocess.run([*command, f"--junit-xml={folder}/{name}.xml", f"{folder}/test_{name}.py"], capture_output=True,
                   timeout=60, env={k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"})  # fmt: skip
    return folder / f"{name}.xml"


def told(*paths):
    done = subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_parts_and_whole_files_that_were_skipped_are_told(tmp_path):
    parts, whole = results(tmp_path, "parts", PARTS), results(tmp_path, "whole", WHOLE)
    lines = told(parts, whole).splitlines()
    assert lines[0] == "SKIPPED: 6 tests in Python"  # ctest looks for the beginning
    assert lines[1:5] == [
        "  needs 'nonesuch'", lines[2], "  no GPU",
        "    4 of 6 in parts: test_needs_more[0], test_needs_more[1], test_needs_more[2], ...",
    ]  # fmt: skip
    assert lines[2].startswith("    1 of 1 in whole: ")
    assert lines[5:] == ["  no nc", "    1 of 6 in parts: test_needs_a_program"]


def test_nothing_is_told_where_every_test_ran(tmp_path):
    assert told(results(tmp_path, "all", "def test_passes(): pass\n")) == ""


def test_results_that_are_missing_are_an_error(tmp_path):
    (tmp_path / "cut.xml").write_text("<testsuites><testsuite>")
    for name in ("none", "cut"):
        path = tmp_path / f"{name}.xml"
        done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.splitlines() == [f"{name} did not run to its end: {path} is not there, or not whole"]
