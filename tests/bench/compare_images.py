"""Compares the images of all shipped pipelines, bit by bit, between two commits built on this machine.

    python3 tests/bench/compare_images.py [BASE [NEW_BIN [COMMIT NEW=OLD...]]]
                                  BASE: a commit, or a folder of built programs (default: see main())
                                  NEW=OLD: only these pipelines; BASE takes OLD as COMMIT has it

A commit is built into build/compare/, on the CPU. Scans are simulated by BASE's client; both reconstruct them without a
server, and then through one, with the same threads and fixed tuning. Prints a digest per pipeline; exit 1 when one differs.
"""

import hashlib
import os
import pathlib
import re
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


def reconstruct(programs, scan, config, folder):
    """Digests without a server and through one, by a pipeline's file."""
    pipeline, name = config.stem, f"{config.stem}_{hashlib.md5(str(programs).encode()).hexdigest()}"
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


CARTESIAN = "--trajectory cartesian --matrix 48 --coils 8 --frames 2 --noise 0.01"
SCANS = {"full": CARTESIAN, "slices, oversampled": f"{CARTESIAN} --slices 3 --noise-scan",
         "R = 2, embedded": f"{CARTESIAN} --acceleration 2 --calibration 16",
         "R = 3, separate": f"{CARTESIAN} --acceleration 3 --calibration 15 --calibration-mode separate",
         "R = 2, without references": f"{CARTESIAN} --acceleration 2", "partial Fourier": f"{CARTESIAN} --partial-fourier 0.7",
         "volume, R = 2x2": "--trajectory cartesian --matrix 24 --depth 20 --coils 8 --acceleration 2x2 --calibration 12"}


def renamed(base, new, commit, pairs):
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "pipelines").mkdir()
        (folder / "new").mkdir()
        for now, old in pairs.items():
            text = run("git", "-C", SOURCE, "show", f"{commit}:config/pipelines/{old}.yaml", capture_output=True).stdout
            texts = {"pipelines": (old, text), "new": (now, (SOURCE / "config" / "pipelines" / f"{now}.yaml").read_text())}
            for place, (name, text) in texts.items():  # aliases may be another pipeline's in the server's own folder
                (folder / place / f"{name}.yaml").write_text(re.sub(r"(?m)^aliases:.*\n", "", text))
            for what, options in SCANS.items():
                scan = folder / "scan.h5"
                scan.unlink(missing_ok=True)
                run(base / "echotrain", "simulate", "-o", scan, *options.split(), stdout=subprocess.DEVNULL)
                before = reconstruct(base, scan, folder / "pipelines" / f"{old}.yaml", folder)
                after = reconstruct(new, scan, folder / "new" / f"{now}.yaml", folder)
                different += before != after or before[0][1] == 0
                print(f"{now} = {old}, {what:26} {before[0][1]:3} images {before}", "the same" if before == after else f"DIFFERENT {after}",
                      flush=True)  # fmt: skip
    print(f"{different} scans differ")
    return 1 if different else 0


def main():
    from test_by_name import CASES, ULTRASOUND

    base = sys.argv[1] if len(sys.argv) > 1 else "9a7a86f"
    base = pathlib.Path(base) if pathlib.Path(base).is_dir() else built(base)
    new = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else SOURCE / "build" / "bin"
    options = {name: f"{case.options} --noise 0.01" for name, case in CASES.items()}
    options |= {name: f"--modality ultrasound --phantom points --matrix 256 {more}" for name, more in ULTRASOUND.items()}
    shipped = SOURCE / "config" / "pipelines"
    if len(sys.argv) > 4:
        return renamed(base, new, sys.argv[3], dict(pair.split("=") for pair in sys.argv[4:]))
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for pipeline in sorted(path.stem for path in shipped.glob("*.yaml")):
            if pipeline not in options:  # tests/integration: test_end_to_end.py, images/
                continue
            scan = folder / f"{pipeline}.h5"
            run(base / "echotrain", "simulate", "-o", scan, *options[pipeline].split(), stdout=subprocess.DEVNULL)
            config = shipped / f"{pipeline}.yaml"
            before, again, after = (reconstruct(programs, scan, config, folder) for programs in (base, base, new))
            steady = before == again  # a server may process frames together that came together
            same = before[0] == after[0] and before[0][1] > 0 and (before[1] == after[1] or not steady)
            different += not same
            print(f"{pipeline:24} {before[0][1]:3} images  {before[0][0]} {before[1][0] if steady else 'varies in BASE  '}  "
                  + ("the same" if same else f"DIFFERENT: {after[0][0]} {after[1][0]} ({after[0][1]} images)"), flush=True)  # fmt: skip
    print(f"{different} pipelines differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
