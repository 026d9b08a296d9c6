"""Counts the tests of a ctest run, and tells which failed, and which were skipped and why: count_tests.py FOLDER RETRIED.

FOLDER/Testing/first.log is ctest's output. An entry of ctest is one test, or as many as FOLDER/tests/results/ENTRY.xml has, which
GoogleTest and pytest write. RETRIED of those that failed have passed when tried again. Tests that want a GPU where there is none are
one line, others have their reason. Where all parts of a program of GoogleTest ran, its own list of tests says what had to run, and
what could not without a GPU (names with "/cuda"): the exit status is 1 where the results have other names, or no file.
"""

import ast
import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ENTRY = re.compile(r"(?m)^ *\d+/\d+ Test +#\d+: (.+?) \.*(?: +(Passed) |\*\*\*(\S+))")
PART = re.compile(r"(test_\w+)\.part_\d+")
ON_CUDA = re.compile(r"/cuda\b|OnCuda\.", re.IGNORECASE)
NO_GPU = ("no usable CUDA device", "no GPU")  # tests/support/expected_cuda.h, tests/integration/conftest.py
SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Case:
    group: str  # an entry of ctest, a program of GoogleTest or a file of Python
    name: str  # within its group; empty for the entry itself
    status: str  # passed, failed or skipped
    reason: str = ""

    def lacks_gpu(self):
        return self.status == "skipped" and self.reason.startswith(NO_GPU)


def reason_of(skipped):
    """What the test said. GoogleTest puts FILE:LINE before it; of a file that is skipped whole pytest has (file, line, 'Skipped: reason')."""
    reason = skipped.get("message", "")
    if reason == "collection skipped":
        reason = ast.literal_eval(skipped.text)[2].removeprefix("Skipped: ")
    return re.sub(r"^\S+:\d+\n", "", reason).strip()


def cases_of(entry, path):
    """The tests in a file of results. It is parsed at once: expat takes minutes for the megabytes of a message in pieces."""
    program = PART.fullmatch(entry.replace(".timing", ".part_0"))
    for case in ElementTree.fromstring(path.read_bytes()).iter("testcase"):
        suite, name = case.get("classname", ""), case.get("name")
        skipped = case.find("skipped")
        if program:
            group, name = program[1], f"{suite}.{name}"
        elif skipped is not None and skipped.get("message") == "collection skipped":  # the module is its name
            group = name.rpartition(".")[2]
        else:  # the last part of the module is the file
            group = suite.rpartition(".")[2]
        if case.find("failure") is not None or case.find("error") is not None:
            yield Case(group, name, "failed")
        elif skipped is not None:
            yield Case(group, name, "skipped", reason_of(skipped))
        else:
            yield Case(group, name, "passed")


def read(entries, results):
    """All tests of a run."""
    cases = []
    for entry, status in entries.items():
        path = results / f"{entry}.xml"
        own = []
        try:
            own = list(cases_of(entry, path)) if path.exists() else []
        except ElementTree.ParseError:
            status = "failed"
        if status == "failed" and not any(case.status == "failed" for case in own):
            own.append(Case(entry, "", "failed"))  # a crash, a hang, or a program without results
        if not path.exists() and not own:
            own.append(Case(entry, "", status, NO_GPU[0] if ON_CUDA.search(entry) else ""))
        cases += own
    return cases


def listed(command):
    """The tests that a program of GoogleTest has, SUITE.NAME."""
    suite = ""
    for line in subprocess.run([*command, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.partition("#")[0].rstrip()
        if name.startswith("  "):
            yield suite + name.strip()
        elif name.endswith("."):
            suite = name


def wrong(folder, entries, cases):
    """One line for each program all of whose parts ran and whose results are not those of its list."""
    shown = subprocess.run(["ctest", "--test-dir", folder, "-C", "whole", "--show-only=json-v1"], capture_output=True, check=True)
    programs = collections.defaultdict(dict)
    for test in json.loads(shown.stdout)["tests"]:
        if PART.fullmatch(test["name"]) and "command" in test:  # of a program that has been built
            programs[PART.fullmatch(test["name"])[1]][test["name"]] = test["command"]
    for program, parts in programs.items():
        if not parts.keys() <= entries.keys():
            continue
        names = set(listed(next(iter(parts.values()))))  # without those that have an entry of their own
        own = {case.name: case for case in cases if case.group == program and case.name in names}
        lost = sorted(names - own.keys())
        if lost:
            yield f"{len(lost)} of {len(names)} tests of {program} have no result: {told(lost)}"
        without = {name for name, case in own.items() if case.lacks_gpu()}
        cuda = {name for name in names if ON_CUDA.search(name) and own.get(name, Case("", "", "failed")).status != "failed"}
        if without and without != cuda:
            yield f"no GPU: of {program} {len(without)} tests were not run, and {len(cuda)} are on CUDA: {told(sorted(without ^ cuda))}"


def told(names):
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def tell_skipped(cases):
    without = sum(case.lacks_gpu() for case in cases)
    if without:
        print(f"not run, no GPU: {without}")
    totals = collections.Counter(case.group for case in cases)
    reasons = collections.defaultdict(lambda: collections.defaultdict(list))
    for case in cases:
        if case.status == "skipped" and case.name and not case.lacks_gpu():
            reasons[case.reason][case.group].append(case.name)
    for reason, groups in sorted(reasons.items()):
        print(f"skipped: {reason}")
        for group, names in groups.items():
            print(f"    {len(names)} of {totals[group]} in {group}: {told(names)}")


def main(folder, retried):
    folder = pathlib.Path(folder)
    found = ENTRY.findall((folder / "Testing/first.log").read_text(errors="replace"))
    entries = {entry: "passed" if ok else "skipped" if why.startswith("Skipped") else "failed" for entry, ok, why in found}
    cases = read(entries, folder / "tests/results")
    for case in cases:
        if case.status == "failed":
            print(f"failed: {case.group} {case.name}".rstrip())
    tell_skipped(cases)
    errors = list(wrong(folder, entries, cases))
    without = [case.name for case in cases if not case.group]
    if without:
        errors.append(f"{len(without)} tests of Python have no file, so that one process has them all: {told(without)}")
    for error in errors:
        print(f"error: {error}")
    count = collections.Counter(case.status for case in cases)
    print(f"== of {len(cases)} tests {count['passed']} passed, {count['skipped']} were skipped "
          f"({sum(case.lacks_gpu() for case in cases)} of these need a GPU), {count['failed']} failed at first, "
          f"{retried} of these passed when tried again")  # fmt: skip
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
