"""What .ci/common.sh does where tests fail: bounds in seconds get another chance, wrong results do not."""

import subprocess

import pytest

from programs import SOURCE

FAILS_ONCE = 'sh -c "test -f {0}.was_here || {{ touch {0}.was_here; printf \'%s\\\\n\' {1}; exit 1; }}"'
SUMS, BOUND = "'a.cc:7: Failure' '  1 and 2'", "'b.cc:8: Failure' '  5 and 3' 'a matter of time: 5 s'"
PROJECT = f"""
cmake_minimum_required(VERSION 3.22)
project(few NONE)
enable_testing()
add_test(NAME right COMMAND true)
add_test(NAME one/Cuda.runs COMMAND echo "SKIPPED: no GPU")
add_test(NAME other COMMAND echo "SKIPPED: no data")
set_tests_properties(one/Cuda.runs other PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
add_test(NAME late COMMAND {FAILS_ONCE.format("late", "'0.6 s'")})
add_test(NAME bits COMMAND {FAILS_ONCE.format("bits", "'no matter of time: bits'")})
add_test(NAME bound COMMAND {FAILS_ONCE.format("bound", BOUND)})
add_test(NAME sums COMMAND {FAILS_ONCE.format("sums", SUMS)})
add_test(NAME sums_and_bound COMMAND {FAILS_ONCE.format("both", SUMS + " " + BOUND)})
set_tests_properties(late bits bound sums sums_and_bound PROPERTIES LABELS timing)
add_test(NAME wrong COMMAND {FAILS_ONCE.format("wrong", "wrong")})
"""
COUNTS = "== of {} tests 1 passed, 2 were skipped (1 of these need a GPU), {} failed at first, {} of these passed when tried again"


@pytest.mark.parametrize(("chosen", "status", "counts"), [
    ("late|bound", 0, (5, 2, 2)),
    ("late|bits", 1, (5, 2, 0)),  # the label is there, and the output says that it was no bound that failed
    ("bound|sums", 1, (5, 2, 0)),  # likewise in GoogleTest's output
    ("sums_and_bound", 1, (4, 1, 0)),  # and where a bound has failed in the same test
    ("late|wrong", 1, (5, 2, 0)),  # a failure without the label stands, and so does what failed beside it
])  # fmt: skip
def test_only_bounds_in_seconds_are_tried_again(tmp_path, chosen, status, counts):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run = f'run_tests_in few -R "^({chosen}|right|one/Cuda.runs|other)$"'
    script = f"set -euo pipefail; . {SOURCE}/.ci/common.sh; cmake -S . -B few >few.log; {run}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == COUNTS.format(*counts)
    assert ("passed alone, after a failure beside other tests: late, bound" in done.stdout) == (status == 0)
