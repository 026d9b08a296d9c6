#!/usr/bin/env python3
"""Runs two builds of a Google Benchmark program by turns and compares their cases: the medians of the times, and `digest`.

    tests/bench/alternate.py BEFORE AFTER [--rounds N] [--cpu-time] [BENCHMARK'S OPTIONS...]

A table of cases: both medians, their ratio, and whether the digests of the results differ. --cpu-time: of the processor's time,
for a machine that others use, with ECHOTRAIN_THREADS=1. Exit 1 where a case of AFTER takes more than 1.05 times as long, or has
other bits."""

import argparse
import json
import statistics
import subprocess
import sys


def run(program, options):
    """{case: (time, digest)} of one run; times in microseconds."""
    out = subprocess.run([program, "--benchmark_format=json", *options], check=True, capture_output=True, text=True).stdout
    units = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
    return {case["name"]: (case, units[case["time_unit"]]) for case in json.loads(out)["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--cpu-time", action="store_true")
    arguments, options = parser.parse_known_args()
    times, digests = {}, {}
    for _ in range(arguments.rounds):
        for program in (arguments.before, arguments.after):
            for name, (case, unit) in run(program, options).items():
                time = case["cpu_time" if arguments.cpu_time else "real_time"]
                times.setdefault(name, {}).setdefault(program, []).append(time * unit)
                digests.setdefault(name, set()).add(case.get("digest"))
    failed = 0
    print(f"{'case':48} {'before':>10} {'after':>10}  ratio  (medians of {arguments.rounds}, us)")
    for name, of in times.items():
        before, after = (statistics.median(of[program]) for program in (arguments.before, arguments.after))
        slower, differs = after > 1.05 * before, len(digests[name]) > 1
        failed += slower or differs
        print(f"{name:48} {before:10.2f} {after:10.2f}  {after / before:5.2f}{' slower' if slower else ''}{' other bits' if differs else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
