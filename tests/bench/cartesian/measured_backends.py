"""Whether the GPU's images of the scans beside this program are the CPU's: on a machine with a GPU, a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_backends.py build/bin/echotrain [SCAN...]

Each scan goes over TCP through a server on the CPU and one on CUDA, to `grappa` (coil images and joined) and to `sense`
and `pcg` with maps of the scan. Printed: the relative difference of the images. It is held to 1e-3 of the errors that
these methods have (1e-2 and more), so that figures of measured_grappa.py and measured_sense.py hold on both.
"""

import argparse
import pathlib
import sys

import numpy as np

from measured_scans import cases, reconstruct, scan_of, serving

SCANS = ["und2x2", "brain16", "headcoil16", "se32"]
BOUND = 1e-5
HEAD = "echotrain: 1\nname: measured\ndescription: Measured data\npipeline:\n  - cartesian_kspace\n"
JOINED = "  - image: {component: complex}\n"
METHODS = {
    "grappa, coil images": "  - grappa: {output: coils}\n  - coil_combine: {method: rss}\n  - image\n",
    "grappa, joined": "  - grappa\n" + JOINED,
    "sense, unfolded": "  - sense\n" + JOINED,
    "sense, pcg": "  - encoding\n  - coil_maps: {method: espirit, calibration: 24}\n"
    "  - pcg: {prior: tikhonov, lambda: 0.003, iterations: 20, tolerance: 1e-5}\n" + JOINED,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("scans", nargs="*")
    arguments = parser.parse_args()
    missed = False
    chosen = [case for scan in arguments.scans or SCANS for case in cases(scan)]
    made = {}
    for backend in ("cpu", "cuda"):
        arguments.backend = backend
        with serving(arguments) as server:
            for name, full, came, reference, steps in chosen:
                scan = scan_of(full, came, reference, steps, "separate")
                for method, gadgets in METHODS.items():
                    made[backend, name, method] = reconstruct(server, HEAD + gadgets, scan)
    for name, *_ in chosen:
        for method in METHODS:
            images = [made[backend, name, method] for backend in ("cpu", "cuda")]
            if images[0] is None and images[1] is None:
                print(f"{name:14} {method:20} no image on either", flush=True)
                continue
            difference = np.inf
            if images[0] is not None and images[1] is not None:
                difference = np.linalg.norm(images[1] - images[0]) / np.linalg.norm(images[0])
            missed |= not difference <= BOUND
            print(f"{name:14} {method:20} {difference:.1e}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
