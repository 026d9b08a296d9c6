"""Two sets of coil maps where a head is larger than its field of view, beside BART: `apt install bart`, a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_fold.py build/bin/echotrain

The brain of espirit_examples/full, whose k-space is evaluated at 1.3 times its spacing along one axis, by sums over all
points of the image: a field of view smaller by 1.3, of which the image is the brain, wrapped. Of its lines, every R-th and
the middle 24 go through `cartesian_sense` (whose maps have `sets: auto`), `cartesian_compressed_sensing` and the gadget
`sense`, over TCP, and through `bart ecalib -m2` and `bart pics`. Errors are those of magnitudes, with one factor, over all
pixels, against the root sum of squares of the wrapped images; of BART the images of both sets are joined likewise.
"best" is that of a few weights of the prior, the other figure that of the weight shipped, and of BART's first one; "one
set" is the pipeline as shipped, but for `sets: 1`. The status is 1 where the best error is above BART's best, or the
shipped one above that of one set.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

from measured_scans import error, read_cfl, reconstruct, scan_of, serving
from measured_sense import bart

from bart_peer import write_cfl
from programs import DATA, SHIPPED

SPACING, CALIBRATION = 1.3, 24
# Weights of priors, the shipped one first. For wavelets, ours are parts of the image's largest value, BART's of its 90th
# percentile.
WEIGHTS = {"-l2": (0.003, 0.01, 0.02, 0.05), "-RW:6:0:": (0.003, 0.001, 0.0003)}
BARTS = {"-l2": WEIGHTS["-l2"], "-RW:6:0:": (0.003, 0.005, 0.01)}


def wrapped():
    """k-space [coil, z, y, 1] of the smaller field of view along y, and the root sum of squares of its images."""
    full = read_cfl(DATA / "espirit_examples/full")[..., None]  # [coil, 180, 230, 1]
    n = full.shape[2]
    lines = 6 * int(n / SPACING / 6)  # `sense` unfolds whole multiples of R
    place, k = np.arange(n) - n // 2, np.arange(n) - n // 2
    image = np.exp(2j * np.pi * np.outer(place, k) / n) / n  # of the rows along y
    samples = np.exp(-2j * np.pi * SPACING * np.outer(np.arange(lines) - lines // 2, place) / n)
    kspace = np.einsum("ly,czyx->czlx", samples @ image, full)
    images = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=(1, 2)), axes=(1, 2)), axes=(1, 2))
    return kspace.astype(np.complex64), np.sqrt(np.sum(np.abs(images) ** 2, axis=0))


def pics(folder, kspace, method):
    """Joined images for each weight. BART has the plane as y and z."""
    write_cfl(folder / "data", kspace, (*kspace.shape[:0:-1], kspace.shape[0]))
    bart(folder, "ecalib", "-m2", f"-r{CALIBRATION}", "data", "maps")
    for weight in BARTS[method]:
        words = ("-l2", "-r", weight, "-i30") if method == "-l2" else (f"{method}{weight}", "-i60")
        bart(folder, "pics", *words, "data", "maps", "image")
        yield np.sqrt(np.sum(np.abs(read_cfl(folder / "image")) ** 2, axis=0))[..., None]


def pipelines():
    """(name, text, BART's method)"""
    for name, method in (("cartesian_sense", "-l2"), ("cartesian_compressed_sensing", "-RW:6:0:")):
        yield name, (SHIPPED / f"{name}.yaml").read_text(), method
    yield "sense", (
        "echotrain: 1\nname: sense\ndescription: x\nbackend: auto\nframe: auto\npipeline:\n  - cartesian_kspace\n"
        "  - sense: {lambda: 0.003, sets: auto}\n  - image: {component: magnitude, type: float}\n"
    ), "-l2"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    kspace, truth = wrapped()
    worse = False
    with serving(arguments) as server, tempfile.TemporaryDirectory() as scratch:
        line = np.arange(kspace.shape[2])
        reference = np.abs(line - len(line) // 2 + 0.5) < CALIBRATION / 2
        for r in (1, 2, 3):
            rows = np.broadcast_to((line % r == 0) | reference, kspace.shape[1:3])
            calibration = np.broadcast_to(reference, kspace.shape[1:3])
            scan = scan_of(kspace, rows, calibration, (1, r), "embedded")
            theirs = {m: [error(i, truth) for i in pics(pathlib.Path(scratch), kspace * rows[None, :, :, None], m)]
                      for m in WEIGHTS}  # fmt: skip
            for name, text, method in pipelines():
                if name == "sense" and r == 1:
                    continue  # takes accelerated scans
                assert "sets: auto" in text and "lambda: 0.003" in text

                def image_error(weight, sets, text=text, scan=scan):
                    changed = text.replace("sets: auto", f"sets: {sets}").replace("lambda: 0.003", f"lambda: {weight}")
                    return error(reconstruct(server, changed, scan), truth)

                ours, one = [image_error(w, "auto") for w in WEIGHTS[method]], image_error(WEIGHTS[method][0], 1)
                print(f"R={r} {name:29} {ours[0]:.4f}, best {min(ours):.4f}; one set {one:.4f}; bart "
                      f"{theirs[method][0]:.4f}, best {min(theirs[method]):.4f}", flush=True)  # fmt: skip
                worse |= min(ours) > min(theirs[method]) or ours[0] > one
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
