#!/usr/bin/env python3
"""Changes the code under test at random and says which changes the tests do not notice.

    ./run mutation [--count 50] [--seed 1] [--only N,M] [--list]
    tests/mutate.py --self-test

Draws mutants by operators over the areas below: the operator first, then the area, then the place, so that each
operator and each area has its share. Applies one at a time in a worktree of HEAD (build-mutation/tree; what is not
committed is not tested), builds the area's test program there (build-mutation/build: CPU only, ccache), and runs the
suites of the folder's mirror, then the rest of the program. A mutant is caught when a test fails, crashes or takes six
times as long. Those that do not compile are drawn again. The table goes to build-mutation/mutants.md, line by line.

The same seed draws the same mutants of the same commit. --only runs those of these numbers again; --list shows them.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build-mutation"
TREE, BUILD = FOLDER / "tree", FOLDER / "build"
MOST_MEMORY = 12 << 30  # of a test program

# Area: its sources, and the program that tests them.
AREAS = {
    "numerics": (["gadgets/numerics/**/*.cc", "gadgets/numerics/**/*.cu"], "test_numerics"),
    "framer": (["gadgets/engine/*frame*.cc", "gadgets/engine/line_set.cc", "gadgets/engine/readout_*.cc"], "test_gadgets"),
    "codec": (["protocol/wire/*.cc"], "test_protocol"),
    "image header": (["gadgets/images/*.cc", "gadgets/shared/measurement.cc"], "test_gadgets"),
}

# Operator: a pattern in code, and what its match becomes. Comparisons have blanks around them, template brackets do not.
SWAPS = {
    "sign": [(r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += ")],
    "bound": [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > ")],
    "constant": [(r"(?<![\w.'])\d+(?![\w.'])", lambda m: str(int(m[0]) + 1)),
                 (r"(?<![\w.'])\d+\.\d+(?=f?\b)(?!['\d])", lambda m: f"{2 * float(m[0]) or 1.0}")],
    "condition": [(r" && ", " || "), (r" \|\| ", " && "), (r" == ", " != "), (r" != ", " == "),
                  (r"\bif \((?=[^;{}]*\) )", None)],
    "index": [(r"(?<=[\w\])])\[(\w+)\]", lambda m: f"[{m[1]} + 1]"), (r" % ", " / "), (r" / ", " % "),
              (r"\+\+(?=\w)", "--")],
}  # fmt: skip
# Lines whose change says nothing: declarations for the preprocessor, texts of errors, sizes that only save allocations.
IGNORED = re.compile(r"^\s*(#|//|static_assert|using |namespace |template)|\breserve\(|\bthrow |fmt::format|Error\{")
ELSEWHERE = re.compile(r"^\s*#\s*if(def)?\s+(?!.*!).*ECHOTRAIN_HAS_(CUDA|NCCL|HOPPER|MPI)")


@dataclasses.dataclass(frozen=True)
class Mutant:
    area: str
    operator: str
    path: str
    at: int  # offset of the change in the file
    old: str
    new: str

    def apply(self, text):
        assert text[self.at : self.at + len(self.old)] == self.old
        return text[: self.at] + self.new + text[self.at + len(self.old) :]


def code_of(text):
    """The text with everything but code replaced by blanks of the same length: comments, strings, lines that IGNORED and
    ELSEWHERE name."""
    blank = re.compile(r'//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\d)', re.DOTALL)
    bare = blank.sub(lambda m: re.sub(r"[^\n]", "\0", m[0]), text)
    lines, depth = [], 0
    for line, original in zip(bare.split("\n"), text.split("\n")):
        if depth and re.match(r"\s*#\s*if", line):
            depth += 1
        elif depth and (re.match(r"\s*#\s*endif", line) or (depth == 1 and re.match(r"\s*#\s*el", line))):
            depth -= 1
        elif ELSEWHERE.match(line):
            depth = 1
        keep = not depth and not IGNORED.search(original)
        lines.append(line if keep else "\0" * len(line))
    return "\n".join(lines)


def closing(text, at):
    """The place of the bracket that closes the one at `at`; -1 without one."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def mutants_of(area, path, text):
    code = code_of(text)
    for operator, swaps in SWAPS.items():
        for pattern, new in swaps:
            for found in re.finditer(pattern, code):
                if new is None:  # if (condition) -> if (!(condition))
                    begin = found.end() - 1
                    end = closing(code, begin)
                    condition = text[begin : end + 1]
                    if end < 0 or ";" in condition or "\0" in code[begin:end] or "constexpr" in condition:
                        continue
                    yield Mutant(area, operator, path, begin, condition, f"(!{condition})")
                else:
                    change = new(found) if callable(new) else new
                    yield Mutant(area, operator, path, found.start(), found[0], change)


def all_mutants(root):
    found = []
    for area, (patterns, _) in AREAS.items():
        for path in sorted({p for pattern in patterns for p in root.glob(pattern)}):
            if path.suffix == ".cu" and "core/map.cuh" not in path.read_text():
                continue  # only nvcc compiles it
            found += mutants_of(area, str(path.relative_to(root)), path.read_text())
    return found


def draws(mutants, seed):
    """All mutants in the order of their drawing: an operator and an area at random, then one of theirs."""
    dice, left = random.Random(seed), {}
    for mutant in mutants:
        left.setdefault((mutant.operator, mutant.area), []).append(mutant)
    while left:
        operator = dice.choice(sorted({key[0] for key in left}))
        key = dice.choice(sorted(key for key in left if key[0] == operator))
        yield left[key].pop(dice.randrange(len(left[key])))
        if not left[key]:
            del left[key]


def run(command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", **options)


def build(target, jobs):
    return run(["cmake", "--build", BUILD, "-j", jobs, "--target", target])


def bounded():
    """A change may make a loop that never stops allocating."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def suites_of(path):
    """A filter for the suites that mirror the folder of a source, or else the folder above it."""
    names, mirror = set(), (TREE / "tests" / path).parent
    while not mirror.is_dir():
        mirror = mirror.parent
    for test in mirror.glob("*_test.c[cu]"):
        names |= set(re.findall(r"^(?:TYPED_)?TEST(?:_[PF])?\(\s*(\w+)", test.read_text(), re.MULTILINE))
    return ":".join(f"*{name}.*:{name}/*" for name in sorted(names))


def passes(program, filters, limit_s):
    """("", seconds) where all tests pass, else (what failed, seconds)."""
    begun = time.monotonic()
    command = [BUILD / "bin" / program, f"--gtest_filter={filters}", "--gtest_fail_fast", "--gtest_brief=1"]
    try:
        done = run(command, timeout=limit_s, preexec_fn=bounded,
                   env={**os.environ})  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"its time: no end within {limit_s:.0f} s", limit_s
    seconds = time.monotonic() - begun
    if done.returncode == 0:
        return "", seconds
    failed = re.findall(r"\[  FAILED  \] ([\w/.]+)", done.stdout)
    end = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return (failed[0] if failed else end), seconds


def prepare():
    """Makes the worktree at HEAD and configures its build; ends the program where that fails."""
    FOLDER.mkdir(exist_ok=True)
    if (TREE / ".git").exists():
        run(["git", "-C", TREE, "checkout", "--force", "--detach", head()], check=True)
    else:
        run(["git", "-C", ROOT, "worktree", "prune"], check=True)
        run(["git", "-C", ROOT, "worktree", "add", "--detach", TREE, head()], check=True)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if run(["which", "ccache"]).returncode == 0 else []
    # Changes leave variables without use: warnings are none of this test's business.
    done = run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DECHOTRAIN_CUDA=OFF",
                "-DECHOTRAIN_WERROR=OFF", *launcher])  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


def head():
    return run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True).stdout.strip()


def baseline(program, jobs):
    """Builds a program as it is and runs it once; returns the seconds that it took."""
    print(f"== {program}: as it is", flush=True)
    done = build(program, jobs)
    if done.returncode != 0:
        sys.exit(done.stdout[-4000:] + done.stderr)
    failed, seconds = passes(program, "*", 3600)
    if failed:
        sys.exit(f"{program} fails without any change: {failed}")
    return seconds


def judge(mutant, seconds, jobs):
    """(whether it compiles, what caught it: empty where nothing did)."""
    path, program = TREE / mutant.path, AREAS[mutant.area][1]
    text = path.read_text()
    path.write_text(mutant.apply(text))
    try:
        done = build(program, jobs)
        if done.returncode != 0:  # the build ends by asking the program for its tests
            return ("Error running test executable" in done.stdout, "the program's start")
        limit, near = 6 * seconds + 60, suites_of(mutant.path)
        caught, _ = passes(program, near, limit) if near else ("", 0)
        if not caught:
            caught, _ = passes(program, "*" if not near else f"*-{near}", limit)
        return True, caught
    finally:
        path.write_text(text)


def line_of(number, mutant, text, result):
    line = text[: mutant.at].count("\n")
    code = text.split("\n")[line].strip().replace("|", "\\|")
    change = f"`{mutant.old.strip()}` -> `{mutant.new.strip()}`".replace("|", "\\|").replace("\n", " ")
    return f"| {number} | {mutant.path}:{line + 1} | {mutant.operator} | {change} | `{code}` | {result} |"


def self_test():
    source = (
        "#include <x>  // a < b\n"
        "int f(int n, float* v) {\n"
        '  if (n < 2 && v[n] == 1.5f) say("n < 3");  // n > 4\n'
        "  std::vector<int> w;\n"
        "#if ECHOTRAIN_HAS_CUDA\n"
        "  n = n + 7;\n"
        "#else\n"
        "  n -= 1;\n"
        "#endif\n"
        "  return n % 3;\n"
        "}\n"
    )
    found = list(mutants_of("codec", "f.cc", source))
    changed = {(m.operator, m.old.strip(), m.new.strip()) for m in found}
    assert changed == {
        ("bound", "<", "<="), ("sign", "-=", "+="), ("constant", "2", "3"), ("constant", "1.5", "3.0"),
        ("constant", "1", "2"), ("constant", "3", "4"), ("condition", "&&", "||"), ("condition", "==", "!="),
        ("index", "[n]", "[n + 1]"), ("index", "%", "/"),
        ("condition", "(n < 2 && v[n] == 1.5f)", "(!(n < 2 && v[n] == 1.5f))"),
    }, changed  # fmt: skip
    for mutant in found:
        mutated = mutant.apply(source)
        assert mutated != source and mutated.count("\n") == source.count("\n")
    assert [m for m in draws(found, 3)] == [m for m in draws(found, 3)] and set(draws(found, 3)) == set(found)
    assert [m for m in draws(found, 3)] != [m for m in draws(found, 4)]
    everywhere = all_mutants(ROOT)
    assert {(m.operator, m.area) for m in everywhere} == {(o, a) for o in SWAPS for a in AREAS}
    for mutant in everywhere:
        mutant.apply((ROOT / mutant.path).read_text())
    print(f"mutation: {len(everywhere)} possible mutants")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="mutants that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="numbers of mutants, with commas between them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of the build")
    parser.add_argument("--list", action="store_true", help="shows the mutants and runs nothing")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.list:
        prepare()
    root = ROOT if options.list else TREE
    only = {int(n) for n in options.only.split(",") if n}
    table, seconds, compiled, survivors = FOLDER / "mutants.md", {}, 0, 0
    lines = [f"Commit {head()[:12]}, seed {options.seed}.", "", "| | place | operator | change | line | result |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for number, mutant in enumerate(draws(all_mutants(root), options.seed), 1):
        if compiled == options.count or (only and number > max(only)):
            break
        text = (root / mutant.path).read_text()
        if options.list:
            compiled += 1
            print(line_of(number, mutant, text, ""))
            continue
        if only and number not in only:
            continue
        program = AREAS[mutant.area][1]
        if program not in seconds:
            seconds[program] = baseline(program, options.jobs)
        compiles, caught = judge(mutant, seconds[program], options.jobs)
        compiled += compiles
        survivors += compiles and not caught
        result = "does not compile" if not compiles else f"caught by {caught}" if caught else "**survived**"
        lines.append(line_of(number, mutant, text, result))
        print(lines[-1], flush=True)
        table.write_text("\n".join(lines) + "\n")
    if not options.list:
        lines += ["", f"{compiled} mutants: {compiled - survivors} caught, {survivors} survived."]
        table.write_text("\n".join(lines) + "\n")
        print(f"== {lines[-1]} {table}")
        return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
