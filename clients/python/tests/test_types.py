"""The package's type hints hold, as mypy sees it, where mypy is installed."""

import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def test_mypy_is_content(tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
