"""The programs are built so that a fault in memory is hard to use. Read from the files, and from a run in a folder full
of planted libraries."""

import json
import re
import shutil
import subprocess

import pytest

from programs import BIN

PROGRAMS = [name for name in ("echotrain-server", "echotrain", "echotrain-ranks") if (BIN / name).exists()]
CACHE = BIN.parent / "CMakeCache.txt"
FLAGS = ("-fstack-protector-strong", "-fcf-protection", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3")


def read(tool, *arguments):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (package binutils)")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture(autouse=True, scope="module")
def optimised():
    cache = CACHE.read_text() if CACHE.exists() else ""
    if "ECHOTRAIN_SANITIZE:STRING=\n" not in cache or "CMAKE_BUILD_TYPE:STRING=Debug" in cache:
        pytest.skip("the programs are hardened in optimised builds without sanitizers")


@pytest.mark.parametrize("program", PROGRAMS)
def test_headers(program):
    file = BIN / program
    assert re.search(r"Type:\s+DYN", read("readelf", "-hW", file)), "not position-independent"
    segments = read("readelf", "-lW", file)
    assert "GNU_RELRO" in segments
    (stack,) = re.findall(r"GNU_STACK.* (R\S*) +0x", segments)
    assert "E" not in stack, "the stack is executable"
    dynamic = read("readelf", "-dW", file)
    assert re.search(r"\(FLAGS_1\).*\bNOW\b", dynamic), "symbols are bound late, so RELRO is partial"


@pytest.mark.parametrize("program", PROGRAMS)
def test_code(program):
    file = BIN / program
    imported = read("readelf", "--dyn-syms", "-W", file)
    assert "__stack_chk_fail" in imported
    # Calls with a bound that the compiler knows: glibc's functions of _FORTIFY_SOURCE.
    assert re.search(r"\b__(memcpy|memmove|memset|read|snprintf|vsnprintf|strncpy)_chk\b", imported)
    # Indirect branches land on endbr64 only (CET). The file carries no note of it where the system's crt1.o has none.
    main = read("objdump", "-d", "--no-show-raw-insn", "--disassemble=main", file)
    assert re.search(r"<main>:\n\s+\w+:\s+endbr64", main), main[:400]


def test_every_object_has_the_flags():
    commands = json.loads((BIN.parent / "compile_commands.json").read_text())
    hosts = [c["command"] for c in commands if not c["file"].endswith(".cu")]
    assert len(hosts) > 20
    for command in hosts:
        missing = [flag for flag in FLAGS if flag not in command.split()]
        assert not missing, f"{missing} not in: {command}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_run_paths_name_no_current_folder(program):
    paths = re.findall(r"Library (?:rpath|runpath): \[(.*)\]", read("readelf", "-dW", BIN / program))
    entries = [entry for path in paths for entry in path.split(":")]
    assert entries and all(entry.startswith(("/", "$ORIGIN")) for entry in entries), paths


@pytest.mark.parametrize("program", PROGRAMS)
def test_libraries_of_the_current_folder_are_not_loaded(program, tmp_path):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "-dW", BIN / program))
    assert len(needed) > 3
    for library in needed:
        (tmp_path / library).write_text("planted")
    run = subprocess.run([BIN / program, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "planted" not in run.stderr, run.stderr
