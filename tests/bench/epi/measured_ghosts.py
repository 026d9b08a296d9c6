"""Ghost over object of measured EPI scans, by epi_2d over TCP, for docs/epi.md:

    ECHOTRAIN_BIN_DIR=build/bin python3 tests/bench/epi/measured_ghosts.py [--backend cpu] [--picture docs/epi.png]

Columns: lines only turned (the mask is that of the corrected image), a straight line without looking for the gradient's
delay, and the methods of epi_phase_correction with it. The picture shows ramp96_forward before and after, the second
row six times as bright; it needs scipy.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

for place in ("integration/support", "bench"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / place))
import ghosts  # noqa: E402
import scans  # noqa: E402
from programs import DATA, Server, plain_variant  # noqa: E402

NAMES = [f"{scan}_{way}" for scan in ("ro1200", "ro240", "ramp96") for way in ("forward", "reversed")]
GIVEN = ("delay: navigators", "delay: given")
METHODS = {
    "none, given": (GIVEN, ("method: linear ", "method: none ")),
    "linear, given": (GIVEN,),
    "linear": (),
    "pointwise": (("method: linear ", "method: pointwise "),),
    "linear, entropy": (("refine: none ", "refine: entropy "),),
}


def reconstruct(server, folder, name, backend, changes):
    config = folder / "epi.yaml"
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}"), *changes))
    result = server.send(DATA / f"epi_pulseq_pe_polarity/{name}.h5", config, folder / "images.h5")
    if result.returncode != 0:
        sys.exit(result.stderr)
    return np.asarray(scans.read_images(folder / "images.h5")[1][0], np.float64).squeeze()


def picture(path, before, after):
    from measured_pictures import write_png

    top = np.percentile(after, 99)
    rows = [np.hstack([image / top * bright for image in (before, after)]) for bright in (1, 6)]
    write_png(path, np.kron(np.vstack(rows), np.ones((3, 3))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--picture", type=pathlib.Path)
    arguments = parser.parse_args()
    print(f"| scan | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = Server(folder)
        try:
            for scan in NAMES:
                images = {m: reconstruct(server, folder, scan, arguments.backend, c) for m, c in METHODS.items()}
                mask = ghosts.object_mask(images["linear"])
                levels = [
                    ghosts.ghost_level(image, mask if method == "none, given" else None)
                    for method, image in images.items()
                ]
                print(f"| {scan} | {' | '.join(f'{level:.4f}' for level in levels)} |", flush=True)
                if arguments.picture and scan == "ramp96_forward":
                    picture(arguments.picture, images["none, given"], images["linear"])
        finally:
            server.stop()


if __name__ == "__main__":
    main()
