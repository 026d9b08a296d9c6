"""The package's type hints hold, as mypy sees it, where mypy is installed."""

import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def mypy(cache, *what):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *what]
    return subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=250)


def test_mypy_is_content(cache):
    done = mypy(cache)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_knows_the_keywords(cache, tmp_path):
    calls = ["make_scan('s', {})", "Client().reconstruct('s', {})", "AsyncClient().reconstruct('s', {})"]
    calls += ["reconstruct('s', host='h', rate=None, {})"]
    right = [*(call.format("matrix=3, noise=None") for call in calls), "Client(tls=True)", "AsyncClient(timeout=3)"]
    wrong = [*(call.format(bad) for call in calls for bad in ("matricks=3", "group=3")), "Client(tsl=True)", "Client(port='1')"]
    text = "import echotrain\n" + "".join(f"echotrain.{call}\n" for call in right + wrong)
    (tmp_path / "calls.py").write_text(text)
    told = mypy(cache, str(tmp_path / "calls.py")).stdout
    lines = [int(line) for line in re.findall(r"calls.py:(\d+): error:", told)]
    assert lines == [2 + len(right) + i for i in range(len(wrong))], told
