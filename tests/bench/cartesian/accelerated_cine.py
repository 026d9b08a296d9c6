"""An accelerated cine gated by the ECG, against the simulated heart at the middle of each phase and beside BART's low rank:

    python3 tests/bench/cartesian/accelerated_cine.py [CASE...]      (a build; `apt install bart` for low_rank)

`echotrain simulate` makes hearts whose lines run on through the beats: 96 x 96, 8 coils, 13 phases, 26 sweeps at R = 1 (10 s)
and as many at R = 2, 3 and 4 (so much less time), with one lattice and 24 reference lines, or with a lattice that moves from
sweep to sweep. Through `cartesian_cine_ecg`:

    aliasing   no noise: |image - truth|^2 / |truth|^2 of all phases, at most 3 %; also with lines from the nearest phase only
    noise      NRMSE in the body, at most 1.15 sqrt(R) g times that of the full scan; g is that of the one lattice, the root of the mean of its square
    low_rank   `cartesian_cine_low_rank` and `bart pics -R L` of the same binned lines, each at its best lambda: NRMSE at most 1 % above

Images are compared up to one real factor for the series. The exit status is 1 where a figure that was asked for is missed.
"""

import argparse
import pathlib
import sys
import tempfile

import h5py
import numpy as np

for place in ("integration/support", "integration", "bench/peers", "bench/regularised", "bench/cartesian"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / place))
import scans  # noqa: E402
from bart_peer import write_cfl  # noqa: E402
from poisson_brain import bart  # noqa: E402
from programs import plain_variant, run_client, simulated_scan  # noqa: E402
from test_cine import PHASES, own_binning, read_ecg, marked_triggers, truths  # noqa: E402

N, COILS, SWEEPS, REFERENCES = 96, 8, 26, 24
HEART = ("--trajectory", "cartesian", "--motion", "cardiac", "--gating", "free", "--matrix", N, "--coils", COILS, "--tr-ms", 4,
         "--heart-rate", 66, "--jitter", 0.05, "--sweeps", SWEEPS)  # fmt: skip
PATTERNS = {"one lattice": ("--calibration", REFERENCES), "moving lattice": ("--calibration-mode", "interleaved")}
NOISE = 4


LAMBDAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)  # parts of the brightest voxel of the adjoint


def scan_of(folder, acceleration, pattern, noise=0):
    path = folder / f"{acceleration}-{pattern.split()[0]}-{noise}.h5"
    if not path.exists():
        lines = () if acceleration == 1 else ("--acceleration", acceleration, *PATTERNS[pattern])
        simulated_scan(path, *HEART, *lines, *(("--noise", noise) if noise else ()))
    return path


def images_of(folder, scan, pipeline):
    """[phase, y, x]: magnitudes; and maps of the g-factor, where they are asked for."""
    (folder / "pipeline.yaml").write_text(pipeline)
    (folder / "images.h5").unlink(missing_ok=True)
    result = run_client("recon", scan, "-c", folder / "pipeline.yaml", "-o", folder / "images.h5", timeout=600)
    assert result.returncode == 0, result.stderr
    heads, images = scans.read_images(folder / "images.h5")
    assert len(images) == PHASES, result.stdout + result.stderr
    with h5py.File(folder / "images.h5") as file:
        maps = [name for name in file["dataset"] if name.startswith("image") and name != "image_1"]
    maps = np.abs(scans.read_images(folder / "images.h5", maps[0])[1][:, 0, 0]) if maps else None
    return np.abs(images[np.argsort(heads["phase"])][:, 0, 0]).astype(float), maps


def gated(fill="linear", g_factor=False):
    text = plain_variant("cartesian_cine_ecg", completes=True).replace("fill: linear", f"fill: {fill}")
    return text.replace("otherwise: transform", "otherwise: refuse, g_factor: true") if g_factor else text


def nrmse(images, truth, mask=True):
    mask = np.broadcast_to(mask, truth.shape)
    images, truth = images[mask], truth[mask]
    return float(np.linalg.norm(images * (images @ truth / (images @ images)) - truth) / np.linalg.norm(truth))


def aliasing(folder):
    missed = False
    print("aliasing energy, % of the image's: fill linear; nearest")
    for acceleration in (1, 2, 3, 4):
        for pattern in list(PATTERNS)[: 1 if acceleration == 1 else None]:
            scan = scan_of(folder, acceleration, pattern)
            truth = np.array(truths(scan))
            found = [100 * nrmse(images_of(folder, scan, gated(fill))[0], truth) ** 2 for fill in ("linear", "nearest")]
            missed |= found[0] > 3
            print(f"  R={acceleration} {pattern if acceleration > 1 else 'full'}: {found[0]:.3f}; {found[1]:.3f}", flush=True)
    return missed


def noise(folder):
    missed = False
    truth = np.array(truths(scan_of(folder, 1, "one lattice", NOISE)))
    body = truth > 0.05 * truth.max()
    full = nrmse(images_of(folder, scan_of(folder, 1, "one lattice", NOISE), gated())[0], truth, body)
    print(f"noise: NRMSE of the full scan {full:.4f}")
    for acceleration in (2, 3):
        for pattern in PATTERNS:
            scan = scan_of(folder, acceleration, pattern, NOISE)
            images, maps = images_of(folder, scan, gated(g_factor=True))
            found = nrmse(images, truth, body)
            if pattern == "one lattice":  # the other one's images hold lines of all lattices
                g = np.sqrt(np.mean(maps[0][body.all(axis=0)] ** 2))
            share = found / (np.sqrt(acceleration) * full)
            missed |= share > 1.15 * g
            print(f"  R={acceleration} {pattern}: NRMSE {found:.4f}, {share:.3f} of sqrt(R) times the full scan's; g {g:.3f}", flush=True)
    return missed


def low_rank(folder):
    """BART gets the mean of the lines of each phase, binned here, and maps of `bart ecalib` from the mean over the phases."""
    missed = False
    for acceleration in (3, 6):
        scan = scan_of(folder, acceleration, "moving lattice", NOISE)
        truth = np.array(truths(scan))
        body = truth > 0.05 * truth.max()
        _, heads, _, data = scans.read_acquisitions(scan)
        kspace, counts, _ = own_binning(heads, data, marked_triggers(read_ecg(scan)), (COILS, N, N))
        came = counts > 0
        kspace /= N
        mean = np.sum(kspace * counts[:, None, :, None], axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None]
        write_cfl(folder / "mean", mean, [N, N, 1, COILS])
        bart(folder, "ecalib", "-m1", f"-r{REFERENCES}", "-c0.8", "mean", "maps")
        write_cfl(folder / "data", kspace, [N, N, 1, COILS, *[1] * 6, PHASES])
        write_cfl(folder / "weights", np.broadcast_to(came[:, :, None], (PHASES, N, N)), [N, N, 1, 1, *[1] * 6, PHASES])
        maps = np.fromfile(folder / "maps.cfl", np.complex64).reshape(COILS, N, N)
        axes = (-2, -1)
        adjoint = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=axes), axes=axes, norm="ortho"), axes=axes)
        brightest = np.abs(np.sum(maps.conj() * adjoint, axis=1)).max()
        found = {"ours": [], "bart": []}
        for part in LAMBDAS:
            text = plain_variant("cartesian_cine_low_rank", ("lambda: 0.005", f"lambda: {part}"))
            found["ours"].append(nrmse(images_of(folder, scan, text)[0], truth, body))
            bart(folder, "pics", "-w", 1, "-i", 100, "-p", "weights", "-n", "-b", 8, "-R", f"L:7:7:{part * brightest}",
                 "data", "maps", "image")  # fmt: skip
            image = np.fromfile(folder / "image.cfl", np.complex64).reshape(PHASES, N, N)
            found["bart"].append(nrmse(np.abs(image).astype(float), truth, body))
        grappa = nrmse(images_of(folder, scan, gated())[0], truth, body)
        missed |= min(found["ours"]) > 1.01 * min(found["bart"])
        print(f"low rank, R={acceleration}: NRMSE {grappa:.4f} of cartesian_cine_ecg; by lambda {LAMBDAS}:")
        for name, values in found.items():
            print(f"  {name}: " + " ".join(f"{value:.4f}" for value in values), flush=True)
    return missed


CASES = {"aliasing": aliasing, "noise": noise, "low_rank": low_rank}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        missed = [CASES[name](pathlib.Path(folder)) for name in arguments.cases]
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
