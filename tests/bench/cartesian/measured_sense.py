"""`cartesian_sense` on measured data of which lines were left out, beside BART: `apt install bart`, a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_sense.py build/bin/echotrain [SCAN...]

For each scan, the lines that are kept go through `cartesian_sense` of the build's server, over TCP, and the same lines
through `bart ecalib -m1` and `bart pics -l2` with its best weight of a few. Both are compared with BART's
image of the whole k-space (`ecalib -m1 -r24`, `pics -l2 -r 0.0005 -i 30`): complex, one factor, all pixels. "seen" is
the share of pixels where the image is not 0: maps that are 0 at the edges flatter an error. The
pipeline's parameters were chosen on headcoil16 and se32; measured_scans.py has the scans.

`--set lambda=0.01` (`iterations`, `crop`, ..) changes parameters of the pipeline. `--backend cuda` is for a GPU.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from measured_scans import cases, error, read_cfl, reconstruct, scan_of, serving

from bart_peer import ENVIRONMENT, write_cfl
from programs import SHIPPED

WEIGHTS = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05)
# The largest error allowed, of each scan's accelerations.
ASKED = {"und2x2": [0.081], "brain16": [0.0069, 0.0174, 0.0282]}


def bart(folder, *words):
    subprocess.run(["bart", *map(str, words)], check=True, env=ENVIRONMENT, cwd=folder, stdout=subprocess.DEVNULL)


def pics(folder, kspace, calibration, weights, iterations=30):
    """[z, y, x] for each weight; kspace: [coil, z, y, x]. The plane of und2x2 is BART's y and z."""
    write_cfl(folder / "data", kspace, (*kspace.shape[:0:-1], kspace.shape[0]))
    bart(folder, "ecalib", "-m1", f"-r{calibration}", "data", "maps")
    for weight in weights:
        bart(folder, "pics", "-l2", "-r", weight, "-i", iterations, "data", "maps", "image")
        yield read_cfl(folder / "image").reshape(kspace.shape[1:])


def complex_pipeline(changes, text=None):
    text = text or (SHIPPED / "cartesian_sense.yaml").read_text()
    text = text.replace("component: magnitude, type: float", "component: complex")
    assert "component: complex" in text
    for change in changes:
        name, value = change.split("=")
        text, count = re.subn(rf"(?m)^( *-.*\b){name}: [^,}}]+", rf"\g<1>{name}: {value}", text)
        assert count == 1, f"cartesian_sense.yaml says {name} {count} times"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("scans", nargs="*", default=["und2x2", "brain16"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--no-bart", action="store_true", help="only the reference is BART's")
    parser.add_argument("--pipeline", type=pathlib.Path, help="instead of the shipped one")
    arguments = parser.parse_args()
    pipeline = complex_pipeline(arguments.set, arguments.pipeline.read_text() if arguments.pipeline else None)
    missed = False
    with serving(arguments) as server, tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for scan in arguments.scans:
            asked = iter(ASKED.get(scan, []))
            for name, full, came, reference, steps in cases(scan):
                truth = next(iter(pics(folder, full, 24, [0.0005])))
                image = reconstruct(server, pipeline, scan_of(full, came, reference, steps, "embedded"))
                mine, bound = error(image, truth), next(asked, None)
                line = f"{name:14} ours {mine:.4f}, seen {np.mean(image != 0):.2f}"
                if bound:
                    line += f", asked {bound}"
                    missed |= mine > bound or scan == "und2x2" and np.mean(image != 0) < 0.8
                if not arguments.no_bart:
                    lines = 24 if scan != "und2x2" else 20
                    theirs = [error(i, truth) for i in pics(folder, full * came[None, :, :, None], lines, WEIGHTS)]
                    best = int(np.argmin(theirs))
                    line += f"; bart {theirs[best]:.4f} with -r {WEIGHTS[best]}"
                print(line, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
