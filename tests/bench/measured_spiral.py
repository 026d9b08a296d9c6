"""A measured spiral with and without its field map, over TCP, for docs/off_resonance.md:

    ECHOTRAIN_BIN_DIR=build/bin python3 tests/bench/measured_spiral.py [--backend cpu] [--picture docs/off_resonance.png]

The scan is spiral_b0_octopus (docs/data.md). Sharpness is the mean magnitude of the image's gradient (central differences)
over the mean of the image, both over the phantom: the image without a map above 0.2 of its 99th percentile, with holes
filled. The map is used as it was measured, by its median over the phantom, with the opposite sign, and 0 everywhere.
`pcg` is the iterative way. The picture shows spiral_2d, the conjugate phase, and pcg; it needs scipy.
"""

import argparse
import pathlib
import sys
import tempfile

import ismrmrd
import numpy as np
from scipy import ndimage

for place in ("integration/support", "bench"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / place))
import scans  # noqa: E402
from programs import DATA, Server, variant  # noqa: E402

FOLDER = DATA / "spiral_b0_octopus"
FIELD = "field: {accuracy: 1e-3,"
ITERATIVE = """echotrain: 1
name: spiral_off_resonance_pcg
description: the iterative way
backend: BACKEND
pipeline:
  - noise_adjust
  - coil_compression: {channels: 8}
  - density_compensation: {method: from_data}
  - fhd: {accuracy: 1e-4, off_resonance: CORRECTED, field: {accuracy: 1e-3FILE}}
  - coil_maps: {method: adaptive}
  - pcg: {iterations: 10, tolerance: 1e-4, prior: tikhonov, lambda: 0.01}
  - image: {component: magnitude, type: float}
"""


def save_map(path, hz):
    """[y, x] in Hz as an ISMRMRD file of one image."""
    dataset = ismrmrd.Dataset(path, "dataset", create_if_needed=True)
    dataset.append_image("map", ismrmrd.Image.from_array(hz.astype(np.float32)[None, None], transpose=False))
    dataset.close()


def configs(backend):
    plain = variant("spiral_2d", ("backend: auto", f"backend: {backend}"))
    corrected = {name: variant("spiral_off_resonance", ("backend: auto", f"backend: {backend}"),
                               (FIELD, FIELD.replace("{", f"{{file: {name}.h5, ")))
                 for name in ("measured", "median", "negative", "zero")}  # fmt: skip
    iterative = ITERATIVE.replace("BACKEND", backend)
    return {
        "spiral_2d, no map": plain,
        "conjugate phase": corrected["measured"],
        "conjugate phase, the map's median everywhere": corrected["median"],
        "conjugate phase, the map's negative": corrected["negative"],
        "conjugate phase, a map of 0": corrected["zero"],
        "pcg, no map": iterative.replace("CORRECTED", "false").replace("FILE", ""),
        "pcg": iterative.replace("CORRECTED", "true").replace("FILE", ", file: measured.h5"),
    }


def phantom(image):
    return ndimage.binary_fill_holes(image > 0.2 * np.percentile(image, 99))


def sharpness(image, mask):
    gradient = np.hypot(*np.gradient(image))
    return gradient[mask].mean() / image[mask].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--picture", type=pathlib.Path)
    arguments = parser.parse_args()
    hz = np.load(FOLDER / "fieldmap_hz.npy").T  # its first axis is x
    images = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = Server(folder, "--assets", folder)
        try:
            for way, text in configs(arguments.backend).items():
                (folder / "config.yaml").write_text(text)
                result = server.send(FOLDER / "spiral20.h5", folder / "config.yaml", folder / "images.h5")
                if result.returncode != 0:
                    sys.exit(result.stderr)
                images[way] = np.asarray(scans.read_images(folder / "images.h5")[1][0], np.float64).squeeze()
                (folder / "images.h5").unlink()
                if len(images) == 1:
                    mask = phantom(images[way])
                    median = np.full_like(hz, np.median(hz[mask]))
                    for file, values in (("measured", hz), ("median", median), ("negative", -hz), ("zero", 0 * hz)):
                        save_map(folder / f"{file}.h5", values)
        finally:
            server.stop()
    print("| | sharpness |\n|---|---|")
    for way, image in images.items():
        print(f"| {way} | {sharpness(image, mask):.4f} |")
    if arguments.picture:
        from measured_pictures import write_png

        largest = ndimage.label(mask)[0]
        (cut,) = ndimage.find_objects((largest == np.argmax(np.bincount(largest[mask]))).astype(int))
        shown = [images[way][cut] for way in ("spiral_2d, no map", "conjugate phase", "pcg")]
        write_png(arguments.picture, np.kron(np.hstack([i / np.percentile(i, 99.5) for i in shown]), np.ones((4, 4))))


if __name__ == "__main__":
    main()
