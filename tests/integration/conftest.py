"""Fixtures of the integration tests."""

import os
import pathlib
import re
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))

# numpy reads this when it is loaded: its matrix products must not take the cores of the programs under test.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What programs under test keep for later scans must neither come from other runs nor stay in the user's cache folder.
# Each file of tests has a folder of its own.
CACHE = tempfile.TemporaryDirectory(prefix="echotrain_cache_")
os.environ["ECHOTRAIN_CACHE_DIR"] = CACHE.name
# test_warm_up.py is about it; beside others it would take their cores.
os.environ.setdefault("ECHOTRAIN_WARM_UP", "false")

pytest.importorskip("numpy", reason="the integration tests need numpy")
pytest.importorskip("h5py", reason="the integration tests need h5py")

from programs import BIN, Left, Server, ends_well, raw_coils, run_client, simulated_scan, variant  # noqa: E402
from vitals import Late  # noqa: E402

SECONDS = 300  # for a test, and for the fixtures that it is the first to use


# What a test itself has started ends with it, where it fails. Fixtures' processes live as long as their fixtures.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    item.left = Left()
    yield from bounded(item)
    item.left.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    yield
    if getattr(item, "failed", False) and hasattr(item, "left"):
        item.left.kill()


class Stuck(Exception):
    """A test that waits for what never comes fails by its name, before the run of all tests ends without one."""


def bounded(item):
    """Around each phase of a test, in which pytest takes whatever is raised for the test's."""

    def end(signal_number, frame):
        raise Stuck(f"it took more than {SECONDS} s")

    if item.path.name.startswith("test_"):
        signal.signal(signal.SIGALRM, end)
        signal.alarm(SECONDS)
    yield
    signal.alarm(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from bounded(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from bounded(item)


def pytest_exception_interact(node, call):
    node.failed = True
    if not call.excinfo.errisinstance(Late):
        print(f"\nno matter of time: {node.nodeid}")  # .ci/common.sh looks for this


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """What a file's programs keep is not found by other files' programs."""
    os.environ["ECHOTRAIN_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ["ECHOTRAIN_CACHE_DIR"] = CACHE.name


@pytest.fixture(scope="session", autouse=True)
def programs():
    for name in ("echotrain-server", "echotrain"):
        if not (BIN / name).exists():
            pytest.fail(f"{BIN / name} is not built (set ECHOTRAIN_BIN_DIR to where it is)", pytrace=False)


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory):
    """A folder of pipelines for the tests, beside the shipped ones."""
    folder = tmp_path_factory.mktemp("pipelines")
    text = raw_coils("cartesian_plain").replace("name: cartesian_plain", "name: coils_2d")
    (folder / "coils_2d.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, pipelines):
    server = Server(tmp_path_factory.mktemp("server"), "--pipelines", pipelines)
    yield from ends_well(server)


@pytest.fixture(scope="session")
def cuda(tmp_path_factory):
    """Skips where no GPU works. Fails where CUDA is expected: as ECHOTRAIN_EXPECT_CUDA says (1 or 0), else where
    NVIDIA's driver shows a GPU that CUDA_VISIBLE_DEVICES does not hide, unless the programs do not have CUDA, the GPU
    is too old or the driver does not work (as tests/support/expected_cuda.h)."""
    folder = tmp_path_factory.mktemp("cuda")
    scan, config = folder / "scan.h5", folder / "cuda.yaml"
    config.write_text(variant("cartesian_plain", ("backend: auto", "backend: cuda")))
    simulated_scan(scan, "--trajectory", "cartesian", "--matrix", 16, "--coils", 1)
    tried = run_client("recon", scan, "-c", config, "-o", folder / "out.h5")
    if tried.returncode == 0:
        return
    reason = f"no GPU: {tried.stderr.strip()}"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0")[:1] in ("", "-")
    seen = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev")) and not hidden
    cannot = re.search("built without CUDA|too old|CUDA driver", reason)
    if {"1": True, "0": False}.get(os.environ.get("ECHOTRAIN_EXPECT_CUDA"), seen and not cannot):
        pytest.fail(f"CUDA is expected here (ECHOTRAIN_EXPECT_CUDA=0 takes that back): {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def backend(request):
    if request.param == "cuda":
        request.getfixturevalue("cuda")
    return request.param


@pytest.fixture(scope="module")
def served(backend, tmp_path_factory):
    """A server of one backend."""
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--backend", backend))
