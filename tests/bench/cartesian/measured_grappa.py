"""`grappa` and `sense` on measured data of which lines were left out: a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_grappa.py build/bin/echotrain [SCAN...]

For each scan, the lines that are kept, its reference lines before them, go through the build's server, over TCP. "rss":
coil images of k-space kernels, their root sum of squares against that of the whole k-space, with one real factor.
"combined": the image that is sent, complex, with one complex factor, against the whole k-space joined by the same maps:
the same lines and all others, of which all are then put back. All pixels. measured_scans.py has the scans: und2x2,
brain16, headcoil16, se32.

`--set kernel_y=2` (`kernel_x`, `regularization`, ..) changes the gadget's parameters. `--backend cuda` is for a GPU.
"""

import argparse
import pathlib
import sys

import numpy as np

from measured_scans import cases, error, reconstruct, scan_of, serving

SCANS = ["und2x2", "brain16"]
# The largest errors allowed: rss, combined.
ASKED = {
    "und2x2": (0.065, 0.085),
    "brain16 R=2": (0.0042, None),
    "brain16 R=3": (0.0097, None),
    "brain16 R=4": (0.0175, None),
}
PIPELINE = """echotrain: 1
name: measured
description: Measured data
pipeline:
  - cartesian_kspace
  - {gadget}
  - coil_combine: {{method: {combine}}}
  - image: {{component: {component}}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("scans", nargs="*")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    options = ", ".join(change.replace("=", ": ") for change in arguments.set)
    joined = f"grappa: {{{options}}}"
    of_coils = f"grappa: {{output: coils{', ' if options else ''}{options}}}"
    missed = False
    with serving(arguments) as server:

        def made(scan, gadget, combine, component):
            return reconstruct(server, PIPELINE.format(gadget=gadget, combine=combine, component=component), scan)

        for name, full, came, reference, steps in (c for s in arguments.scans or SCANS for c in cases(s)):
            whole = scan_of(full, np.ones_like(came), reference, steps, "separate")
            fewer = scan_of(full, came, reference, steps, "separate")
            truth = made(whole, "fft", "rss", "magnitude")
            truth_joined = made(whole, joined, "none", "complex")
            errors = [error(made(fewer, of_coils, "rss", "magnitude"), truth),
                      error(made(fewer, joined, "none", "complex"), truth_joined)]  # fmt: skip
            asked = ASKED.get(name, (None, None))
            missed |= any(bound is not None and e > bound for e, bound in zip(errors, asked))
            line = f"{name:14} rss {errors[0]:.4f} (asked {asked[0]}), combined {errors[1]:.4f} (asked {asked[1]})"
            of_maps = made(fewer, "sense", "rss", "magnitude")
            if of_maps is not None:
                inside = of_maps != 0
                line += (f"; sense {error(of_maps, np.where(inside, truth, 0)):.4f} against rss in "
                         f"{inside.mean():.2f} of the pixels")  # fmt: skip
            print(line, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
