"""Peers of the maps, on noiseless data whose truth is known, and on measured images:

    apt install bart; pip install ismrmrd h5py dipy ukat
    python3 tests/bench/peers/maps_peer.py [build/bin] [--side 32] [--rows FILE]

`bart mobafit` (T2, T2*, ADC; it has no model of inversion), `ukat` (T1, T2, T2*, ADC by SciPy's curve_fit) and `dipy` (ADC by the
mean diffusivity of an isotropic tensor) fit the images that `echotrain recon` maps. Prints the median and the largest relative error of
each against the truth, and the processor time that it took: of whole programs for BART and us, who read and write files, of the call
alone for ukat and dipy. Then the measured images of `../measured_maps.py`, where data are: T1 of a phantom by complex images and by
magnitudes beside the published maps, T2 of a brain beside the scanner's (peers fit every 50th voxel). --rows: for docs/measurements, as JSON, a row a line.
"""

import argparse
import contextlib
import io
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import ismrmrd
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import measured_maps  # noqa: E402

INVERSIONS = np.array([100.0, 180, 260, 400, 700, 1200, 2000, 3000, 4000])
ECHOES = np.array([10.0, 20, 35, 50, 70, 100, 140, 180])
GRADIENT_ECHOES = np.array([2.0, 5, 8, 12, 17, 23, 30])
B = np.array([0.0, 200, 400, 600, 800, 1000])
EVERY = 50  # of so many measured voxels the peers fit one


def processor_s():
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + of_children.ru_utime + of_children.ru_stime


def ours(programs, folder, gadget, parameters, images):
    with ismrmrd.Dataset(str(folder / "in.h5"), "dataset", create_if_needed=True) as file:
        file.write_xml_header(b"Dummy XML header")
        for number, image in enumerate(images):
            one = ismrmrd.Image.from_array(image.astype(np.complex64)[None, None], transpose=False)
            one.set = number
            file.append_image("image_1", one)
    (folder / "map.yaml").write_text(f"echotrain: 1\nname: map\ndescription: a map\ninput: images\npipeline:\n"
                                     f"  - {gadget}: {{refit: false, over: set, {parameters}}}\n"
                                     "  - image: {component: real, type: float}\n")
    begin = processor_s()
    subprocess.run([programs / "echotrain", "recon", folder / "in.h5", "-c", folder / "map.yaml", "-o", folder / "out.h5"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = processor_s() - begin
    with ismrmrd.Dataset(str(folder / "out.h5"), "dataset") as file:
        value = file.read_image("image_0", 0).data[0, 0]
    (folder / "in.h5").unlink()
    (folder / "out.h5").unlink()
    return value, took


def write_cfl(name, array, dimensions):
    pathlib.Path(f"{name}.hdr").write_text("# Dimensions\n" + " ".join(map(str, dimensions)) + "\n")
    array.astype(np.complex64).tofile(f"{name}.cfl")


def bart(folder, model, at, images):
    """The map of mobafit, whose images lie along dimension 5, its coefficients along 6. Rates are per unit of `at`."""
    rows, columns = images[0].shape
    write_cfl(folder / "at", at, [1] * 5 + [len(at)] + [1] * 10)
    write_cfl(folder / "images", images, [columns, rows, 1, 1, 1, len(at)] + [1] * 10)
    begin = processor_s()
    subprocess.run(["bart", "mobafit", *model, "-i", "30", folder / "at", folder / "images", folder / "map"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = processor_s() - begin
    size = [int(n) for n in pathlib.Path(folder / "map.hdr").read_text().split("\n")[1].split()]
    return np.fromfile(folder / "map.cfl", np.complex64).reshape(size[6], rows, columns)[1].real, took


def last(images):
    """The images along the last of four axes."""
    return np.moveaxis(np.asarray(images), 0, -1)[:, :, None]


def ukat(kind, at, images):
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # bars of progress
        warnings.simplefilter("ignore")
        from ukat.mapping.diffusion import ADC
        from ukat.mapping.t1 import T1
        from ukat.mapping.t2 import T2
        from ukat.mapping.t2star import T2Star

        begin = processor_s()
        if kind == "T1":
            value = T1(last(images), at, np.eye(4), parameters=3, multithread=False).t1_map
        elif kind == "T2":
            value = T2(last(images), at, np.eye(4), multithread=False).t2_map
        elif kind == "T2*":
            value = T2Star(last(images), at, np.eye(4), method="2p_exp", multithread=False).t2star_map
        else:
            value = ADC(last(images), np.eye(4), at).adc
    return value[:, :, 0], processor_s() - begin


def dipy(adc):
    from dipy.core.gradients import gradient_table
    from dipy.reconst.dti import TensorModel

    directions = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]) / np.sqrt([1, 1, 1, 2, 2, 2])[:, None]
    b = np.concatenate([[0.0], np.repeat(B[1:], 6)])
    table = gradient_table(b, bvecs=np.concatenate([[[0, 0, 0]], np.tile(directions, (5, 1))]))
    data = np.moveaxis(np.array([np.exp(-one * adc) for one in b]), 0, -1)
    begin = processor_s()
    return TensorModel(table, fit_method="NLLS").fit(data).md, processor_s() - begin


def attempt(missing, name, function, *arguments):
    """What the peer gives; None, and a line, where it is not installed."""
    try:
        return function(*arguments)
    except (FileNotFoundError, ImportError) as error:
        if name not in missing:
            print(f"{name} is not installed: {error}")
        missing.add(name)
        return None


def noiseless(programs, folder, side, rows):
    def grid(low, high):
        return np.geomspace(low, high, side * side).reshape(side, side)

    missing = set()
    cases = []
    for kind, gadget, parameter, at, truth, model, signal in (
        ("T1", "t1_map", "times_ms", INVERSIONS, grid(150, 2500), None, lambda t, m: 1 - 2 * np.exp(-t / m)),
        ("T2", "t2_map", "times_ms", ECHOES, grid(20, 250), ["-T"], lambda t, m: np.exp(-t / m)),
        ("T2*", "t2star_map", "times_ms", GRADIENT_ECHOES, grid(4, 60), ["-G", "-m", "3"], lambda t, m: np.exp(-t / m)),
        ("ADC", "adc_map", "b_s_per_mm2", B, grid(2e-4, 3e-3), ["-D"], lambda b, m: np.exp(-b * m)),
    ):
        images = np.array([signal(one, truth) for one in at])
        found = {"echotrain": ours(programs, folder, gadget, f"{parameter}: {at.tolist()}", images)}
        if model:
            rates = attempt(missing, "bart", bart, folder, model, at * 1e-3, images)
            if rates:
                # Its diffusion fits exp(+b D): D comes with a minus.
                found["BART 0.8.00"] = (-1e-3 * rates[0] if kind == "ADC" else 1e3 / rates[0], rates[1])
        found["ukat"] = attempt(missing, "ukat", ukat, kind, at, images)
        if kind == "ADC":
            found["dipy"] = attempt(missing, "dipy", dipy, truth)
        cases.append((kind, truth, {who: got for who, got in found.items() if got}))
    for kind, truth, found in cases:
        told = {}
        for who, (value, took) in found.items():
            apart = np.abs(value / truth - 1)
            told[who] = {"value": round(1e3 * took), "error": float(f"{apart.max():.2g}")}
            print(f"{kind:4} {who:12} median {np.median(apart):.2g}, largest {apart.max():.2g}, {took:.3f} s of processor time")
        for who in list(told)[1:]:
            rows.append({"table": "maps_peers", "task": f"{kind}/{who}/cpu", "what": f"{kind}, {side}^2, noiseless", "unit": "ms",
                         **told["echotrain"], "asked": "error 1e-3", "met": told["echotrain"]["error"] <= 1e-3,
                         "peer": {"name": who, "options": "processor time", **told[who]}, "command": "maps_peer.py"})  # fmt: skip


def measured(programs, folder):
    for name, gadget, parameters, images, truth, where, unit in measured_maps.cases():
        at = np.array(json.loads(parameters.split("times_ms: ")[1]))
        found = {"echotrain": (ours(programs, folder, gadget, parameters, images)[0][where], truth[where])}
        few = np.flatnonzero(where)[::EVERY]
        lines = images.reshape(len(at), -1)[:, few, None]
        if gadget == "t2_map":
            rates = attempt(set(), "bart", bart, folder, ["-T"], at * 1e-3, lines / lines.max())
            found["BART 0.8.00"] = rates and (1e3 / rates[0], truth.ravel()[few, None])
        # ukat fits real numbers: complex images are turned by the phase of the last one.
        real = (lines * np.exp(-1j * np.angle(lines[-1]))).real if np.iscomplexobj(lines) else lines.astype(float)
        value = attempt(set(), "ukat", ukat, "T1" if gadget == "t1_map" else "T2", at, real)
        found["ukat"] = value and (value[0], truth.ravel()[few, None])
        for who, got in found.items():
            if not got:
                continue
            apart = np.abs(got[0] - got[1]) * (1 if unit == "ms" else 100 / got[1])
            median, most, nearly_all = np.percentile(apart, [50, 95, 99])
            print(f"{name:14} {who:12} {apart.size} voxels: median {median:.3g}, 95 % {most:.3g}, 99 % {nearly_all:.3g} {unit}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("programs", nargs="?", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--rows", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        noiseless(options.programs, pathlib.Path(name), options.side, rows)
        if measured_maps.DATA.exists():
            measured(options.programs, pathlib.Path(name))
    if options.rows:
        options.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
