"""The images' truth: plain float64 transforms that share no code with the programs under test.

Conventions: image voxel r has index r + floor(n/2) on each axis, and so has k = 0; k is in cycles/pixel, component 0
along x; images are [coil, z, y, x] or [coil, y, x].
"""

import numpy as np


def nrmse(image, truth):
    """||image - truth|| / ||truth||, without any fitted scale."""
    image, truth = np.asarray(image), np.asarray(truth)
    assert image.shape == truth.shape, f"{image.shape} against {truth.shape}"
    return float(np.linalg.norm(image - truth) / np.linalg.norm(truth))


def real_scale(image, truth):
    """The real factor that brings `image` closest to `truth`."""
    return float(np.vdot(image, truth).real / np.vdot(image, image).real)


def rss(images):
    return np.sqrt(np.sum(np.abs(images) ** 2, axis=0))


def sobel(image):
    """|gradient| of the magnitudes of a plane, by Sobel's kernels; borders are replicated."""
    image = np.abs(np.asarray(image, np.complex128))
    padded = np.pad(image, 1, mode="edge")
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8

    def along(weights):
        rows, columns = image.shape
        return sum(weights[i, j] * padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3))

    return np.hypot(along(kernel), along(kernel.T))


def spectrum(image):
    """sum m exp(-2 pi i k.r) over the last two axes."""
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image, axes=axes), axes=axes), axes=axes)


def picture(kspace):
    """(1/N) sum d exp(+2 pi i k.r) over the last two axes."""
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=axes), axes=axes), axes=axes)


def centred_fft(kspace, recon_x):
    """The picture of kspace [coil, y, x], its middle `recon_x` columns."""
    images = picture(np.asarray(kspace, np.complex128))
    first = images.shape[2] // 2 - recon_x // 2
    return images[:, :, first : first + recon_x]


def _axis(n):
    return np.arange(n) - n // 2


def _contract(k, values, n):
    """sum_s exp(2 pi i k_s r) values[s, m] for r of an axis of n voxels: [r, m].

    cos is even and sin odd in r, so only r >= 0 is summed, with real factors: half the work of a complex product.
    """
    half = np.arange(n // 2 + 1)
    phase = 2 * np.pi * np.outer(half, k)
    real = np.concatenate([np.cos(phase), np.sin(phase)]) @ np.ascontiguousarray(values).view(np.float64)
    even, odd = (part.view(np.complex128) for part in np.split(real, 2))
    r = _axis(n)
    return even[np.abs(r)] + 1j * np.sign(r)[:, None] * odd[np.abs(r)]


def direct_sum_2d(k, weighted, shape, block=2048):
    """sum_s weighted[s, coil] exp(2 pi i k_s.r): [coil, y, x]. k: [s, 2]; shape: (y, x)."""
    k, weighted = np.asarray(k, np.float64), np.asarray(weighted, np.complex128)
    ny, nx = shape
    coils = weighted.shape[1]
    total = np.zeros((ny, coils * nx), np.complex128)
    for s in range(0, len(k), block):
        part = slice(s, s + block)
        along_x = np.exp(2j * np.pi * np.outer(k[part, 0], _axis(nx)))
        values = (weighted[part, :, None] * along_x[:, None, :]).reshape(-1, coils * nx)
        total += _contract(k[part, 1], values, ny)
    return total.reshape(ny, coils, nx).transpose(1, 0, 2)


def direct_sum_3d(k, weighted, n, columns, block=1024):
    """One coil, a cube of n voxels a side, all z of the given columns (y index, x index): [z, column]."""
    k, weighted = np.asarray(k, np.float64), np.asarray(weighted, np.complex128)
    y, x = (_axis(n)[np.asarray(index)] for index in columns)
    total = np.zeros((n, len(x)), np.complex128)
    for s in range(0, len(k), block):
        part = slice(s, s + block)
        along_x = np.exp(2j * np.pi * np.outer(k[part, 0], _axis(n)))
        along_y = np.exp(2j * np.pi * np.outer(k[part, 1], _axis(n))) * weighted[part, None]
        total += _contract(k[part, 2], along_x[:, x + n // 2] * along_y[:, y + n // 2], n)
    return total


def whitening(noise, dwell_ratio=1.0, bandwidth=1.0):
    """noise: [coil, sample] -> [coil, coil] that makes the noise of imaging data unit and uncorrelated.

    C = L L^H is the covariance of complex noise; sqrt(2) makes real and imaginary part have variance 1 each. Noise
    power goes with the receiver's bandwidth: imaging / noise = (noise dwell / imaging dwell) / relative bandwidth.
    Source: Kellman & McVeigh, MRM 54, 2005.
    """
    noise = np.asarray(noise, np.complex128)
    covariance = noise @ noise.conj().T / (noise.shape[1] - 1)
    scale = dwell_ratio / bandwidth
    return np.sqrt(2 / scale) * np.linalg.inv(np.linalg.cholesky(covariance))
