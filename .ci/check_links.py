#!/usr/bin/env python3
"""Checks the links between Markdown files of this tree: files, folders and headings. Needs no network.

    .ci/check_links.py [ROOT]       prints FILE:LINE: what is wrong; exit 1 if anything is
    .ci/check_links.py --self-test
"""

import pathlib
import re
import subprocess
import sys
import tempfile

LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:")


def slug(text):
    """The anchor of a heading, as GitHub and the site (pymdownx.slugs) make it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"[`*]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(text):
    """(line number, line) outside fenced blocks, in which code spans are blanked."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if found and (fence is None or found[1].startswith(fence)):
            fence = None if fence else found[1]
            continue
        if fence is None:
            yield number, line


def without_code(text):
    """The text with code spans blanked, also those that go over a line's end."""
    return re.sub(r"(`+)(?!`)(?:[^`]|\n(?!\n))*?\1(?!`)", lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def anchors(text):
    found, seen = set(), {}
    for _, line in prose(text):
        for name in re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", line):
            found.add(name)
        if heading := HEADING.match(line):
            name = slug(heading[2])
            seen[name] = seen.get(name, -1) + 1
            found.add(name if seen[name] == 0 else f"{name}-{seen[name]}")
    return found


def found_links(text):
    """A match for each link, at its place in the text; fenced blocks and code spans are left out. A link's text may go
    over a line's end."""
    lines = [" " * len(line) for line in text.splitlines()]
    for number, line in prose(text):
        lines[number - 1] = line
    return LINK.finditer(without_code("\n".join(lines)))


def links(text):
    """(line, target) of each link."""
    for found in found_links(text):
        yield text.count("\n", 0, found.start(1)) + 1, found[1]


def markdown_files(root):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        capture_output=True, text=True)  # fmt: skip
    if listed.returncode == 0:
        return sorted(p for p in (root / name for name in listed.stdout.split("\0") if name) if p.is_file())
    built = re.compile(r"^(build.*|demo|out|bundle|\..*)$")
    return sorted(p for p in root.rglob("*.md") if not any(built.match(part) for part in p.relative_to(root).parts))


def check(root):
    problems, known, count = [], {}, 0
    for file in markdown_files(root):
        for line, target in links(file.read_text(encoding="utf-8")):
            if EXTERNAL.match(target):
                continue
            count += 1
            name, _, anchor = target.partition("#")
            place = f"{file.relative_to(root)}:{line}"
            to = (file.parent / name).resolve() if name else file
            if not to.is_relative_to(root.resolve()) and name:
                problems.append(f"{place}: {target} leads out of this tree")
            elif not to.exists():
                problems.append(f"{place}: there is no {name}")
            elif anchor and to.suffix == ".md":
                if to not in known:
                    known[to] = anchors(to.read_text(encoding="utf-8"))
                if anchor not in known[to]:
                    near = [each for each in sorted(known[to]) if anchor[:5] in each]
                    hint = f"; there are: {', '.join(near)}" if near else ""
                    problems.append(f"{place}: {name or file.name} has no heading #{anchor}{hint}")
    return problems, count


def self_test():
    """Each kind of broken link is found, and what is no link is not taken for one."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        (root / "docs").mkdir()
        (root / "docs" / "b.md").write_text("# B `code` and *x*\n## Twice\n## Twice\n```\n# no heading\n```\n")
        (root / "a.md").write_text(
            "# A\n[ok](docs/b.md) [ok](docs/b.md#b-code-and-x) [ok](docs/b.md#twice-1) [ok](#a) [ok](docs)\n"
            "[file](docs/c.md)\n[anchor](docs/b.md#three)\n[own](#b)\n[code](docs/b.md#no-heading)\n[out](../x.md)\n"
            "`[no](link.md)` [web](https://example.org/#x)\n```\n[no](link.md)\n```\n[over a\nline's end](gone.md)\n"
            "`f(a)\n[b](none.md)`\n")  # fmt: skip
        problems, count = check(root)
        lines = [each.split(":")[1] for each in problems]
        if lines != ["3", "4", "5", "6", "7", "13"] or count != 11:
            sys.exit(f"check_links: the self-test found {problems} of {count}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    problems, count = check(root)
    print(*problems, sep="\n", end="\n" if problems else "")
    if problems:
        sys.exit(f"error: {len(problems)} of {count} links between our documents are broken")
    print(f"== links: {count} between our documents lead somewhere")


if __name__ == "__main__":
    main()
