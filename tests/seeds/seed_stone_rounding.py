"""What rounding of F^H d does to the image, for docs/seeds.md, row S29: percent error of 60 iterations of conjugate
gradients with Tikhonov's prior, in float64, from an F^H d that errs by a given amount.

    python3 tests/seeds/seed_stone_rounding.py [build/bin/echotrain]        prints a Markdown table; a minute

The scan is that of seed_stone.cc at 32^3 (67 readouts of 66 samples, as many per voxel as the seed's 284,592 at 128^3),
the second contrast, without noise; its truth is limited to the sampled ball. F^H d and Q are plain sums in float64.
Errors are white; "fp32" is the sum of the GPU versions, sample after sample in fp32: its error grows with the samples.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration" / "support"))
import reference  # noqa: E402
import scans  # noqa: E402

MATRIX, READOUTS, SAMPLES, ITERATIONS = 32, 67, 66, 60
ERRORS, WEIGHTS = (0, 1e-6, 1e-5, 3e-5), (1e-5, 1e-4, 1e-3)


def adjoint(k, d, n):
    """sum_m d_m exp(2 pi i k_m.r) on a cube of n voxels a side: [z, y, x]."""
    at = np.arange(n) - n // 2
    along_x, along_y, along_z = (np.exp(2j * np.pi * np.outer(at, k[:, axis])) for axis in range(3))
    total = np.zeros((n, n * n), complex)
    for first in range(0, len(d), 512):
        part = slice(first, first + 512)
        plane = (along_y[:, None, part] * along_x[None, :, part]).reshape(n * n, -1)
        total += (along_z[:, part] * d[part]) @ plane.T
    return total.reshape(n, n, n)


def adjoint_in_fp32(k, d, n):
    """The same, every voxel's sum sample after sample in fp32."""
    z, y, x = (axis.ravel().astype(np.float32) for axis in np.indices((n, n, n)) - n // 2)
    re, im = np.zeros(n**3, np.float32), np.zeros(n**3, np.float32)
    for (kx, ky, kz), value in zip(k.astype(np.float32), d.astype(np.complex64)):
        angle = np.float32(2 * np.pi) * (kx * x + ky * y + kz * z)
        cosine, sine = np.cos(angle), np.sin(angle)
        re += value.real * cosine - value.imag * sine
        im += value.imag * cosine + value.real * sine
    return (re + 1j * im).astype(complex).reshape(n, n, n)


class Normal:
    """F^H F by its convolution kernel Q."""

    def __init__(self, k, n):
        self.n, self.q = n, np.fft.fftn(np.fft.ifftshift(adjoint(k, np.ones(len(k)), 2 * n)))
        image = 1 + np.random.default_rng(0).standard_normal((n, n, n))
        for _ in range(30):
            image = self(image)
            self.largest = np.linalg.norm(image)
            image /= self.largest

    def __call__(self, image):
        padded = np.zeros((2 * self.n,) * 3, complex)
        padded[: self.n, : self.n, : self.n] = image
        return np.fft.ifftn(np.fft.fftn(padded) * self.q)[: self.n, : self.n, : self.n]


def solved(normal, b, weight):
    image, residual = np.zeros_like(b), b.copy()
    direction, size = residual.copy(), np.vdot(residual, residual).real
    for _ in range(ITERATIONS):
        product = normal(direction) + weight * normal.largest * direction
        step = size / np.vdot(direction, product).real
        image += step * direction
        residual -= step * product
        size, before = np.vdot(residual, residual).real, size
        direction = residual + size / before * direction
    return np.abs(image)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/bin/echotrain"
    with tempfile.TemporaryDirectory() as folder:
        scan = pathlib.Path(folder) / "scan.h5"
        size = f"--matrix {MATRIX} --readouts {READOUTS} --samples {SAMPLES} --coils 1 --contrasts 2".split()
        command = [program, "simulate", "-o", scan, "--trajectory", "kooshball", "--phantom", "ellipsoids_3d", *size]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _, heads, trajectories, data = scans.read_acquisitions(scan)
        truth = scans.read_array(scan, "truth_1").astype(float)
    second = [i for i, head in enumerate(heads) if head["idx"]["contrast"] == 1]
    k = np.concatenate([trajectories[i] for i in second]).astype(float)
    d = np.concatenate([data[i][0] for i in second]).astype(complex)
    exact, normal = adjoint(k, d, MATRIX), Normal(k, MATRIX)
    random = np.random.default_rng(1)
    white = random.standard_normal(exact.shape) + 1j * random.standard_normal(exact.shape)
    white *= np.linalg.norm(exact) / np.linalg.norm(white)
    sums = {f"{error:g}": exact + error * white for error in ERRORS}
    in_fp32 = adjoint_in_fp32(k, d, MATRIX)
    sums[f"fp32 ({reference.nrmse(in_fp32, exact):.1e})"] = in_fp32
    print("| lambda | " + " | ".join(f"error of F^H d: {name}" for name in sums) + " |\n|" + "---|" * (1 + len(sums)))
    for weight in WEIGHTS:
        cells = (f"{100 * reference.nrmse(solved(normal, b, weight), truth):.2f} %" for b in sums.values())
        print(f"| {weight:g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
