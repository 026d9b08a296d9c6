"""What .ci/run leaves out: only what a change since the merge base cannot have broken, and nothing where that is not known."""

import os
import shutil
import subprocess

import pytest

from programs import SOURCE

ALL = {"TSan", "benchmarks", "h200", "CUDA code"}


def git(folder, *arguments):
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder, name, text):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", name)
    return git(folder, "rev-parse", "HEAD")


def common(folder, command):
    script = f'. {SOURCE}/.ci/common.sh; root=$PWD; set -euo pipefail; {command}'
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)


def merge_base(folder):
    done = common(folder, "merge_base")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def touched(folder, base, *paths):
    return common(folder, f"touched '{base}' {' '.join(paths)}").returncode == 0


@pytest.fixture
def tree(tmp_path):
    """A main branch with two folders, and a change of one on another branch."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "server/a.cc", "1")
    commit(folder, "gadgets/b.cc", "1")
    git(folder, "checkout", "-q", "-b", "change")
    commit(folder, "gadgets/b.cc", "2")
    return folder


def test_only_what_has_changed_is_touched(tree):
    base = merge_base(tree)
    assert base == git(tree, "rev-parse", "main")
    assert touched(tree, base, "gadgets") and touched(tree, base, "server", "gadgets/b.cc")
    assert not touched(tree, base, "server") and not touched(tree, base, "server/a.cc")
    assert touched(tree, base, "'*.cc'") and not touched(tree, base, "'*.cu'")


@pytest.mark.parametrize(("name", "text"), [("server/a.cc", "2"), ("server/new.cc", "1")])
def test_what_is_not_committed_counts(tree, name, text):
    base = merge_base(tree)
    (tree / name).write_text(text)
    assert touched(tree, base, "server")


def test_what_is_not_there_counts(tree):
    """A rule that names a folder by its old name must not leave out anything."""
    assert touched(tree, merge_base(tree), "servers")
    git(tree, "rm", "-q", "server/a.cc")
    assert touched(tree, merge_base(tree), "server/a.cc")


def test_without_a_merge_base_everything_counts(tree, tmp_path):
    git(tree, "checkout", "-q", "--detach")
    assert merge_base(tree) == ""
    git(tree, "checkout", "-q", "main")
    assert merge_base(tree) == ""
    assert touched(tree, "", "server") and touched(tree, "0" * 40, "server")
    git(tree, "branch", "-m", "main", "other")
    assert merge_base(tree) == ""  # no main branch
    git(tree, "checkout", "-q", "change")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tree}", clone)
    assert merge_base(clone) == ""


def test_a_clone_asks_its_origin_first(tree, tmp_path):
    git(tree, "checkout", "-q", "main")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", f"file://{tree}", clone)
    assert merge_base(clone) == ""
    git(clone, "checkout", "-q", "-b", "change")
    first = git(clone, "rev-parse", "HEAD")
    commit(clone, "gadgets/b.cc", "3")
    git(clone, "branch", "-f", "main", "HEAD")  # the clone's own goes along
    assert merge_base(clone) == first
    assert touched(clone, first, "gadgets") and not touched(clone, first, "server")
    git(clone, "checkout", "-q", "main")
    assert merge_base(clone) == ""  # how much of what lands the origin has is not known


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """This tree on a main branch."""
    folder = tmp_path_factory.mktemp("sources") / "tree"
    folder.mkdir()
    for name in (".ci", "CMakeLists.txt", "CMakePresets.json", "clients", "config", "gadgets", "protocol", "server", "tests"):
        copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
        copy(SOURCE / name, folder / name)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "docs/page.md", "1")
    return folder


def plan(folder, **more):
    """The optional steps of .ci/run there: TSan, benchmarks, CUDA code, and the shared numerics of the preset h200."""
    environment = {name: value for name, value in os.environ.items() if name != "CI_FULL"} | more
    done = subprocess.run(["bash", ".ci/run", "--plan"], cwd=folder, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if not line.startswith("####")]
    kept = {name for name in ALL if any(name in step for step in steps)}
    told = {name for name in ALL if f"#### left out: {name}" in done.stdout.replace("preset ", "")}
    assert kept | told == ALL and not kept & told
    return kept


@pytest.mark.parametrize(("changed", "steps"), [
    ("server/main.cc", {"TSan"}),
    ("tests/server/new_test.cc", {"TSan"}),
    ("gadgets/engine/pipeline.cc", {"TSan"}),
    ("gadgets/numerics/core/new.h", {"TSan", "h200"}),
    ("gadgets/numerics/core/context.h", ALL),
    ("gadgets/numerics/mri/new.cc", {"h200"}),
    ("gadgets/numerics/mri/new.cu", {"h200", "CUDA code"}),
    ("gadgets/images/new.cc", set()),
    ("docs/page.md", set()),
    ("tests/bench/new.h", {"benchmarks"}),
    ("CMakeLists.txt", ALL),
    (".ci/compiler.cmake", ALL),
])  # fmt: skip
def test_steps_of_a_change(sources, changed, steps):
    git(sources, "checkout", "-q", "-B", "change", "main")
    commit(sources, changed, "2")
    assert plan(sources) == steps


def test_all_steps_on_request(sources):
    git(sources, "checkout", "-q", "-B", "change", "main")
    commit(sources, "docs/page.md", "2")
    assert plan(sources, CI_FULL="1") == ALL


def test_clones_for_one_run_leave_out_nothing(sources, tmp_path):
    git(sources, "checkout", "-q", "-B", "change", "main")
    commit(sources, "docs/page.md", "2")
    cases = {"change": ["--depth", "1"], "main": ["--branch", "main", "--single-branch"], "detached": []}
    for name, arguments in cases.items():
        clone = tmp_path / name
        git(tmp_path, "clone", "-q", *arguments, f"file://{sources}", clone)
        if name == "detached":
            git(clone, "checkout", "-q", "--detach")
        assert plan(clone) == ALL, name
    commit(tmp_path / "main", "docs/page.md", "3")  # main, one commit before its origin
    assert plan(tmp_path / "main") == ALL
