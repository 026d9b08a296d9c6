#!/usr/bin/env python3
"""Runs the tests of test_numerics on CUDA under the four tools of compute-sanitizer, from a bundle (.ci/bundle.sh):
  gpu_sanitizers.py BUNDLE OUT [--seconds 480] [--at-once 4] [--tools memcheck,synccheck,racecheck,initcheck]
Tests run at their small sizes (ECHOTRAIN_FEW), which launch the same kernels: both lists are compared. racecheck and initcheck
take half an hour for all tests: they begin with few tests that launch every kernel, and go on until the seconds are over. Processes
take turns on the device: more at once are slower.
What ended, and how many kernels were launched by it, goes to the terminal; all logs to OUT. Ends with 1 where a tool reports
something, a test fails, a kernel is launched by no small test, or a tool did not reach every kernel."""
import argparse
import concurrent.futures
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

# StopOn measures seconds, of which kernels take many times as many here; FftTest's large sizes are cuFFT's kernels alone.
FEW = "*Cuda*-StopOn*:FftTest/Cuda.LargeOddSizes:FftTest/Cuda.ManyItems"
# racecheck takes minutes for Hopper's direct transform: a part of its tests, and all of them by the code of other devices.
HOPPER = re.compile(r"DirectTransformTest/Cuda\.(Weights|Box|PartsOf)")
# memcheck is right with graphs that loop only where it is alone on the GPU; racecheck never comes to their end.
GRAPHS = "*Pcg*Cuda*:ToeplitzTest/Cuda*"
TOOLS = ("memcheck", "synccheck", "racecheck", "initcheck")
ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("bundle", type=pathlib.Path)
ARGUMENTS.add_argument("out", type=pathlib.Path)
ARGUMENTS.add_argument("--seconds", type=float, default=480)
ARGUMENTS.add_argument("--at-once", type=int, default=4)
ARGUMENTS.add_argument("--tools", default=",".join(TOOLS))
OPTIONS = ARGUMENTS.parse_args()
PROGRAM = OPTIONS.bundle / "bin" / "test_numerics"
SANITIZER = shutil.which("compute-sanitizer") or (sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")) or [""])[-1]


SMALL = {"ECHOTRAIN_FEW": "1", "ECHOTRAIN_GRAPHS": "off"}
PORTABLE = {"ECHOTRAIN_HOPPER": "off"}


def portable(test):
    """Whether racecheck runs a test by the code of devices other than Hopper."""
    return test.startswith("DirectTransformTest") and not HOPPER.match(test)


def run(command, log, seconds, **more):
    """The exit status of a command; 124 where it was stopped after its time, or not begun."""
    if seconds <= 0:
        return 124
    environment = {**os.environ, "ECHOTRAIN_EXPECT_CUDA": "1", **more}
    with open(log, "wb") as to:
        process = subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 124
    return status


def listed(pattern):
    """The names of tests that a filter takes."""
    lines = subprocess.run([PROGRAM, "--gtest_list_tests", f"--gtest_filter={pattern}"], stdout=subprocess.PIPE, text=True, check=True)
    names, suite = [], ""
    for line in lines.stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def launches(name, tests, **more):
    """The kernels of ours that tests launch in a process of their own, how many launches there are, and its exit status."""
    path, log = OPTIONS.out / f"launched_{name}", OPTIONS.out / f"launches_{name}.log"
    path.write_text("")
    status = run([PROGRAM, f"--gtest_filter={':'.join(tests)}"], log, 200, ECHOTRAIN_LAUNCHES=str(path),
                 CUDA_INJECTION64_PATH=str(OPTIONS.bundle / "bin" / "libechotrain_launches.so"), **more)
    if status:
        print(f"launches of {name}: ended with {status}")
    text = path.read_text()
    count = sum(int(number) for number in re.findall(r"^launches: (\d+)$", text, re.M))
    return {kernel for kernel in text.split() if "echotrain" in kernel}, count, status


def in_order(launched, launches_of):
    """Tests, those first that together launch every kernel with few launches; and how many these are."""
    left, order, missing = set(launched), [], set().union(*launched.values())
    while missing:
        best = max(left, key=lambda test: (len(launched[test] & missing) / (100 + launches_of[test]), test))
        missing -= launched[best]
        left.remove(best)
        order.append(best)
    return order + sorted(left, key=lambda test: launches_of[test]), len(order)


def check(tool, name, tests, until, **more):
    """A tool over tests in one process: the tests that passed, and its exit status (124: cut off)."""
    log = OPTIONS.out / f"{tool}_{name}.log"
    command = [SANITIZER, "--tool", tool, "--error-exitcode", "9", PROGRAM, f"--gtest_filter={':'.join(tests)}"]
    status = run(command, log, until - time.monotonic(), **more)
    text = log.read_text(errors="replace") if log.exists() else ""
    if status not in (0, 124):
        print(f"{tool} over {', '.join(tests)[:200]}: ended with {status} (see {log.name})")
        print("\n".join(line for line in text.splitlines() if re.search(r"^=========|: Failure", line))[:3000])
    return re.findall(r"^\[       OK \] (\S+)", text, re.M), status


def main():
    OPTIONS.out.mkdir(parents=True, exist_ok=True)
    failed = False
    few, every = listed(FEW), listed("*Cuda*")
    with concurrent.futures.ThreadPoolExecutor(3 * OPTIONS.at_once) as pool:
        small = [pool.submit(launches, f"few_{i}", [test], **SMALL) for i, test in enumerate(few)]
        other = {test: pool.submit(launches, f"portable_{i}", [test], **SMALL, **PORTABLE)
                 for i, test in enumerate(few) if portable(test)}
        whole = [pool.submit(launches, f"all_{i}", every[i::16]) for i in range(16)]
    launched = {test: job.result()[0] for test, job in zip(few, small)}
    launches_of = {test: job.result()[1] for test, job in zip(few, small)}
    kernels, all_kernels = (set().union(*(job.result()[0] for job in jobs)) for jobs in (small, whole))
    elsewhere = {test: job.result()[0] for test, job in other.items()}
    failed |= any(job.result()[2] for job in [*small, *other.values(), *whole])
    print(f"{len(few)} tests at their small sizes launch {len(kernels)} kernels; {len(every)} tests launch {len(all_kernels)}, "
          f"{len(all_kernels - kernels)} of them launched by none at its small size")
    for kernel in sorted(all_kernels - kernels):
        print(f"  {kernel}")
    failed |= not kernels or bool(all_kernels - kernels)

    until = time.monotonic() + OPTIONS.seconds
    jobs = {tool: [] for tool in OPTIONS.tools.split(",")}
    order, leading = in_order(launched, launches_of)
    print(f"{leading} tests launch every kernel")
    with concurrent.futures.ThreadPoolExecutor(OPTIONS.at_once) as pool:
        def submit(tool, name, tests, **more):
            if tool in jobs and tests:
                jobs[tool].append(pool.submit(check, tool, name, tests, until, **SMALL, **more))

        def race_and_init(first, end, at_once):
            """Some tests in each process; those with most launches first, so that none of them begins late."""
            part = sorted(order[first:end], key=lambda test: -launches_of[test])
            here, there = ([test for test in part if portable(test) == is_portable] for is_portable in (False, True))
            for i in range(at_once):
                submit("racecheck", f"{first}_{i}", here[i::at_once])
                submit("initcheck", f"{first}_{i}", part[i::at_once])
            submit("racecheck", f"{first}_portable", there, **PORTABLE)

        race_and_init(0, leading, 6)
        for i in range(4):
            submit("memcheck", i, few[i::4])
            submit("synccheck", i, few[i::4])
        for first in range(leading, len(order), 48):
            race_and_init(first, min(first + 48, len(order)), 4)
    for tool, results in jobs.items():
        ended = [test for job in results for test in job.result()[0]]
        of = {**launched, **elsewhere} if tool == "racecheck" else launched
        reached = set().union(*(of.get(test, set()) for test in ended)) & kernels
        reports = sum(job.result()[1] not in (0, 124) for job in results)
        cut = sum(job.result()[1] == 124 for job in results)
        print(f"{tool}: {len(ended)} of {len(few)} tests ended well; of {len(results)} processes {reports} failed and {cut} were "
              f"cut off or not begun; {len(reached)} of {len(kernels)} kernels launched")
        for kernel in sorted(kernels - reached):
            print(f"  not under {tool}: {kernel}")
        failed |= reports > 0 or reached != kernels
    if "memcheck" in jobs:
        ended, status = check("memcheck", "graphs", [GRAPHS], time.monotonic() + 60, ECHOTRAIN_FEW="1")
        print(f"memcheck alone, with graphs that loop: {len(ended)} tests ended well, status {status}")
        failed |= status != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
