"""What .ci/common.sh does where tests fail: bounds in seconds get another chance, wrong results do not."""

import subprocess

import pytest

from programs import SOURCE

FAILS_ONCE = 'sh -c "test -f {0}.was_here || {{ touch {0}.was_here; echo {1}; exit 1; }}"'
PROJECT = f"""
cmake_minimum_required(VERSION 3.22)
project(few NONE)
enable_testing()
add_test(NAME right COMMAND true)
add_test(NAME one.Cuda COMMAND echo "SKIPPED: no GPU")
add_test(NAME other COMMAND echo "SKIPPED: no data")
set_tests_properties(one.Cuda other PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
add_test(NAME late COMMAND {FAILS_ONCE.format("late", "0.6 s")})
add_test(NAME bits COMMAND {FAILS_ONCE.format("bits", "no matter of time: bits")})
set_tests_properties(late bits PROPERTIES LABELS timing)
add_test(NAME wrong COMMAND {FAILS_ONCE.format("wrong", "wrong")})
"""
COUNTS = "== of {} tests 1 passed, 2 were skipped (1 of these need a GPU), {} failed at first, {} of these passed when tried again"


@pytest.mark.parametrize(("left_out", "status", "counts"), [
    ("wrong|bits", 0, (4, 1, 1)),
    ("wrong", 1, (5, 2, 0)),  # the label is there, and the output says that it was no bound that failed
    ("bits", 1, (5, 2, 0)),  # a failure without the label stands, and so does what failed beside it
])  # fmt: skip
def test_only_bounds_in_seconds_are_tried_again(tmp_path, left_out, status, counts):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    script = f'set -euo pipefail; . {SOURCE}/.ci/common.sh; cmake -S . -B few >few.log; run_tests_in few -E "{left_out}"'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == COUNTS.format(*counts)
    assert ("passed alone, after a failure beside other tests: late" in done.stdout) == (status == 0)
