#!/usr/bin/env python3
"""The folders that a build of some families of gadgets leaves out, one a line: .ci/families.py [FAMILY...]

A folder of gadgets/ or gadgets/numerics is left out when neither the programs nor a source gadgets/builtin/FAMILY.cc of the
families reaches it by includes. Exit 1 when a family needs another one that is not named, or does not exist."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
ALWAYS = ("server", "clients", "gadgets/engine", "gadgets/api", "gadgets/shared", "gadgets/numerics/core", "gadgets/numerics/cuda")


def folder_of(path):
    """gadgets/FAMILY, or a folder of gadgets/numerics or gadgets/shared, of a path; another room is one folder."""
    parts = path.split("/")[:-1]
    if parts[:1] != ["gadgets"]:
        return parts[0]
    return "/".join(parts[: 3 if parts[1:2] in (["numerics"], ["shared"]) else 2])


def read_includes():
    """For each folder, the folders that its sources include, and for each source of gadgets/builtin its own."""
    uses = {}
    for room in ("protocol", "config", "gadgets", "server", "clients/cpp"):
        for source in sorted((ROOT / room).rglob("*")):
            if source.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            path = source.relative_to(ROOT).as_posix()
            folder = path if path.startswith("gadgets/builtin/") else folder_of(path)
            uses.setdefault(folder, set()).update(folder_of(target) if not target.startswith("gadgets/builtin/") else target
                                                  for target in INCLUDE.findall(source.read_text(encoding="utf-8"))
                                                  if "/" in target)
    return uses


def reach(uses, start):
    seen, left = set(), list(start)
    while left:
        folder = left.pop()
        if folder not in seen:
            seen.add(folder)
            left.extend(uses.get(folder, ()))
    return seen


def main(families):
    uses = read_includes()
    every = {name[len("gadgets/builtin/"):-len(".cc")] for name in uses
             if name.startswith("gadgets/builtin/") and name.endswith(".cc")} - {"builtin"}
    for family in families:
        if family not in every:
            sys.exit(f"there is no family of gadgets '{family}'; there are: {', '.join(sorted(every))}")
    start = [folder for folder in uses if folder in ALWAYS] + [f"gadgets/builtin/{name}.cc" for name in families]
    needed = reach(uses, start)
    for family in sorted(every - set(families)):
        if f"gadgets/{family}" in needed:
            sys.exit(f"the families {', '.join(families)} need the family {family}, too")
    left_out = {folder for folder in uses if folder.count("/") and not folder.startswith("gadgets/builtin/")} - needed
    left_out |= {f"gadgets/builtin/{name}.cc" for name in every - set(families)}
    print("\n".join(sorted(left_out)))


if __name__ == "__main__":
    main(sys.argv[1:])
