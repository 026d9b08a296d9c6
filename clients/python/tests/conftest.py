"""Tests that need no server; those against one are tests/integration/test_python_*.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
