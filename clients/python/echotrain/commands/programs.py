"""The commands `echotrain` and `echotrain-server` of the binary wheel, which become its programs (.ci/wheel.sh)."""

from __future__ import annotations

import os
import pathlib
import sys

BIN = pathlib.Path(__file__).resolve().parents[1] / "bin"


def _become(name: str) -> None:
    os.execv(BIN / name, [name, *sys.argv[1:]])


def client() -> None:
    _become("echotrain")


def server() -> None:
    _become("echotrain-server")
