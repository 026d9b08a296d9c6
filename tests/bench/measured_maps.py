"""Maps of measured images by a server, beside those that others made of them (../shared/data):

    python3 tests/bench/measured_maps.py build/bin [--backend cpu|cuda]

    python3 tests/bench/measured_maps.py --make FOLDER       only writes NAME.h5 and NAME.yaml, for a machine that has no Python;
    python3 tests/bench/measured_maps.py --compare FOLDER    there `echotrain send NAME.h5 -c NAME.yaml -o NAME_map.h5`

T1 of a phantom by inversion recovery, of complex images and of magnitudes, against the published maps (Barral et al., MRM 64,
2010) within their mask, 230 to 307 ms; T2 of a brain by spin echoes against the scanner's own map, a peer and no truth, where
this is 20 to 200 ms. Prints the median, the 95th and the 99th percentile of the absolute difference.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import ismrmrd
import numpy as np

DATA = pathlib.Path(os.environ.get("ECHOTRAIN_DATA") or pathlib.Path(__file__).resolve().parents[2].parent / "shared/data")


def cases():
    """Gives each map: its name, gadget, parameters, images, the map to compare with, where, and the unit of the difference."""
    file = h5py.File(DATA / "t1_inversion_recovery/phantom.h5")
    times = file["ti_ms"][:].tolist()
    images = file["real"][:] + 1j * file["imaginary"][:]
    images[times.index(50)] *= -1  # this picture has the opposite sign (data README)
    for kind, arrays, signal in (("complex", images, "complex"), ("magnitude", file["magnitude"][:], "magnitude")):
        truth = file[f"published_t1_{kind}"][:]
        where = (file["mask"][:] > 0) & (truth > 230) & (truth < 307)
        yield f"t1_{kind}", "t1_map", f"signal: {signal}, times_ms: {times}", arrays, truth, where, "ms"
    file = h5py.File(DATA / "t2_lookLocker_dicom/IM_002.h5")
    echoes, scanner = file["magnitude"][:], file["vendor_t2"][:].astype(float)
    scanner = scanner * file.attrs["vendor_t2_slope"] + file.attrs["vendor_t2_intercept"]
    where = (scanner > 20) & (scanner < 200) & (echoes[0] > 0.1 * echoes[0].max())
    yield "t2", "t2_map", f"times_ms: {file['te_ms'][:].tolist()}", echoes, scanner, where, "%"


def make(folder):
    for name, gadget, parameters, images, *_ in cases():
        with ismrmrd.Dataset(str(folder / f"{name}.h5"), "dataset", create_if_needed=True) as file:
            file.write_xml_header(b"Dummy XML header")
            for number, image in enumerate(images):
                one = ismrmrd.Image.from_array(image.astype(np.complex64)[None, None], transpose=False)
                one.set = number
                file.append_image("image_1", one)
        (folder / f"{name}.yaml").write_text(
            f"echotrain: 1\nname: {name}\ndescription: a map\ninput: images\npipeline:\n"
            f"  - {gadget}: {{refit: false, over: set, {parameters}}}\n  - image: {{component: real, type: float}}\n")


def compare(folder):
    for name, _, _, _, truth, where, unit in cases():
        with ismrmrd.Dataset(str(folder / f"{name}_map.h5"), "dataset") as file:
            found = file.read_image("image_0", 0).data[0, 0]
        apart = np.abs(found - truth)[where] * (1 if unit == "ms" else 100 / truth[where])
        median, most, nearly_all = np.percentile(apart, [50, 95, 99])
        print(f"{name:14}{where.sum():7} voxels, {np.mean(found[where] == 0):.2%} without a value: median {median:.3g}, "
              f"95 % {most:.3g}, 99 % {nearly_all:.3g} {unit}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("programs", nargs="?", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    options = parser.parse_args()
    if options.make or options.compare:
        return make(options.make) if options.make else compare(options.compare)
    if not options.programs:
        parser.error("say the folder of the programs")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        make(folder)
        server = subprocess.Popen([options.programs / "echotrain-server", "--port", "9417", "--backend", options.backend],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(2)
            for name, *_ in cases():
                subprocess.run([options.programs / "echotrain", "send", folder / f"{name}.h5", "-p", "9417", "-c",
                                folder / f"{name}.yaml", "-o", folder / f"{name}_map.h5"], check=True, stdout=sys.stderr)
        finally:
            server.terminate()
            server.wait()
        compare(folder)


if __name__ == "__main__":
    main()
