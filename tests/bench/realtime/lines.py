"""How good real-time images of Cartesian lines are, which lie between those of the frame before: a beating, breathing heart
against the truth of each image's instant, as quality.py has it for spokes. A build, `apt install bart` for the peer, then

    python3 tests/bench/realtime/lines.py build/bin/echotrain [PIPELINE...]

`echotrain simulate --trajectory cartesian --motion cardiac --gating free --calibration-mode interleaved`: 128 x 128, 6 coils,
every 4th (32 lines of 3 ms) or every 8th line (16 lines), shifted from frame to frame, 75 beats a minute, breathing of 8 mm,
noise. BART gets every third of the same frames, one by one: `pics` (l2) with maps of `ecalib` from the mean of the lines of
the first frames that together have all. NRMSE and sharpness as in quality.py, the first frames (at least five, and as many
as bring all lines) left out. The exit status is 1 where the first pipeline's NRMSE is more than 2 % above the best of BART's.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

import quality
import scans
from bart_peer import write_cfl
from quality import judge, pipeline_text, quietly, recon, truths_of

PIPELINES = ["cg_sense_cartesian_realtime", "nlinv_cartesian"]
MATRIX, COILS, FRAMES, EVERY = 128, 6, 30, 3


def simulate(program, path, acceleration):
    quietly(program, "simulate", "-o", path, "--trajectory", "cartesian", "--motion", "cardiac", "--gating", "free", "--matrix",
            MATRIX, "--coils", COILS, "--frames", FRAMES, "--acceleration", acceleration, "--calibration-mode", "interleaved",
            "--tr-ms", quality.TR_MS, "--heart-rate", quality.RATE, "--jitter", 0, "--breathing-mm", quality.BREATH_MM,
            "--breathing-rate", quality.BREATHS, "--noise", 3, "--truth-every", MATRIX // acceleration)  # fmt: skip
    return path


def kspace_of(path):
    """k-space [frame, coil, y, x], 0 where no line came, and which came [frame, y]."""
    _, heads, _, data = scans.read_acquisitions(path)
    kspace, came = np.zeros((FRAMES, COILS, MATRIX, MATRIX), complex), np.zeros((FRAMES, MATRIX), bool)
    for head, line in zip(heads, data):
        f, y = head["idx"]["repetition"], head["idx"]["kspace_encode_step_1"]
        kspace[f, :, y], came[f, y] = line, True
    return kspace, came


class Bart:
    def __init__(self, folder, kspace, came, first):
        self.folder, self.kspace, self.came = folder, kspace / MATRIX, came
        mean = self.kspace[:first].sum(axis=0) / came[:first].sum(axis=0)[:, None]
        write_cfl(folder / "k", mean, [MATRIX, MATRIX, 1, COILS])
        quietly("bart", "ecalib", "-m1", "-r24", "-c0", "k", "s", cwd=folder)

    def pics(self, frame, weight):
        pattern = np.repeat(self.came[frame][:, None], MATRIX, axis=1)
        write_cfl(self.folder / "p", pattern, [MATRIX, MATRIX])
        write_cfl(self.folder / "d", self.kspace[frame], [MATRIX, MATRIX, 1, COILS])
        quietly("bart", "pics", "-S", "-l2", "-r", weight, "-i", 30, "-p", "p", "d", "s", "x", cwd=self.folder)
        return np.fromfile(self.folder / "x.cfl", np.complex64).reshape(MATRIX, MATRIX)


    def together(self, weight):
        """All frames, later ones included, with temporal total variation."""
        pattern = np.repeat(self.came[:, :, None], MATRIX, axis=2)
        write_cfl(self.folder / "p", pattern, [MATRIX, MATRIX, *[1] * 8, FRAMES])
        write_cfl(self.folder / "d", self.kspace, [MATRIX, MATRIX, 1, COILS, *[1] * 6, FRAMES])
        quietly("bart", "pics", "-S", "-R", f"T:1024:0:{weight}", "-i", 60, "-p", "p", "d", "s", "x", cwd=self.folder)
        return np.fromfile(self.folder / "x.cfl", np.complex64).reshape(FRAMES, MATRIX, MATRIX)


def compare(arguments, acceleration, folder):
    scan = simulate(arguments.program, folder / "lines.h5", acceleration)
    times, truth = truths_of(scan)
    assert len(times) == FRAMES, f"{len(times)} truths of {FRAMES} frames"
    first = max(5, acceleration)
    common, ours, best = list(range(first, FRAMES, EVERY)), [], np.inf
    for name in arguments.pipelines:
        images = recon(arguments.program, scan, pipeline_text(name), folder)
        assert len(images) == FRAMES, f"{name}: {len(images)} images of {FRAMES} frames"
        found = judge(np.abs(images), truth, times, slice(first, None))
        few = judge(np.abs(images), truth, times, common)
        ours.append(few[0])
        print(f"R {acceleration}, {name}: NRMSE {found[0]:.4f}, sharpness {found[1]:.3f}, least {found[2]:.3f}; on BART's "
              f"frames {few[0]:.4f}", flush=True)  # fmt: skip
    if not arguments.bart:
        return False
    bart = Bart(folder, *kspace_of(scan), first)
    for weight in arguments.weights:
        images = np.array([np.abs(bart.pics(f, weight)) for f in common])
        found = judge(images, truth[common], times[common])
        best = min(best, found[0])
        print(f"R {acceleration}, bart pics -l2 -r {weight} -i 30: NRMSE {found[0]:.4f}, sharpness {found[1]:.3f}, least "
              f"{found[2]:.3f}", flush=True)  # fmt: skip
    for weight in arguments.temporal:
        found = judge(np.abs(bart.together(weight))[common], truth[common], times[common])
        print(f"R {acceleration}, bart pics -R T:1024:0:{weight} -i 60, all frames together: NRMSE {found[0]:.4f}, sharpness "
              f"{found[1]:.3f}, least {found[2]:.3f}", flush=True)  # fmt: skip
    return ours[0] > 1.02 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("pipelines", nargs="*", default=PIPELINES)
    parser.add_argument("--no-bart", dest="bart", action="store_false")
    parser.add_argument("--weights", type=float, nargs="*", default=[0.001, 0.01, 0.1], help="lambda of `bart pics`")
    parser.add_argument("--temporal", type=float, nargs="*", default=[0.003, 0.01, 0.03], help="the same, all frames together")
    arguments = parser.parse_args()
    arguments.program = arguments.program.resolve()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        missed = [compare(arguments, acceleration, pathlib.Path(folder)) for acceleration in (2, 4, 8)]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
