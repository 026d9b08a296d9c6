#!/usr/bin/env python3
"""The sources that the programs need when they are built of some parts, one a line: .ci/parts.py PART...

A part is a source of a list: a family of gadgets (gadgets/builtin/PART.cc), a part of the server (server/parts/PART.cc), a command
of `echotrain` (clients/cpp/commands/PART.cc). A source is needed when a program or a named part reaches its header by
includes; of a folder of gadgets/numerics, all sources are. A source that has no header of its own belongs to that header of
its folder, among those that it includes, whose name is most like its own. Exit 1 when there is no such part.

.ci/parts.py --included NAME...: the files below a folder, or that match a pattern ("*.cu"), and those that these include."""

import fnmatch
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("protocol", "config", "gadgets", "server", "clients/cpp")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
LISTS = ("gadgets/builtin", "server/parts", "clients/cpp/commands")  # FOLDER/FOLDER.cc is the list itself
PROGRAMS = ("server/main.cc", "clients/cpp/cli/main.cc", *(f"{name}/{name.rsplit('/', 1)[-1]}.cc" for name in LISTS))
NUMERICS = "gadgets/numerics"


def folder(path):
    return path.rsplit("/", 1)[0]


def read_includes(root, rooms=ROOMS):
    """For each of our files, those that it includes."""
    files = {}
    for room in rooms:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh"):
                files[path.relative_to(root).as_posix()] = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return files


def list_parts(files):
    return {Path(path).stem: path for path in files if folder(path) in LISTS and path.endswith(".cc") and path not in PROGRAMS}


def read_sources(files, parts):
    """For each header, the sources that belong to it."""
    sources = {}
    for path, includes in files.items():
        if not path.endswith(".cc") or path in PROGRAMS or path in parts.values():
            continue
        own = path[: -len(".cc")] + ".h"
        near = [own] if own in files else [name for name in includes if folder(name) == folder(path)]
        if near:
            header = max(near, key=lambda name: len(os.path.commonprefix([name, path])))
            sources.setdefault(header, []).append(path)
    return sources


def needed(files, names):
    """The sources that programs of these parts need."""
    parts = list_parts(files)
    for name in names:
        if name not in parts:
            sys.exit(f"there is no part '{name}'; there are: {', '.join(sorted(parts))}")
    sources = read_sources(files, parts)
    seen, left = set(), [*PROGRAMS, *(parts[name] for name in names)]
    while left:
        path = left.pop()
        if path in seen or path not in files:
            continue
        seen.add(path)
        left += [*files[path], *sources.get(path, ())]
        if path.startswith(NUMERICS + "/"):
            left += [other for other in files if folder(other) == folder(path)]
    return sorted(path for path in seen if path.endswith((".cc", ".cu")))


def included(files, names):
    """The files below these folders, or that match these patterns, and those that these include."""
    seen, left = set(), [path for path in files for name in names if path.startswith(f"{name}/") or fnmatch.fnmatchcase(path, name)]
    while left:
        path = left.pop()
        if path in files and path not in seen:
            seen.add(path)
            left += files[path]
    return sorted(seen)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--included"]:
        print("\n".join([*sys.argv[2:], *included(read_includes(ROOT, (*ROOMS, "tests")), sys.argv[2:])]))
        sys.exit()
    print("\n".join(needed(read_includes(ROOT), sys.argv[1:])))
