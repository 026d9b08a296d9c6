"""Compares the images of all shipped pipelines, bit by bit, between two commits built on this machine.

    python3 tests/bench/compare_images.py [BASE [NEW_BIN]]     BASE: a commit, or a folder of built programs (default: see main())

A commit is built into build/compare/, on the CPU. Scans are simulated by BASE's client; both reconstruct them without a
server, and then through one, with the same threads and fixed tuning. Prints a digest per pipeline; exit 1 when one differs.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "integration"), str(SOURCE / "tests" / "integration" / "support")]

import h5py  # noqa: E402
import numpy as np  # noqa: E402

FIXED = {"ECHOTRAIN_THREADS": "2"}
# These say when and by which version an image was made, not what it shows.
PASSING = {"measurement_uid", "attribute_string_len"}


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, text=True, **more)


def built(commit):
    """The folder of a commit's programs."""
    folder = SOURCE / "build" / "compare" / commit
    if not (folder / "source").exists():
        run("git", "-C", SOURCE, "worktree", "add", "--detach", folder / "source", commit, stdout=subprocess.DEVNULL)
    run("cmake", "-S", folder / "source", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DECHOTRAIN_CUDA=OFF",
        "-DECHOTRAIN_TESTS=OFF", stdout=subprocess.DEVNULL)  # fmt: skip
    run("cmake", "--build", folder, "--target", "echotrain", "echotrain-server", stdout=subprocess.DEVNULL)
    return folder / "bin"


def digest(file):
    """A digest of the pixels and headers of all images of a file, and their number."""
    total, count = hashlib.sha256(), 0

    def add(name, item):
        nonlocal count
        if not isinstance(item, h5py.Dataset):
            return
        values = item[()]
        if name.endswith("/data"):
            count += len(values)
        elif name.endswith("/header"):
            values = np.copy(values)
            for field in PASSING & set(values.dtype.names):
                values[field] = 0
        else:
            return
        total.update(name.split("/")[-2].encode() + str(values.dtype).encode() + str(values.shape).encode())
        total.update(np.ascontiguousarray(values).tobytes())

    with h5py.File(file) as images:
        images.visititems(add)
    return total.hexdigest()[:16], count


def reconstruct(programs, scan, pipeline, folder):
    """Digests without a server and through one."""
    name = f"{pipeline}_{hashlib.md5(str(programs).encode()).hexdigest()}"
    config = SOURCE / "config" / "pipelines" / f"{pipeline}.yaml"
    environment = os.environ | FIXED
    offline, served = folder / f"{name}_offline.h5", folder / f"{name}_served.h5"
    run(programs / "echotrain", "recon", scan, "-c", config, "-o", offline, env=environment, stdout=subprocess.DEVNULL)
    server = subprocess.Popen([programs / "echotrain-server", "--port", "0", "--pipelines", config.parent, "--backend", "cpu"],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    try:
        port = next(line.split(":")[-1].strip() for line in server.stdout if "listening on" in line)
        run(programs / "echotrain", "send", scan, "-c", pipeline, "-p", port, "-o", served, env=environment,
            stdout=subprocess.DEVNULL)  # fmt: skip
    finally:
        server.terminate()
        server.communicate()
    return digest(offline), digest(served)


def main():
    from test_by_name import CASES, ULTRASOUND

    base = sys.argv[1] if len(sys.argv) > 1 else "9a7a86f"
    base = pathlib.Path(base) if pathlib.Path(base).is_dir() else built(base)
    new = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else SOURCE / "build" / "bin"
    options = {name: f"{case.options} --noise 0.01" for name, case in CASES.items()}
    options |= {name: f"--modality ultrasound --phantom points --matrix 256 {more}" for name, more in ULTRASOUND.items()}
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for pipeline in sorted(path.stem for path in (SOURCE / "config" / "pipelines").glob("*.yaml")):
            if pipeline not in options:  # tests/integration: test_end_to_end.py, images/
                continue
            scan = folder / f"{pipeline}.h5"
            run(base / "echotrain", "simulate", "-o", scan, *options[pipeline].split(), stdout=subprocess.DEVNULL)
            before, again, after = (reconstruct(programs, scan, pipeline, folder) for programs in (base, base, new))
            steady = before == again  # a server may process frames together that came together
            same = before[0] == after[0] and before[0][1] > 0 and (before[1] == after[1] or not steady)
            different += not same
            print(f"{pipeline:24} {before[0][1]:3} images  {before[0][0]} {before[1][0] if steady else 'varies in BASE  '}  "
                  + ("the same" if same else f"DIFFERENT: {after[0][0]} {after[1][0]} ({after[0][1]} images)"), flush=True)  # fmt: skip
    print(f"{different} pipelines differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
