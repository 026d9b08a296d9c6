#!/usr/bin/env python3
"""Checks the words of comments, pages and commits' subjects. Each finding says FILE:LINE, what is wrong and what to write.

    .ci/check_words.py [RULES ...] [--root ROOT] [--base REV]     RULES: headers, docs, commits (default: all)
    .ci/check_words.py --count [RULES ...]                        only the number of findings of each file
    .ci/check_words.py --self-test

headers   A header's first comment does not begin with What, Whose, Who, How, Where, Which or Whether, and no comment begins
          with "Of": the reader first meets the thing ("A Cache is ..."). Comments of all sources tell no history.
docs      Pages tell no history, and name commits in captions only: lines in italics, such as those above tables. An entry of
          CHANGELOG.md has at most two lines of 120 characters. All pages of docs/ have at most 60,000 words (wc -w).
commits   Subjects of the commits since REV (default: since main left this branch, on main itself the newest one) have at
          most 72 characters and name no path of somebody's machine.
History is: the hash of a commit, "before <hash>", "(was ...)", "(... before)", "another machine", in pages "not kept". CHANGELOG.md
and sections called "Known gaps" or "Upgrading" may tell it.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RULES = ("headers", "docs", "commits")
MOST_CHARACTERS = 72  # of a subject: what git log --oneline shows in 80 columns
MOST_OF_AN_ENTRY = 240
MOST_WORDS = 60_000  # of all pages of docs/
COMMENTED = re.compile(r"\.(h|cc|cu|cuh|h\.in|js|py|sh|cmake|ya?ml)$|(^|/)(CMakeLists\.txt|Dockerfile[^/]*|run)$")
SLASHES = re.compile(r"\.(h|cc|cu|cuh|h\.in|js)$")
HEADER = re.compile(r"\.(h|cuh|h\.in)$")

# Literals first, so that what looks like a comment within them is none.
SLASH_TOKEN = re.compile(r'R"([^()\\\s]{0,16})\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'|'
                         r"(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)")  # fmt: skip
HASH_TOKEN = re.compile(r'(?P<comment>"""[\s\S]*?""")|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?:(?<=\s)|^)(?P<other>#[^\n]*)', re.M)

QUESTION = re.compile(r"(What|Whose|Who|How|Where|Which|Whether)\b")
HEX = r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}"
# No part of a longer word or name, and not one of several numbers in a row.
COMMIT = re.compile(rf"(?<![\w\"'./#-])(?<!\d )(?<!\d[a-f] ){HEX}(?![\w\"'-]|\.\w)")
OF_ANOTHER_TREE = re.compile(r"^\W*[\w.-]+/[\w.-]+[,;: ]")  # a cell of a table that begins with a repository's OWNER/NAME
HISTORY = (
    (re.compile(rf"\bbefore `?{HEX}\b"), 'says "before <hash>": say what holds, not since when'),
    (re.compile(r"\(was\b"), 'says "(was ...)": say what holds, not what did'),
    (re.compile(r"\([^()]*\bbefore\)"), 'says "(... before)": say what holds, not what did'),
    (re.compile(r"\banother machine\b"), 'says "another machine": name it, by processor, cores and date'),
)
DROPPED = (re.compile(r"\bnot kept\b"), 'says "not kept": say what there is; what was tried and dropped is for commits')
CAPTION = re.compile(r"^\s*\*[^*\s].*\*\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*)")
MAY_TELL = re.compile(r"known gaps|upgrading", re.I)
MACHINE_PATH = re.compile(r"(?<![\w.])(/(home|root|work|workspace|tmp|mnt|srv|scratch|Users)(/|\b)|~/|[A-Z]:\\)")


def comments(name, text):
    """(line, whether something stands before it on its line, text) of each comment; neighbouring lines are one comment."""
    slashes = SLASHES.search(name)
    found = []
    for token in (SLASH_TOKEN if slashes else HASH_TOKEN).finditer(text):
        words = token["comment"] or (None if slashes else token["other"])
        if words is None:
            continue
        line = text.count("\n", 0, token.start()) + 1
        behind = bool(text[text.rfind("\n", 0, token.start()) + 1 : token.start()].strip())
        words = re.sub(r'^(///?<?|/\*+|"""|#+!?) ?|(\*/|""")$', "", words)
        if found and not behind and not found[-1][1] and found[-1][0] + found[-1][2].count("\n") + 1 == line:
            words = f"{found.pop()[2]}\n{words}"
            line -= words.count("\n")
        found.append((line, behind, words))
    return found


def history(line, text, rules=HISTORY):
    """(line, what is wrong) of each word of history in a text that begins at that line; quoted words are spared."""
    text = re.sub(r'"[^"\n]*"', lambda it: "." * len(it[0]), text)
    for pattern, wrong in rules:
        for at in pattern.finditer(re.sub(r"\s", " ", text)):
            yield line + text.count("\n", 0, at.start()), wrong
    text = re.sub(r"`[^`\n]*`", lambda it: it[0] if re.fullmatch(HEX, it[0][1:-1]) else "." * len(it[0]), text)
    for at in COMMIT.finditer(text):
        yield line + text.count("\n", 0, at.start()), f"names the commit {at[0]}: that is for captions and for git"


def check_comments(name, text):
    found = comments(name, text)
    if HEADER.search(name) and found and (at := QUESTION.match(found[0][2])):
        yield found[0][0], f'a header begins with "{at[1]}": begin with the thing, as in "A Cache maps keys to values."'
    for line, behind, words in found:
        if not behind and re.match(r"Of\b", words):
            yield line, 'a comment begins with "Of": say of what it tells first, with a verb'
        yield from history(line, words)


def paragraphs(text):
    """(line, text) of each paragraph, row of a table and item of a page, without fenced blocks and exempt sections."""
    fence, exempt, begun, lines = False, 0, 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        heading = None if fence else HEADING.match(line)
        if heading and (not exempt or len(heading[1]) <= exempt):
            exempt = len(heading[1]) if MAY_TELL.search(heading[2]) else 0
        edge = re.match(r"\s*(```|~~~)", line)
        alone = heading or edge or not line.strip() or re.match(r"\s*(\||[-*] |\d+\. )", line) or CAPTION.match(line)
        if lines and alone:
            yield begun, "\n".join(lines)
            lines = []
        if edge:
            fence = not fence
        elif not fence and not exempt and line.strip():
            begun = begun if lines else number
            lines.append(line)
            if CAPTION.match(line):
                yield begun, line
                lines = []


def check_page(text):
    for line, words in paragraphs(text):
        if CAPTION.match(words):
            words = COMMIT.sub(lambda it: "." * len(it[0]), words)
        elif words.lstrip().startswith("|"):
            words = "|".join(COMMIT.sub("", cell) if OF_ANOTHER_TREE.match(cell) else cell for cell in words.split("|"))
        yield from history(line, words, (*HISTORY, DROPPED))


def check_changelog(text):
    for line, words in paragraphs(text):
        if words.startswith("- ") and (count := len(" ".join(words.split()))) > MOST_OF_AN_ENTRY:
            yield line, f"an entry has {count} characters, more than {MOST_OF_AN_ENTRY}: the rest is for pages"


def check_length(pages, most=MOST_WORDS):
    """What is wrong with the words of all pages, {name: text}, together."""
    words = {name: len(text.split()) for name, text in pages.items()}
    if (count := sum(words.values())) > most:
        longest = ", ".join(f"{name} ({words[name]:,})" for name in sorted(words, key=words.get, reverse=True)[:5])
        yield f"the pages have {count:,} words, more than {most:,}; the longest are {longest}"


def check_subject(subject):
    if len(subject) > MOST_CHARACTERS:
        yield f"the subject has {len(subject)} characters, more than {MOST_CHARACTERS}"
    if at := MACHINE_PATH.search(subject):
        yield f'the subject names a path of one machine ("{at[0]}")'


def git(root, *arguments):
    """Returns what git says of the tree at root, whatever repository a hook's environment names; empty where it fails."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, env=alone)
    return done.stdout if done.returncode == 0 else ""


def new_commits(root, base):
    """(hash, subject) of the commits that are not in `base`, of main if that is empty; on main, of the newest one."""
    head = git(root, "rev-parse", "HEAD").strip()
    for main in [base] if base else ["origin/main", "main"]:
        left = git(root, "merge-base", "HEAD", main).strip()
        if left and (base or left != head):
            return [line.split(" ", 1) for line in git(root, "log", "--format=%h %s", f"{left}..HEAD").splitlines()]
    if base:
        sys.exit(f"error: there is no commit {base} to begin at")
    return [line.split(" ", 1) for line in git(root, "log", "-1", "--format=%h %s").splitlines()]


def files(root):
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        return sorted(name for name in listed.split("\0") if (root / name).is_file())
    built = re.compile(r"^(build.*|demo|out|bundle|\.git|\.venv)$")
    names = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
    return sorted(p.as_posix() for p in names if not any(built.match(part) for part in p.parts))


def check(root, rules, base=""):
    """(place, line, what is wrong) of each finding; a commit has line 0."""
    found, pages = [], {}
    for name in files(root):
        if "docs" in rules and name.startswith("docs/") and name.endswith(".md"):
            pages[name] = (root / name).read_text(encoding="utf-8")
        if "headers" in rules and COMMENTED.search(name):
            check_one = check_comments(name, (root / name).read_text(encoding="utf-8"))
        elif "docs" in rules and name.endswith(".md"):
            check_one = (check_changelog if name == "CHANGELOG.md" else check_page)((root / name).read_text(encoding="utf-8"))
        else:
            continue
        found += [(name, line, wrong) for line, wrong in sorted(check_one)]
    found += [("docs", 0, wrong) for wrong in check_length(pages)]
    if "commits" in rules:
        found += [(f"commit {commit}", 0, wrong) for commit, subject in new_commits(root, base) for wrong in check_subject(subject)]
    return found


def self_test():
    """Each rule finds what it is for, at its line, and leaves alone what only looks like it."""
    cases = (
        ("a.h", "// What a thing does.\n#pragma once\n", [1]),
        ("a.cuh", "// A thing.\n\n/// Of the thing.\nint a();\nint b;  // Of it\n", [3]),
        ("a.h", "// Whatever a thing is.\n// How it is.\n\n/// How many. Often.\nint a();\n", []),
        ("a.cc", 'auto a = "// Of b";\n// Offers c.\nauto d = R"(\n// Of e\n)";\nauto f = 1\'000;  // (was 5)\n', [6]),
        ("a.cc", "// Takes 3 ms\n// on another\n// machine (as\n// it did before).\n", [2, 3]),
        ("a.cc", '// 00100000 1a2b3c4d 5e6f7a8b, {"id": "1f03d28c"}, 20260131-8c1f03d2\n// as of 1a2b3c4d.\n', [2]),
        ("a.cc", "// Is not\nint a;  // kept, not\nint b;  // kept\n", []),
        ("a.cc", "int a;  // on it\n// Of b\nint b;\n", [2]),
        ("a.py", '"""A page\nthat is not kept."""\na = "another machine"  # before 1a2b3c4d\n', [3, 3]),
        ("a.sh", "echo a#b \"# (was 1)\"  # (was 1)\n", [1]),
        ("a.js", "f(1);  // another machine\n", [1]),
        ("a.txt", "another machine\n", []),
        ("a.md", "*Of commit 1a2b3c4d.*\n\n| a/b, `c`, 1a2b3c4d | 2.0 |\n| 3 before 1a2b3c4d | (1 before) |\n", [4, 4, 4]),
        ("b.md", "A\n```\nnot kept\n```\nIt is not\nkept.\n\n- `1a2b3c4d`\n- (was 3), \"(was 4)\", `f(1a2b3c4d)`\n", [5, 8, 9]),
        ("c.md", "## Upgrading\n(was 1)\n### To 2\nnot kept\n## Other\nnot kept\n# Known gaps\nnot kept\n", [6]),
        ("d.md", "# Beforehand (and before that)\nA machine, another one.\n(wasted)\n", []),
        ("e.md", "*Of commit 1a2b3c4d.*\nAt 1a2b3c4d.\n", [2]),
        ("CHANGELOG.md", f"not kept\n\n- {'a' * 119}\n  {'a' * 118}\n- {'a' * 239}\n", [5]),
    )
    wrong = []
    for name, text, lines in cases:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_text(text)
            found = check(pathlib.Path(folder), ("headers", "docs"))
        if [line for _, line, _ in found] != lines:
            wrong.append(f"{name}: {text!r}: {found}, expected at {lines}")
    bad = ("a" * 73, "Logs go to /home/b/c", "The bench reads /tmp", "~/c is read")
    good = ("a" * 72, "/metrics and /sessions/7/stop answer", "docs/home/work: a page", "A temporary folder")
    wrong += [f"not refused: {subject}" for subject in bad if len(list(check_subject(subject))) != 1]
    wrong += [f"refused: {subject}" for subject in good if list(check_subject(subject))]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, count in (("docs/a.md", 40_000), ("docs/b/c.md", 20_000), ("d.md", 1)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("word\n" * count)
        just = check(root, ("docs",))
        (root / "docs/b/c.md").write_text("word \n| word |" * 10_000)
        if just or [place for place, _, _ in check(root, ("docs",))] != ["docs"]:
            wrong.append("the words of docs/ are not counted")
    with tempfile.TemporaryDirectory() as folder:
        root, author = pathlib.Path(folder), ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
        git(root, "init", "-q", "-b", "main")
        git(root, *author, "commit", "-q", "--allow-empty", "-m", "b" * 80)
        git(root, *author, "commit", "-q", "--allow-empty", "-m", "/tmp")
        on_main = [line for line in check(root, ("commits",)) if "path" in line[2]]
        git(root, "checkout", "-q", "-b", "topic")
        git(root, *author, "commit", "-q", "--allow-empty", "-m", "c" * 80)
        if len(on_main) != 1 or [len(check(root, ("commits",), base)) for base in ("", "HEAD~2")] != [1, 2]:
            wrong.append("the commits of a branch, or the newest one of main, are not found")
    if wrong:
        sys.exit("check_words: the self-test found\n" + "\n".join(wrong))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="RULES")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--base", default="")
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    rules = options.rules or RULES
    if unknown := set(rules) - set(RULES):
        parser.error(f"there are no rules {', '.join(sorted(unknown))}; there are: {', '.join(RULES)}")
    found = check(options.root, rules, options.base)
    if options.count:
        for name, count in collections.Counter(name for name, _, _ in found).items():
            print(f"{count:4} {name}")
    else:
        for name, line, wrong in found:
            print(f"{name}:{line}: {wrong}" if line else f"{name}: {wrong}")
    if found:
        sys.exit(f"error: {len(found)} findings ({', '.join(rules)})")
    print(f"== words: nothing to mend ({', '.join(rules)})")


if __name__ == "__main__":
    main()
