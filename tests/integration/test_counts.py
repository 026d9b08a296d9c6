"""What `./run test` tells of a run: all tests that its programs have, those that failed, and those that were skipped, with their reasons."""

import os
import subprocess
import sys

import pytest

from programs import SOURCE

PARTS = """
import pytest
def test_passes(): pass
@pytest.mark.parametrize("case", range(4))
def test_needs_more(case): pytest.skip("no data")
@pytest.mark.skipif(True, reason="no nc")
def test_needs_a_program(): pass
def test_on_a_device(): pytest.skip("no GPU: no driver")
"""
WHOLE = "import pytest\npytest.importorskip('nonesuch', reason=\"needs 'nonesuch'\")\ndef test_never(): pass\n"

# It does as GoogleTest does with what tests/CMakeLists.txt gives it. RESULTS: what each test says, as XML.
PROGRAM = """#!/usr/bin/env python3
import os, sys
RESULTS = {results!r}
if "--gtest_list_tests" in sys.argv:
    suites = dict.fromkeys(name.rpartition(".")[0] for name in RESULTS)
    for suite in suites:
        print(f"{{suite}}.  # TypeParam = int")
        for name in RESULTS:
            if name.startswith(suite + "."):
                print(f"  {{name.rpartition('.')[2]}}  # GetParam() = 1")
    sys.exit()
shard = int(os.environ["GTEST_SHARD_INDEX"])
ran = list(RESULTS)[shard::2]
if "the program ends" in [RESULTS[name] for name in ran]:
    sys.exit(3)
with open(os.environ["GTEST_OUTPUT"].removeprefix("xml:"), "w") as out:
    out.write("<testsuites>")
    for name in ran:
        if RESULTS[name] != "lost":
            out.write('<testcase classname="%s" name="%s">%s</testcase>' % (*name.rsplit(".", 1), RESULTS[name]))
    out.write("</testsuites>")
sys.exit(any("<failure" in RESULTS[name] for name in ran))
"""
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(few NONE)
enable_testing()
foreach(part 1 2)
  math(EXPR index "${part} - 1")
  add_test(NAME test_few.part_${part} COMMAND ${CMAKE_SOURCE_DIR}/test_few --gtest_filter=- CONFIGURATIONS whole)
  set_tests_properties(test_few.part_${part} PROPERTIES
    ENVIRONMENT "GTEST_SHARD_INDEX=${index};GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/tests/results/test_few.part_${part}.xml")
endforeach()
add_test(NAME test_few.A.first COMMAND false)
set_tests_properties(test_few.A.first PROPERTIES LABELS single)
"""
NO_GPU = '<skipped message="a.h:7&#x0A;no usable CUDA device: none&#x0A;"/>'
ALL = {"A.first": "", "A.second": "", "B/Cuda.third": NO_GPU, "Backends/C.fourth/cuda": NO_GPU}


def run(folder, results):
    """run_tests_in of .ci/common.sh over the parts of a program with these results: its status and its lines."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "test_few").write_text(PROGRAM.format(results=results))
    (folder / "test_few").chmod(0o755)
    script = f"set -euo pipefail; . {SOURCE}/.ci/common.sh; cmake -S . -B few >few.log; mkdir -p few/tests/results; " \
             'run_tests_in few "${whole[@]}"'  # fmt: skip
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    return done.returncode, [line for line in lines[lines.index(next(x for x in lines if "tests passed" in x)) :] if line]


def counted(total, passed, skipped, gpu, failed):
    return f"== of {total} tests {passed} passed, {skipped} were skipped ({gpu} of these need a GPU), " \
           f"{failed} failed at first, 0 of these passed when tried again"  # fmt: skip


def test_each_test_in_the_parts_of_a_program_counts(tmp_path):
    status, lines = run(tmp_path, ALL)
    assert status == 0, lines
    assert lines[-2:] == ["not run, no GPU: 2", counted(4, 2, 2, 2, 0)]


def test_other_reasons_are_told(tmp_path):
    status, lines = run(tmp_path, ALL | {"A.second": '<skipped message="a.cc:1&#x0A;no disk&#x0A;"/>'})
    assert status == 0, lines
    assert lines[-4:] == ["not run, no GPU: 2", "skipped: no disk", "    1 of 4 in test_few: A.second", counted(4, 1, 3, 2, 0)]


def test_what_failed_is_named(tmp_path):
    status, lines = run(tmp_path, ALL | {"A.second": '<failure message="1 and 2"/>'})
    assert status == 1
    assert "failed: test_few A.second" in lines and lines[-1] == counted(4, 1, 2, 2, 1)


@pytest.mark.parametrize(("results", "error"), [
    (ALL | {"A.second": "lost"}, "1 of 4 tests of test_few have no result: A.second"),
    # A test on CUDA that is skipped for another reason is not among those that no GPU keeps from running; nor is one that passes.
    (ALL | {"B/Cuda.third": '<skipped message="a.cc:1&#x0A;no file&#x0A;"/>'},
     "no GPU: of test_few 1 tests were not run, and 2 are on CUDA: B/Cuda.third"),
    (ALL | {"B/Cuda.third": ""}, "no GPU: of test_few 1 tests were not run, and 2 are on CUDA: B/Cuda.third"),
    (ALL | {"A.second": NO_GPU}, "no GPU: of test_few 3 tests were not run, and 2 are on CUDA: A.second"),
])  # fmt: skip
def test_a_run_is_held_against_the_list(tmp_path, results, error):
    status, lines = run(tmp_path, results)
    assert status == 1
    assert f"error: {error}" in lines


def test_a_program_that_ends_has_failed(tmp_path):
    run(tmp_path, ALL)
    status, lines = run(tmp_path, ALL | {"A.second": "the program ends"})  # the results of the run before do not count
    assert status == 1
    assert "failed: test_few.part_2" in lines
    assert "error: 2 of 4 tests of test_few have no result: A.second, Backends/C.fourth/cuda" in lines


def pytest_results(folder, entry, *arguments, **files):
    """What pytest writes of files with these texts, in one session."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *arguments]
    subprocess.run([*command, f"--junit-xml={folder}/tests/results/{entry}.xml", *(folder / f"test_{name}.py" for name in files)],
                   capture_output=True, timeout=60, env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")})  # fmt: skip


def count(folder):
    return subprocess.run([sys.executable, SOURCE / ".ci/count_tests.py", folder, "0"], capture_output=True, text=True, timeout=60)


@pytest.fixture
def entries(tmp_path):
    """A folder of a build in which ctest has run these entries."""

    def make(*names):
        (tmp_path / "Testing").mkdir()
        (tmp_path / "CTestTestfile.cmake").touch()
        log = [f"{n}/{len(names)} Test #{n}: {name} ....   Passed    0.10 sec\n" for n, name in enumerate(names, 1)]
        (tmp_path / "Testing/first.log").write_text("".join(log))
        return tmp_path

    return make


FILES = {"parts": PARTS, "whole": WHOLE, "all": "def test_passes(): pass\n"}


def is_told(folder):
    """What became of the tests of FILES."""
    done = count(folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    whole = next(line for line in lines if " in test_whole: " in line)
    assert lines == [
        "not run, no GPU: 1",
        "skipped: needs 'nonesuch'", whole,
        "skipped: no data", "    4 of 7 in test_parts: test_needs_more[0], test_needs_more[1], test_needs_more[2], ...",
        "skipped: no nc", "    1 of 7 in test_parts: test_needs_a_program",
        counted(9, 2, 7, 1, 0),
    ]  # fmt: skip
    assert whole.startswith("    1 of 1 ")


def test_parts_and_whole_files_of_python(entries):
    folder = entries(*(f"python.{name}" for name in FILES))
    for name, text in FILES.items():
        pytest_results(folder, f"python.{name}", **{name: text})
    is_told(folder)
    (folder / "tests/results/python.all.xml").write_text("<testsuites><testsuite>")
    assert "failed: python.all" in count(folder).stdout.splitlines()


def test_a_session_of_many_files_of_python(entries):
    pytest.importorskip("xdist", reason="no pytest-xdist")
    folder = entries("python")
    session = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0")  # tests/CMakeLists.txt
    pytest_results(folder, "python", *session, **FILES)
    is_told(folder)
    pytest_results(folder, "python", *session, f"--rootdir={folder / 'tests'}", **FILES)
    done = count(folder)
    assert done.returncode == 1
    assert "error: 8 tests of Python have no file, so that one process has them all: " in done.stdout
    for name, text in {"fails": "def test_it(): assert False\n", "ends": "import os\ndef test_it(): os._exit(3)\n"}.items():
        pytest_results(folder, "python", *session, **FILES, **{name: text})
        assert f"failed: test_{name} test_it" in count(folder).stdout.splitlines()
