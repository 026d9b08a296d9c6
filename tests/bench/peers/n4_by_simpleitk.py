#!/usr/bin/env python3
"""Prints the bias field that SimpleITK's N4 finds in the head of bias_field_test.cc, at each 8th voxel (pip install SimpleITK numpy).

    n4_by_simpleitk.py NX NY NZ [EVERY]
"""

import sys

import numpy as np
import SimpleITK as sitk


def inside(distance):
    return 1 / (1 + np.exp(distance / 0.03))


def head(nx, ny, nz):
    z, y, x = np.mgrid[:nz, :ny, :nx].astype(float)
    u, v, w = (x - nx / 2) / (nx / 2), (y - ny / 2) / (ny / 2), (z - nz / 2) / (nz / 2) if nz > 1 else 0 * z
    r, angle = np.sqrt((u / 0.8) ** 2 + (v / 0.9) ** 2 + (w / 1.2) ** 2), np.arctan2(v, u)
    tissue = 0.6 * inside(r - 1) + 0.25 * inside(r - 0.8 - 0.07 * np.sin(7 * angle)) - 0.5 * inside(r - 0.25)
    return tissue * np.exp(0.6 * u - 0.35 * v + 0.45 * u * u - 0.4 * u * v + 0.35 * v * v + 0.3 * w)


def main():
    nx, ny, nz = (int(a) for a in sys.argv[1:4])
    every = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    image = head(nx, ny, nz).astype(np.float32)
    if nz == 1:
        image = image[0]
    strong = np.partition(image.ravel(), image.size * 99 // 100)[image.size * 99 // 100]
    mask = image >= 0.1 * strong
    n4 = sitk.N4BiasFieldCorrectionImageFilter()  # by default four levels of 50 iterations, 200 bins, 0.15, 0.01, 0.001
    itk = sitk.GetImageFromArray(image)
    n4.Execute(itk, sitk.GetImageFromArray(mask.astype(np.uint8)))
    field = np.exp(sitk.GetArrayFromImage(n4.GetLogBiasFieldAsImage(itk)))
    field = field / field[mask].mean()
    part = field[tuple(slice(every // 2, None, every) for _ in field.shape)].ravel()
    print(", ".join(f"{value:.6f}" for value in part))


if __name__ == "__main__":
    main()
