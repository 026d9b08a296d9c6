"""The seed's figure 6, reproduced: percent error and PSNR of gridded, Tikhonov and anatomical reconstructions of a
phantom (docs/seeds.md, Stone et al. 2008, sections 4 and 5), and the noise at equal edge sharpness (its section 2.3).

    python3 tests/seeds/seed_stone_quality.py [build/bin]        prints two Markdown tables; needs scipy; minutes

The scan: two contrasts of Koay's ellipsoids at 128^3 by 1,078 readouts of 264 samples (284,592), noiseless and with
--noise 48, which raises the gridded image's error by the seed's factor, 47 % / 42 %. The first contrast is the phantom
as Koay published it, which is the seed's. Every image comes from a server, over TCP; gridded is the shipped pipeline
kooshball_3d, and "anatomical, all contrasts" the shipped anatomical_multi_echo.

- Truth: as in the seed, the object sampled at 128^3 (each voxel the object's value at its centre); beside it the object
  limited to the ball of k-space that the scan samples, which is all that the data hold. The latter's own error against
  the former is the first row, about what an image of the data alone can reach.
- Percent error: RMS error over the truth's RMS, over the whole volume. PSNR: the truth's peak over the RMS error. As in
  the seed, each gridded image is first scaled to fit the truth; the others are not.
- Anatomical priors: edges from the other contrast or from both together, as reconstructed from the same scan. "True
  edges" are what a perfect reference would give: the other contrast is then the true image (limited), measured at every
  point of the Cartesian k-space. Weights are the shipped one or chosen by hand, as in the seed.
- Sharpness: how much of the limited truth's differences between neighbours the noiseless image has, by least squares
  over all of them, in which the edges outweigh the rest. Before noise is compared, the sharper image of the two is
  smoothed by a Gaussian until both are equal. Of the second contrast.
- Noise: variance of noisy minus noiseless image, deep inside the largest structure, where images are scaled to have the
  truth's mean. With artefacts: variance of the noisy image there, in which those of undersampling count too.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
from scipy import ndimage, optimize

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "integration" / "support"))
import scans  # noqa: E402

MATRIX, READOUTS, SAMPLES, NOISE = 128, 1078, 264, 48
FLAT_SIZE, FLAT_RANGE = 7, 0.02  # a cube of so many voxels an edge that varies by less than this part of the peak
SOLVED = """echotrain: 1
name: {name}
description: one way to an image
backend: auto
frame: auto
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {{method: none}}
  - fhd: {{dimensions: 3, method: nufft, accuracy: 1e-4}}
  - pcg: {{iterations: 60, tolerance: 1e-6, {prior}}}
  - coil_combine: {{method: rss}}
  - image: {{component: magnitude, type: float}}
"""


@dataclasses.dataclass
class Method:
    name: str
    pipeline: str
    prior: str = ""  # of a pipeline that is not a shipped one
    scaled: bool = False  # to fit the truth
    reference: str = ""  # what the first contrast is: other or true; empty: contrasts are as scanned


METHODS = [
    Method("gridded", "kooshball_3d", scaled=True),
    Method("Tikhonov", "quality_tikhonov", "prior: tikhonov, lambda: 1e-5"),
    Method("anatomical, other contrast", "quality_other", "prior: anatomical, reference: first_contrast, lambda: 1e-3",
           reference="other"),
    Method("anatomical, all contrasts", "anatomical_multi_echo"),
    Method("anatomical, true edges", "quality_true",
           "prior: anatomical, reference: first_contrast, lambda: 1e-2, edge_strength: 16", reference="true"),
]  # fmt: skip

# Koay, Sarlls, Oezarslan, MRM 58, 2007, table 1, amplitudes halved: amplitude, centre, half axes, degrees about z; and
# the decay of each part's signal from one echo to the next, which is the simulator's.
ELLIPSOIDS = [
    (1.0, (0, 0, 0), (0.69, 0.92, 0.9), 0, 0.5),
    (-0.4, (0, 0, 0), (0.6624, 0.874, 0.88), 0, 0.4),
    (-0.1, (-0.22, 0, -0.25), (0.41, 0.16, 0.21), 108, 0.02),
    (-0.1, (0.22, 0, -0.25), (0.31, 0.11, 0.22), 72, 0.02),
    (0.1, (0, 0.35, -0.25), (0.21, 0.25, 0.5), 0, 0.2),
    (0.1, (0, 0.1, -0.25), (0.046, 0.046, 0.046), 0, 0.3),
    (0.05, (-0.08, -0.65, -0.25), (0.046, 0.023, 0.02), 0, 0.1),
    (0.05, (0.06, -0.65, -0.25), (0.046, 0.023, 0.02), 90, 0.1),
    (0.1, (0.06, -0.105, 0.625), (0.056, 0.04, 0.1), 90, 0.3),
    (-0.1, (0, 0.1, 0.625), (0.056, 0.056, 0.1), 0, 0.05),
]


def amplitudes(echo):
    """Of the ellipsoids: the signals of the shell, of the brain in it and of each part in the brain decay."""
    around, around_now, result = [], [], []
    for i, (amplitude, *_, rate) in enumerate(ELLIPSOIDS):
        signal = sum(around[: min(i, 2)]) + amplitude
        now = signal * np.exp(-echo * rate)
        result.append(now - sum(around_now[: min(i, 2)]))
        around.append(amplitude)
        around_now.append(result[-1])
    return result


def sampled_object(echo, n=MATRIX):
    """The object's value at the centres of the voxels: [z, y, x], y downwards as in images."""
    at = (np.arange(n) - n // 2) / (n / 2)
    z, y, x = np.meshgrid(at, at, at, indexing="ij", sparse=True)
    image = np.zeros((n, n, n))
    for (_, center, axes, degrees, _), amplitude in zip(ELLIPSOIDS, amplitudes(echo)):
        cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        right, front = x - center[0], -y - center[1]
        u, v = (cosine * right + sine * front) / axes[0], (cosine * front - sine * right) / axes[1]
        image[u * u + v * v + ((z - center[2]) / axes[2]) ** 2 <= 1] += amplitude
    return image


def check_object(scan):
    """The scan is of this object: its sample at k = 0 is the integral over all ellipsoids."""
    with h5py.File(scan) as file:
        rows = file["dataset/data"][:2]
    for row in rows:
        parts = amplitudes(int(row["head"]["idx"]["contrast"]))
        volumes = [4 / 3 * np.pi * np.prod(np.array(axes) * MATRIX / 2) for _, _, axes, *_ in ELLIPSOIDS]
        integral = np.dot(parts, volumes)
        assert not row["traj"][:3].any() and abs(row["data"][0] / integral - 1) < 1e-5, "another object than the scan's"


def simulate(folder, path, noise):
    size = f"--matrix {MATRIX} --readouts {READOUTS} --samples {SAMPLES} --coils 1 --contrasts 2"
    command = f"--trajectory kooshball --phantom ellipsoids_3d {size} --noise {noise}".split()
    subprocess.run([folder / "echotrain", "simulate", "-o", path, *command], check=True, stdout=subprocess.DEVNULL)


def with_contrasts_swapped(scan, path):
    shutil.copy(scan, path)
    with h5py.File(path, "r+") as file:
        rows = file["dataset/data"][:]
        assert (rows["head"]["idx"]["contrast"] == np.arange(len(rows)) % 2).all()
        rows["data"][0::2], rows["data"][1::2] = rows["data"][1::2].copy(), rows["data"][0::2].copy()
        file["dataset/data"][:] = rows


def with_true_reference(scan, truth, path):
    """`scan` with its first contrast replaced by the Cartesian k-space of `truth`, in readouts of the same length."""
    shutil.copy(scan, path)
    k = (np.arange(MATRIX) - MATRIX // 2) / MATRIX
    positions = np.stack(np.meshgrid(k, k, k, indexing="ij")[::-1], axis=-1)  # of [z, y, x]: (x, y, z)
    values = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(truth))).astype(np.complex64)
    count = -(-values.size // SAMPLES)
    positions = np.resize(positions.astype(np.float32), (count, SAMPLES * 3))  # the last few are the first once more
    values = np.resize(values, (count, SAMPLES)).view(np.float32)
    with h5py.File(path, "r+") as file:
        rows, xml = file["dataset/data"][:], file["dataset/xml"][0].decode()
        scanned = rows[rows["head"]["idx"]["contrast"] == 1]
        reference = np.repeat(rows[rows["head"]["idx"]["contrast"] == 0][1:2], count)  # neither first nor last
        reference["head"]["idx"]["kspace_encode_step_1"] = np.arange(count)
        for row, at, value in zip(reference, positions, values):
            row["traj"], row["data"] = at, value
        kind = file["dataset/data"].dtype
        del file["dataset/data"], file["dataset/xml"]
        rows = np.concatenate([reference, scanned])
        file["dataset"].create_dataset("data", data=rows, dtype=kind, maxshape=(None,))
        xml = xml.replace(f"<maximum>{READOUTS - 1}</maximum>", f"<maximum>{count - 1}</maximum>")
        file["dataset"].create_dataset("xml", data=[xml], dtype=h5py.string_dtype())


def fidelity(image, truth, scaled):
    """(percent error, PSNR in dB)"""
    scale = np.vdot(image, truth) / np.vdot(image, image) if scaled else 1
    error = np.sqrt(np.mean((scale * image - truth) ** 2))
    return 100 * error / np.sqrt(np.mean(truth**2)), 20 * np.log10(truth.max() / error)


class Pair:
    """A noiseless and a noisy image, in the truth's scale."""

    def __init__(self, clean, noisy, truth, flat):
        scale = truth[flat].mean() / clean[flat].mean()
        self.clean, self.noisy, self.truth, self.flat = scale * clean, scale * noisy, truth, flat

    def smoothed(self, sigma):
        clean, noisy = (ndimage.gaussian_filter(image, sigma) for image in (self.clean, self.noisy))
        return Pair(clean, noisy, self.truth, self.flat)

    def sharpness(self):
        steps = [(np.diff(self.clean, axis=a), np.diff(self.truth, axis=a)) for a in range(3)]
        return sum(np.vdot(mine, true) for mine, true in steps) / sum(np.vdot(true, true) for _, true in steps)

    def variances(self):
        """Variance of noise, and of noise and artefacts."""
        return np.array([np.var((self.noisy - self.clean)[self.flat]), np.var(self.noisy[self.flat])])

    def as_sharp_as(self, sharpness):
        """The image, smoothed if it is the sharper one."""
        if self.sharpness() <= sharpness:
            return self
        sigma = optimize.brentq(lambda s: self.smoothed(s).sharpness() - sharpness, 0, 5, xtol=1e-3)
        return self.smoothed(sigma)


def variance_ratios(pair, gridded):
    """How many times less noise than in the gridded image, at the sharpness of the less sharp of both."""
    sharpness = min(pair.sharpness(), gridded.sharpness())
    return gridded.as_sharp_as(sharpness).variances() / pair.as_sharp_as(sharpness).variances()


def flat_region(truth):
    """The largest structure's inside; structures have one brightness but for ripples of the finite resolution."""
    limit = FLAT_RANGE * truth.max()
    uniform = ndimage.maximum_filter(truth, FLAT_SIZE) - ndimage.minimum_filter(truth, FLAT_SIZE) < limit
    levels, counts = np.unique(np.round(truth[uniform & (truth > 5 * limit)] / limit), return_counts=True)
    return uniform & (np.abs(truth - levels[counts.argmax()] * limit) < limit)


class Server:
    """A server of the shipped pipelines and those of METHODS, and a client of it."""

    def __init__(self, programs, folder):
        self.programs, self.output = programs, folder / "images.h5"
        for method in METHODS:
            if method.prior:
                text = SOLVED.format(name=method.pipeline, prior=method.prior)
                (folder / f"{method.pipeline}.yaml").write_text(text)
        log = folder / "server.log"
        with open(log, "w") as file:
            folders = ["--pipelines", SOURCE / "config" / "pipelines", "--pipelines", folder]
            command = [programs / "echotrain-server", "--port", "0", *folders]
            self.process = subprocess.Popen(command, stdout=file, stderr=file)
        end = time.monotonic() + 60
        while not (found := re.search(r"listening on \S+:(\d+)", log.read_text())):
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SystemExit(f"the server does not listen:\n{log.read_text()}")
            time.sleep(0.05)
        self.port = found[1]

    def images(self, scan, pipeline):
        """{contrast: [z, y, x]}"""
        command = ["send", scan, "-c", pipeline, "-p", self.port, "-o", self.output]
        subprocess.run([self.programs / "echotrain", *command], check=True, stdout=subprocess.DEVNULL)
        heads, pixels = scans.read_images(self.output)
        self.output.unlink()
        return {int(head["contrast"]): image[0].astype(np.float64) for head, image in zip(heads, pixels)}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, *_):
        self.stop()

    def __enter__(self):
        return self


def reconstructed(server, method, folder, noise):
    """Both contrasts' images."""
    if not method.reference:
        return server.images(folder / f"scan{noise}.h5", method.pipeline)
    kinds = {1: "scan", 0: "swapped"} if method.reference == "other" else {1: "true1_", 0: "true0_"}
    return {judged: server.images(folder / f"{kind}{noise}.h5", method.pipeline)[1] for judged, kind in kinds.items()}


def prepare(programs, folder):
    """Simulates all scans; returns the limited truth of each contrast."""
    for noise in (0, NOISE):
        simulate(programs, folder / f"scan{noise}.h5", noise)
        with_contrasts_swapped(folder / f"scan{noise}.h5", folder / f"swapped{noise}.h5")
    check_object(folder / "scan0.h5")
    with h5py.File(folder / "scan0.h5") as file:
        limited = [file[f"dataset/{name}"][:].astype(np.float64) for name in ("truth", "truth_1")]
    for noise in (0, NOISE):
        for judged, kind in enumerate(("swapped", "scan")):
            with_true_reference(folder / f"{kind}{noise}.h5", limited[judged], folder / f"true{judged}_{noise}.h5")
    return limited


def table(columns, rows):
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/bin").resolve()
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows, pairs = [], []
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = pathlib.Path(name)
        os.environ.setdefault("ECHOTRAIN_CACHE_DIR", str(folder / "cache"))
        limited, sampled = prepare(programs, folder), [sampled_object(echo) for echo in (0, 1)]
        flat = flat_region(limited[1])

        def cells(images, scaled):
            for contrast in (0, 1):
                for truth in (sampled[contrast], limited[contrast]):
                    same = images[contrast] is truth
                    yield "" if same else "{:.1f} %, {:.1f} dB".format(*fidelity(images[contrast], truth, scaled))

        rows.append(["limited truth", "", *cells(limited, False)])
        with Server(programs, folder) as server:
            for method in METHODS:
                clean, noisy = (reconstructed(server, method, folder, noise) for noise in (0, NOISE))
                rows.append([method.name, "noiseless", *cells(clean, method.scaled)])
                rows.append([method.name, "noisy", *cells(noisy, method.scaled)])
                pairs.append((method.name, Pair(clean[1], noisy[1], limited[1], flat)))
    rows.append(["seed: gridded", "noiseless", "42 %, 17 dB", "", "", ""])
    rows.append(["seed: gridded", "noisy", "47 %, 16 dB", "", "", ""])
    rows.append(["seed: advanced", "noiseless", "12 to 13 %, 27 to 28 dB", "", "", ""])
    rows.append(["seed: advanced", "noisy", "16 %, 25 dB", "", "", ""])
    print(f"Noisy: --noise {NOISE}. First contrast: Koay's phantom, as in the seed. Truths: sampled, limited.\n")
    table(["image", "data", "first: sampled", "limited", "second: sampled", "limited"], rows)
    print(f"Flat region of the second contrast: {flat.sum()} voxels. Variances: gridded over this.\n")
    gridded = pairs[0][1]
    columns = ["noise of", "sharpness", "noise variance, equally sharp", "with artefacts"]
    table(columns, ([name, f"{pair.sharpness():.2f}", *(f"{ratio:.3g}" for ratio in variance_ratios(pair, gridded))]
                    for name, pair in pairs))  # fmt: skip


if __name__ == "__main__":
    main()
