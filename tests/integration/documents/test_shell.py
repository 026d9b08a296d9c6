"""What the programs print for shells and manuals: --completion bash, --completion zsh, --man."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from programs import BIN, SHIPPED

PROGRAMS = ("echotrain", "echotrain-server")
COMMANDS = ["send", "scans", "fetch", "replay", "convert", "convert-config", "recon", "simulate", "compare", "export", "info", "noise", "verify", "health", "watch", "token"]
PATH = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def printed(program, *arguments):
    done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for program in PROGRAMS:
        (folder / f"{program}.1").write_text(printed(program, "--man"))
        (folder / f"{program}.bash").write_text(printed(program, "--completion", "bash"))
        (folder / f"_{program}").write_text(printed(program, "--completion", "zsh"))
    (folder / "work" / "a folder").mkdir(parents=True)
    (folder / "work" / "a file").touch()
    return folder


def all_flags(program):
    """The flags of --help, by command."""
    pages = {"": printed(program, "--help")}
    if program == "echotrain":
        pages.update({command: printed(program, command, "--help") for command in COMMANDS})
    found = {}
    for command, text in pages.items():
        lines = re.findall(r"^  (?:-(\w),)?(--[\w-]+)", text, re.MULTILINE)
        found[command] = {flag for letter, flag in lines} | {f"-{letter}" for letter, flag in lines if letter}
    return found


# --- bash -------------------------------------------------------------------------------------------------------------


def bash(folder, *words):
    """What bash offers for the last of these words; where = stands alone it is a word, as readline cuts them."""
    program = words[0].rpartition("/")[2]
    script = f"""
        source {folder}/{program}.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        $(complete -p {program} | sed -E 's/.*-F ([^ ]+).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=folder / "work", env=PATH, capture_output=True,
                          text=True, timeout=20)  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_reads_the_script(folder, program):
    done = subprocess.run(["bash", "-n", folder / f"{program}.bash"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr, done.stderr
    if shutil.which("shellcheck"):
        command = ["shellcheck", "-s", "bash", "-S", "error", folder / f"{program}.bash"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_offers_every_flag_of_the_help(folder, program):
    for command, flags in all_flags(program).items():
        offered = bash(folder, program, *([command] if command else []), "-")
        assert set(offered) == flags, command
        assert flags >= {"-h", "--help"}


def test_bash_offers_what_fits_the_place(folder):
    assert bash(folder, "echotrain", "") == COMMANDS
    assert bash(folder, "echotrain", "re") == ["replay", "recon"]
    assert bash(folder, "echotrain", "--completion", "") == ["bash", "zsh"]
    assert bash(folder, "echotrain", "recon", "--backend", "cu") == ["cuda"]
    assert bash(folder, "echotrain", "recon", "--backend", "=", "cu") == ["cuda"]
    assert bash(folder, "echotrain", "recon", "--backend", "=") == ["auto", "cpu", "cuda"]
    radial = sorted(each.stem for each in SHIPPED.glob("radial_*.yaml"))
    assert bash(folder, "echotrain", "send", "a.h5", "-c", "radial_") == radial and "radial_2d" in radial
    assert bash(folder, f"{BIN}/echotrain", "recon", "--config", "kooshball") == ["kooshball_3d"]
    assert bash(folder, "echotrain", "send", "--png", "") == ["a folder"], "a file is no folder"
    assert bash(folder, "echotrain", "send", "--port", "") == [], "a number is not completed"
    assert bash(folder, "echotrain-server", "--explain", "grid") == ["gridding"]
    assert bash(folder, "echotrain-server", "--explain", "--mark") == ["--markdown"], "the name may be left out"
    assert bash(folder, "echotrain-server", "--list", "--log-l") == ["--log-level"], "a switch takes no value"
    assert bash(folder, "echotrain-server", "--log-level", "") == ["trace", "debug", "info", "warning", "error", "critical", "off"]


def test_bash_runs_nothing_that_a_list_says(folder, tmp_path):
    """A line of the server's list may begin with a text of somebody: a pipeline's description has line ends."""
    server = tmp_path / "echotrain-server"
    server.write_text("#!/bin/sh\nprintf 'radial_2d  one\\n$(touch${IFS}ran)  two\\n`touch${IFS}ran`  three\\nspiral_2d  four\\n'\n")
    server.chmod(0o755)
    assert bash(folder, f"{tmp_path}/echotrain", "send", "a.h5", "-c", "") == ["radial_2d", "spiral_2d"]
    assert not (folder / "work" / "ran").exists()


# --- zsh --------------------------------------------------------------------------------------------------------------


def zsh(folder, line, wanted, timeout_s=10):
    """Types `line` and TAB into an interactive zsh; its answer as soon as `wanted` is in it."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder / "work")
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**PATH, "TERM": "dumb", "COLUMNS": "300", "LINES": "200"})
    seen = ""

    def read_until(text):
        nonlocal seen
        end = time.monotonic() + timeout_s
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += re.sub(r"\x07|\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(terminal, 65536).decode(errors="replace"))
        return text in seen

    try:
        setup = f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; LISTMAX=1000; PS1=rea''dy"
        os.write(terminal, f"{setup}\n".encode())
        assert read_until("ready"), seen
        seen = ""
        os.write(terminal, line.encode())
        assert read_until(line), seen  # while input waits, zsh takes a TAB for a character
        time.sleep(0.1)
        os.write(terminal, b"\t")
        read_until(wanted)
        return seen
    finally:
        os.close(terminal)
        os.kill(process, 9)
        os.waitpid(process, 0)


@pytest.fixture
def zsh_program():
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")


@pytest.mark.parametrize("program", PROGRAMS)
def test_zsh_reads_the_script(folder, program, zsh_program):
    done = subprocess.run(["zsh", "-n", folder / f"_{program}"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr, done.stderr
    script = (folder / f"_{program}").read_text()
    for flags in all_flags(program).values():
        assert all(re.search(rf"[')*]{flag}\[", script) for flag in flags), flags


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echotrain sim", "simulate"),
        ("echotrain simulate --traj", "--trajectory"),
        ("echotrain recon x.h5 --backend cu", "cuda"),
        ("echotrain send x.h5 -c koosh", "kooshball_3d"),
        ("echotrain send x.h5 --png a", "a\\ folder/"),
        ("echotrain-server --explain sob", "sobel"),
        ("echotrain-server --log-level de", "debug"),
    ],
)
def test_zsh_completes(folder, zsh_program, line, wanted):
    seen = zsh(folder, line, wanted)
    assert wanted in seen, seen
    assert "error" not in seen and "not found" not in seen, seen


# --- manual pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_page_is_right(folder, program):
    page = folder / f"{program}.1"
    checked = False
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, timeout=20)
        # We leave the date out, so that the same sources make the same page.
        faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
        assert not faults, faults
        checked = True
    if shutil.which("man") and shutil.which("groff"):
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page]
        done = subprocess.run(command, env={**PATH, "MANWIDTH": "80"}, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and not done.stderr, done.stderr
        checked = True
    if not checked:
        pytest.skip("neither mandoc nor man with groff is installed")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_page_has_every_flag_and_every_command(folder, program):
    text = (folder / f"{program}.1").read_text().replace("\\-", "-")
    parts = dict(zip(["", *re.findall(r"^\.SS (\S+)$", text, re.MULTILINE)],
                     re.split(r"^\.SS \S+$", text, flags=re.MULTILINE)))  # fmt: skip
    flags = all_flags(program)
    assert list(parts) == list(flags)
    for command, wanted in flags.items():
        found = re.findall(r"^(?:\\fB-\w\\fR, )?\\fB--[\w-]+\\fR", parts[command], re.MULTILINE)
        assert {flag for line in found for flag in re.findall(r"--?[\w-]+(?=\\)", line)} == wanted, command
    assert f"\\fB{program}\\fR" in text and printed(program, "--version").strip() in text


def test_what_is_no_shell_is_refused():
    done = subprocess.run([BIN / "echotrain", "--completion", "fish"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "'fish' is not one of bash, zsh" in done.stderr, done.stderr
