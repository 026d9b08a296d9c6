"""sigpy's part of poisson_brain.py and series.py: `python sigpy_peer.py IN.npz OUT.npy ITERATION...`, with a Python that has sigpy.

Images after each of the given iterations go to OUT [iteration, ...]; for each, a line with seconds and seconds of the processor
since IN was read.

- kind wavelet: `sigpy.mri.app.L1WaveletRecon`, total_variation: the primal-dual hybrid gradient method, as sigpy's own
  TotalVariationRecon has it, with the isotropic norm; kspace and maps [coil, y, x], weight.
- kind grasp: the same method with differences along frames; k [frame, readout, sample, 2] in cycles/pixel, data [frame, readout,
  coil, sample], w [frame, readout, sample], maps, weight. sigpy's transform is the plain sum over the image's extent n: with
  weights n^2 w its image is n x, and J n^2 J.
"""

import sys
import time

import numpy as np
import sigpy as sp
from sigpy.mri.app import L1WaveletRecon
from sigpy.mri.linop import Sense


class Isotropic(sp.prox.Prox):
    """The proximal map of weight times the sum of the norms over the first axis."""

    def __init__(self, shape, weight):
        self.weight = weight
        super().__init__(shape)

    def _prox(self, alpha, x):
        size = np.sqrt(np.sum(np.abs(x) ** 2, axis=0))
        return x * np.maximum(0, 1 - self.weight * alpha / np.maximum(size, 1e-30))


def grasp(given, iterations):
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
    return n, sp.app.LinearLeastSquares(operator, measured, proxg=prior, G=differences, max_iter=iterations, show_pbar=False)


def still(given, kind, iterations):
    kspace, maps, weight = given["kspace"], given["maps"], float(given["weight"])
    if kind == "wavelet":
        return 1, L1WaveletRecon(kspace, maps, weight, wave_name="db2", max_iter=iterations, show_pbar=False)
    differences = sp.linop.FiniteDifference(kspace.shape[1:])
    operator = Sense(maps, weights=(np.abs(kspace).sum(axis=0) > 0).astype(np.float32))
    return 1, sp.app.LinearLeastSquares(operator, kspace, proxg=Isotropic(differences.oshape, weight), G=differences,
                                        max_iter=iterations, show_pbar=False)  # fmt: skip


def main():
    loaded = np.load(sys.argv[1])
    given, kind = {name: loaded[name] for name in loaded.files}, str(loaded["kind"])
    wanted, images = sorted(map(int, sys.argv[3:])), []
    begin, processor = time.perf_counter(), time.process_time()
    factor, app = grasp(given, wanted[-1]) if kind == "grasp" else still(given, kind, wanted[-1])

    def keep():
        if app.alg.iter in wanted:
            images.append(app.x / factor)
            print(time.perf_counter() - begin, time.process_time() - processor, flush=True)

    app._post_update = keep
    app.run()
    np.save(sys.argv[2], images)


if __name__ == "__main__":
    main()
