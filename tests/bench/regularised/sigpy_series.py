"""GRASP by sigpy, for series.py: `python sigpy_series.py IN.npz OUT.npy ITERATIONS`, with a Python that has sigpy.

IN: k [frame, readout, sample, 2] in cycles/pixel, data [frame, readout, coil, sample], w [frame, readout, sample], maps [coil,
y, x], weight. sigpy's transform is the plain sum over the image's extent n: with weights n^2 w its image is n x, and J n^2 J.
The primal-dual hybrid gradient method, as sigpy's own TotalVariationRecon has it, with differences along frames.
"""

import sys

import numpy as np
import sigpy as sp
from sigpy.mri.linop import Sense


def main():
    given, output, iterations = np.load(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    k, data, w, maps = given["k"], given["data"], given["w"], given["maps"].astype(np.complex64)
    frames, n = len(k), maps.shape[-1]
    operators = []
    for f in range(frames):
        at = k[f].reshape(-1, 2)[:, ::-1] * n  # y, x
        one = Sense(maps, coord=at, weights=(n**2 * w[f]).ravel())
        operators.append(sp.linop.Reshape([int(np.prod(one.oshape))], one.oshape) * one * sp.linop.Reshape([n, n], [1, n, n]))
    operator = sp.linop.Diag(operators, iaxis=0, oaxis=0)
    root = n * np.sqrt(w)[:, :, None]
    measured = (data * root).transpose(0, 2, 1, 3).astype(np.complex64).ravel()
    differences = sp.linop.FiniteDifference([frames, n, n], axes=[0])
    prior = sp.prox.L1Reg(differences.oshape, float(given["weight"]) * n)
    images = sp.app.LinearLeastSquares(operator, measured, proxg=prior, G=differences, max_iter=iterations,
                                       show_pbar=False).run()  # fmt: skip
    np.save(output, images / n)


if __name__ == "__main__":
    main()
