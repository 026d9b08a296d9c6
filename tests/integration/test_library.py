"""Echotrain as a library, from an install tree: a gadget and a client compiled elsewhere (docs/plugin, docs/client)."""

import importlib.util
import os
import re
import shutil
import stat
import subprocess

import numpy as np
import pytest

import scans
from programs import BIN, SOURCE, Server, simulated_scan, variant

BUILD = BIN.parent
CMAKE = shutil.which("cmake")
COMPILER = shutil.which("c++")


def run(*command, timeout=240):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """What `cmake --install` leaves."""
    if CMAKE is None or COMPILER is None:
        pytest.skip("CMake and a C++ compiler are needed")
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"{BUILD} is no build folder")
    flags = (BUILD / "CMakeCache.txt").read_text()
    if "ECHOTRAIN_SANITIZE:STRING=\n" not in flags:
        pytest.skip("a sanitized build is not installed")
    prefix = tmp_path_factory.mktemp("prefix")
    run(CMAKE, "--install", BUILD, "--prefix", prefix)
    return prefix


def compile_example(name, prefix, folder):
    """Builds docs/NAME by its own instructions."""
    shutil.copytree(SOURCE / "docs" / name, folder / name)
    build = folder / name / "build"
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"]
    if (BUILD / "CMakeCache.txt").exists():  # the CUDA compiler of this build, where it has one that is not on the PATH
        found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(/.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        options += [f"-DCMAKE_CUDA_COMPILER={found[1]}"] if found else []
    run(CMAKE, "-S", folder / name, "-B", build, *options)
    run(CMAKE, "--build", build)
    return build


@pytest.fixture(scope="module")
def plugin(prefix, tmp_path_factory):
    """A folder with the example's plugin and nothing else."""
    build = compile_example("plugin", prefix, tmp_path_factory.mktemp("plugin"))
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copy(build / "gain.so", folder)
    return folder


@pytest.fixture
def kernel(plugin):
    """Skips where no CUDA compiler was found for the example's kernel."""
    if b".nv_fatbin" not in (plugin / "gain.so").read_bytes():
        assert shutil.which("nvcc") is None, "nvcc is on the PATH, and gain.so has no kernel"
        pytest.skip("no CUDA compiler: the example's kernel was left out")


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    return simulated_scan(tmp_path_factory.mktemp("scan") / "scan.h5", "--trajectory", "cartesian", "--matrix", 32,
                          "--coils", 2, "--frames", 3)  # fmt: skip


def ask(prefix, *arguments):
    command = [str(prefix / "bin" / "echotrain-server"), *(str(a) for a in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def twice(prefix, plugin, scan, folder, backend):
    """Sends the scan through cartesian_plain, and through cartesian_gain, which makes images twice as bright."""
    gain = (SOURCE / "docs" / "plugin" / "pipelines" / "cartesian_gain.yaml").read_text()
    texts = {"plain": variant("cartesian_plain", ("name: cartesian_plain", "name: plain")),
             "gained": gain.replace("name: cartesian_gain", "name: gained")}  # fmt: skip
    (folder / "pipelines").mkdir()
    for name, text in texts.items():
        assert "backend: auto" in text
        (folder / "pipelines" / f"{name}.yaml").write_text(text.replace("backend: auto", f"backend: {backend}"))
    server = Server(folder, "--plugins", plugin, "--pipelines", folder / "pipelines",
                    program=prefix / "bin" / "echotrain-server")  # fmt: skip
    try:
        for name in texts:
            sent = server.send(scan, name, folder / f"{name}.h5")
            assert sent.returncode == 0, sent.stderr
    finally:
        assert server.stop() == 0
    assert "gain.so: gain" in server.text()
    _, plain = scans.read_images(folder / "plain.h5")
    _, gained = scans.read_images(folder / "gained.h5")
    assert len(plain) == 3 and np.array_equal(gained, 2 * plain) and plain.max() > 0


def test_a_gadget_compiled_elsewhere_runs_in_the_server(prefix, plugin, scan, tmp_path):
    twice(prefix, plugin, scan, tmp_path, "cpu")


def test_its_kernel_is_compiled(kernel):
    pass


def test_its_kernel_runs_on_the_gpu(prefix, plugin, scan, tmp_path, kernel, cuda):
    twice(prefix, plugin, scan, tmp_path, "cuda")


def test_its_parameters_are_checked_and_explained_as_others(prefix, plugin, tmp_path):
    explained = ask(prefix, "--plugins", plugin, "--explain", "gain")
    assert explained.returncode == 0 and "factor: number -1000000 .. 1000000" in explained.stdout, explained.stdout
    assert "gain" in ask(prefix, "--plugins", plugin, "--list-gadgets").stdout
    text = (SOURCE / "docs" / "plugin" / "pipelines" / "cartesian_gain.yaml").read_text()
    bad = tmp_path / "bad.yaml"
    bad.write_text(text.replace("factor: 2", "facto: 2"))
    refused = ask(prefix, "--plugins", plugin, "--check", bad)
    assert refused.returncode == 1 and "factor" in refused.stderr
    # Without the plugin there is no such gadget, and no client can bring one.
    unknown = ask(prefix, "--check", SOURCE / "docs" / "plugin" / "pipelines" / "cartesian_gain.yaml")
    assert unknown.returncode == 1 and "gain" in unknown.stderr


def test_what_is_no_plugin_of_this_server_is_refused(prefix, plugin, tmp_path):
    def refusal(folder):
        result = ask(prefix, "--plugins", folder, "--list-gadgets")
        assert result.returncode == 1, result.stdout
        return result.stderr

    def shared_object(name, source):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "x.c").write_text(source)
        run("cc", "-shared", "-fPIC", "-o", folder / "x.so", folder / "x.c")
        return folder

    # Code that runs when it is loaded must not run.
    crash = "__attribute__((constructor)) static void begin(void) { *(volatile char *)0 = 0; } "
    other = shared_object("other", crash + 'const char echotrain_plugin_abi[] = "gadget API 0.0.1-beef"; '
                                   "void echotrain_plugin_register(void *r) { *(char *)0 = 0; }")  # fmt: skip
    assert "was compiled for gadget API 0.0.1-beef, and this server has gadget API 0." in refusal(other)
    assert "it is no plugin" in refusal(shared_object("none", crash + "int x;"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "x.so").write_text("no shared object")
    assert "x.so: it cannot be loaded" in refusal(tmp_path / "text")
    assert "cannot read the folder" in refusal(tmp_path / "nowhere")
    twice = tmp_path / "twice"
    twice.mkdir()
    for name in ("a.so", "b.so"):
        shutil.copy(plugin / "gain.so", twice / name)
    assert "there is a gadget called 'gain' already" in refusal(twice)
    open_to_all = tmp_path / "open"
    shutil.copytree(plugin, open_to_all)
    os.chmod(open_to_all / "gain.so", stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    assert "everybody may change" in refusal(open_to_all)
    others = next((group for group in (os.getgroups() if os.getuid() else [1]) if group != os.getgid()), None)
    if others is None:
        return  # this user has no other group
    for name in ("gain.so", "."):  # the file, and its folder
        open_to_group = tmp_path / f"group{len(name)}"
        shutil.copytree(plugin, open_to_group)
        os.chown(open_to_group / name, -1, others)
        os.chmod(open_to_group / name, stat.S_IRWXU | stat.S_IRWXG)
        assert "a whole group may change" in refusal(open_to_group)


HEADERS = {
    "a.h": '#pragma once\n#define N 3\nint f(int a, int b);  // "adds"\n',
    "b.h": "/* text */ const char* s = \"a // b\";\nlong n = 1'000;\nchar c = '\"';\n",
}


def digest(**changed):
    """The digest of HEADERS with some texts in their place: a_h for a.h."""
    spec = importlib.util.spec_from_file_location("sdk_digest", SOURCE / ".ci" / "sdk_digest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.digest_of({**HEADERS, **{name.replace("_", "."): text for name, text in changed.items()}})


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('// "adds"', "// it's a sum", True),
        ("int b)", "int\n      b /* the\n second */ )", True),
        ("int a", "int  other", False),
        ("#define N 3\n", "#define N 3 ", False),  # the next line becomes part of the macro
        ("#define N 3\n", "#define N \\\n  3\n", True),
        ("/* text */", "/** \"text */", True),
        ("a // b", "a // c", False),
        ("a // b", "a  // b", False),
        ("1'000", "1'001", False),
        ("'\"'", "' '", False),
    ],
)
def test_the_digest_of_the_api_ignores_comments_and_nothing_else(old, new, same):
    name = next(name for name, text in HEADERS.items() if old in text)
    changed = digest(**{name.replace(".", "_"): HEADERS[name].replace(old, new)})
    assert (changed == digest()) == same
    assert re.fullmatch("[0-9a-f]{16}", changed)


def test_a_header_is_written_again_only_for_another_digest(tmp_path):
    def write():
        run(SOURCE / ".ci" / "sdk_digest.py", tmp_path / "out.h", "1.2.3", tmp_path / "a.h")
        return (tmp_path / "out.h").read_text()

    (tmp_path / "a.h").write_text("int a;  // one\n")
    first = write()
    assert '#define ECHOTRAIN_SDK_DIGEST "1.2.3-' in first
    os.utime(tmp_path / "out.h", (1, 1))
    (tmp_path / "a.h").write_text("// none\nint a;\n")
    assert write() == first and (tmp_path / "out.h").stat().st_mtime == 1
    (tmp_path / "a.h").write_text("int b;\n")
    assert write() != first and (tmp_path / "out.h").stat().st_mtime > 1


def test_the_client_is_a_library(prefix, scan, tmp_path, server):
    build = compile_example("client", prefix, tmp_path)
    out = run(build / "stream", scan, "cartesian_plain", server.host, server.port)
    assert out.splitlines() == [f"image {i}: 32 x 32" for i in range(3)]
    failed = subprocess.run([build / "stream", scan, "unheard_of", server.host, str(server.port)], capture_output=True,
                            text=True, timeout=60)  # fmt: skip
    assert failed.returncode == 1 and "unknown-config" in failed.stdout
