"""What `./run release` changes, and when it refuses to."""

import re
import shutil
import subprocess

import pytest

from programs import SOURCE

CHANGELOG = "# Changes\n\n## Unreleased\n\n### Added\n\n- One thing.\n\n## 0.1.0 (2026-11-22)\n\n- The first.\n"


@pytest.fixture
def tree(tmp_path):
    """The files of this tree that a release writes, as a repository of their own whose version is 0.1.0."""
    places = subprocess.run(["git", "-C", SOURCE, "ls-files", "run", ".ci", "clients/python/echotrain", "CMakeLists.txt", "docker",
                             "docs/*.md"], capture_output=True, text=True).stdout.split()  # fmt: skip
    if not places:
        pytest.skip("this tree is no checkout of git")
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / place, tmp_path / place)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(tree, *arguments):
    done = subprocess.run(["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false", *arguments],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout


def commit(tree):
    git(tree, "add", "-A", "-f")
    git(tree, "commit", "-q", "-m", "All")


def release(tree, version):
    return subprocess.run([tree / "run", "release", version], capture_output=True, text=True, timeout=60)


def test_the_version_and_the_section_are_written_and_nothing_is_committed(tree):
    present = re.search(r"^project\(echotrain VERSION (\S+) ", (tree / "CMakeLists.txt").read_text(), re.M)[1]
    head = git(tree, "rev-parse", "HEAD")
    done = release(tree, "77.0.1")
    assert done.returncode == 0 and 'git tag -a 77.0.1 -m "Echotrain 77.0.1"' in done.stdout, done.stderr
    assert git(tree, "rev-parse", "HEAD") == head and not git(tree, "tag")
    word = rf"(?<![\w.]){re.escape(present)}(?![\w.])|[_V-]{re.escape(present)}[._-]"
    left = [place for place in git(tree, "ls-files").split() if place != "CHANGELOG.md" and re.search(word, (tree / place).read_text("latin1"))]
    assert not left, f"these name {present} and are not in PLACES of .ci/release.py"
    changed = git(tree, "diff", "--unified=0").splitlines()
    lines = [line for line in changed if re.match(r"[+-](?!--|\+\+)", line)]
    written = [line for line in lines if "77.0.1" in line]
    assert len(written) == len([line for line in lines if present in line]) + 1  # and the heading
    changelog = (tree / "CHANGELOG.md").read_text()
    assert re.sub(r"77\.0\.1 \(\d{4}-\d\d-\d\d\)", "77.0.1", changelog) == CHANGELOG.replace("Unreleased\n", "Unreleased\n\n## 77.0.1\n")


@pytest.mark.parametrize(
    ("spoil", "version", "why"),
    [
        (lambda tree: (tree / "run.log").touch(), "77.0.1", "not committed"),
        (lambda tree: git(tree, "tag", "77.0.1"), "77.0.1", "there is a tag 77.0.1"),
        (lambda tree: None, "0.0.9", "'0.0.9' is no version above "),
        (lambda tree: None, "v77.0.1", "'v77.0.1' is no version above "),
        (lambda tree: None, "77.0", "'77.0' is no version above "),
        (lambda tree: release(tree, "77.0.0") and commit(tree), "77.0.1", "has no entries"),
    ],
    ids=["changes", "tag", "lower", "letter", "short", "nothing"],
)
def test_what_is_no_release_changes_nothing(tree, spoil, version, why):
    spoil(tree)
    before = git(tree, "status", "--porcelain")
    done = release(tree, version)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and why in done.stderr, done.stderr
    assert git(tree, "status", "--porcelain") == before
