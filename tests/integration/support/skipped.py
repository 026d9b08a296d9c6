"""Prints which tests pytest skipped, and why: skipped.py RESULTS.xml... (what `pytest --junit-xml` writes).

The first line begins with "SKIPPED: ", by which ctest knows a file whose run left something out. A file without results
has not run, or not to its end, which is an error.
"""

import ast
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def skipped(path):
    """(test, reason) of each test that was skipped, and the number of all tests. A file skipped as a whole is one."""
    cases = list(ElementTree.parse(path).iter("testcase"))
    found = []
    for case in cases:
        for mark in case.iter("skipped"):
            reason = mark.get("message", "")
            if reason == "collection skipped":  # of the whole file: the text is (file, line, 'Skipped: reason')
                reason = ast.literal_eval(mark.text)[2].removeprefix("Skipped: ")
            found.append((case.get("name"), reason))
    return found, len(cases)


def main(paths):
    reasons = collections.defaultdict(list)
    for path in map(pathlib.Path, paths):
        try:
            found, total = skipped(path)
        except (FileNotFoundError, ElementTree.ParseError):
            sys.exit(f"{path.stem} did not run to its end: {path} is not there, or not whole")
        for reason in dict.fromkeys(reason for _, reason in found):
            names = [name for name, why in found if why == reason]
            more = ", ..." if len(names) > 3 else ""
            reasons[reason].append((len(names), f"{len(names)} of {total} in {path.stem}: {', '.join(names[:3])}{more}"))
    if not reasons:
        return
    print(f"SKIPPED: {sum(n for files in reasons.values() for n, _ in files)} tests in Python")
    for reason, files in sorted(reasons.items()):
        print(f"  {reason}")
        for _, line in files:
            print(f"    {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
