"""The seed's figure 6, reproduced: percent error and PSNR of gridded, Tikhonov and anatomical reconstructions of a
phantom (docs/seeds.md, Stone et al. 2008, sections 4 and 5).

    python3 tests/seeds/seed_stone_quality.py [build/bin]        prints a Markdown table; minutes

The scan: two contrasts of Koay's ellipsoids at 128^3 by 1,078 readouts of 264 samples (284,592), noiseless and with
--noise 88, which raises the gridded image's error by the seed's factor, 47 % / 42 % = 1.119; what it is, is printed. The first contrast is the phantom
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

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "integration" / "support"))
import scans  # noqa: E402

MATRIX, READOUTS, SAMPLES, NOISE = 128, 1078, 264, 88
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
    """The amplitudes of the ellipsoids: the signals of the shell, of the brain in it and of each part in the brain decay."""
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


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/bin").resolve()
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows, gridded = [], []
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = pathlib.Path(name)
        os.environ.setdefault("ECHOTRAIN_CACHE_DIR", str(folder / "cache"))
        limited, sampled = prepare(programs, folder), [sampled_object(echo) for echo in (0, 1)]

        def cells(images, scaled):
            for contrast in (0, 1):
                for truth in (sampled[contrast], limited[contrast]):
                    same = images[contrast] is truth
                    yield "" if same else "{:.1f} %, {:.1f} dB".format(*fidelity(images[contrast], truth, scaled))

        rows.append(["limited truth", "", *cells(limited, False)])
        with Server(programs, folder) as server:
            for method in METHODS:
                for data, noise in (("noiseless", 0), ("noisy", NOISE)):
                    images = reconstructed(server, method, folder, noise)
                    rows.append([method.name, data, *cells(images, method.scaled)])
                    if method.name == "gridded":
                        gridded.append(fidelity(images[0], sampled[0], True)[0])
    rows.append(["seed: gridded", "noiseless", "42 %, 17 dB", "", "", ""])
    rows.append(["seed: gridded", "noisy", "47 %, 16 dB", "", "", ""])
    rows.append(["seed: advanced", "noiseless", "12 to 13 %, 27 to 28 dB", "", "", ""])
    rows.append(["seed: advanced", "noisy", "16 %, 25 dB", "", "", ""])
    print(f"Noisy: --noise {NOISE}, {gridded[1] / gridded[0]:.3f} times the gridded image's error (the seed: {47 / 42:.3f}). First "
          "contrast: Koay's phantom, as in the seed. Truths: sampled, limited.\n")  # fmt: skip
    columns = ["image", "data", "first: sampled", "limited", "second: sampled", "limited"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
