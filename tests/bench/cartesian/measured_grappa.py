"""`grappa` and `sense` on measured data of which lines were left out: a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_grappa.py build/bin/echotrain [SCAN...]

For each scan, an ISMRMRD file of the lines that are kept, its reference lines sent before them, goes through
`echotrain recon`. "rss": coil images of k-space kernels, their root sum of squares against that of the whole k-space,
with one real factor. "combined": the image that is sent, complex, with one complex factor, against the whole k-space
joined by the same maps: the same file with all lines, of which all are then put back. All pixels. Scans:

    und2x2      espirit_examples: one plane of a volume, both axes accelerated by 2, calibration 20 x 20
    brain16     lines 36 to 59 of 96 kept, R = 2, 3 and 4
    headcoil16  lines 52 to 75 of 128 kept, R = 2 and 3;  se32: lines 20 to 43 of 64, R = 2 and 3, 32 coils.
                Parameters are chosen on these two (`--set` tries others), never on the first two.

`--set kernel_y=2` (`kernel_x`, `regularization`, ..) changes the gadget's parameters. `--backend cuda` is for a GPU.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/support"))
import scans  # noqa: E402
import wire  # noqa: E402
from programs import DATA  # noqa: E402

CALIBRATION = 1 << 19
# The largest errors allowed: rss, combined.
ASKED = {
    "und2x2": (0.065, 0.085),
    "brain16 R=2": (0.0042, None),
    "brain16 R=3": (0.0097, None),
    "brain16 R=4": (0.0175, None),
}
PIPELINE = """echotrain: 1
name: measured
description: Measured data
pipeline:
  - cartesian_kspace
  - {gadget}
  - coil_combine: {{method: {combine}}}
  - image: {{component: {component}}}
"""


def read_cfl(name):
    """[..., y, x]: slowest axis first, without axes of one point."""
    dims = [int(n) for n in pathlib.Path(f"{name}.hdr").read_text().splitlines()[1].split()]
    return np.fromfile(f"{name}.cfl", np.complex64).reshape(dims[::-1]).squeeze()


def whole_2d(name):
    """[coil, z, y, x] of an ISMRMRD file of one plane without undersampling."""
    _, heads, _, data = scans.read_acquisitions(DATA / name)
    kspace = np.zeros((data[0].shape[0], 1, len(data), data[0].shape[1]), np.complex64)
    for head, line in zip(heads, data):
        kspace[:, 0, int(head["idx"]["kspace_encode_step_1"])] = line
    return kspace


def header(shape, steps):
    """Of a volume [z, y, x] whose reference lines come apart."""
    space = "".join(f"<{axis}>{n}</{axis}>" for axis, n in zip("xyz", shape[::-1]))
    both = "".join(f"<{s}><matrixSize>{space}</matrixSize><fieldOfView_mm>{space}</fieldOfView_mm></{s}>"
                   for s in ("encodedSpace", "reconSpace"))  # fmt: skip
    limits = "".join(
        f"<kspace_encoding_step_{i + 1}><minimum>0</minimum><maximum>{n - 1}</maximum><center>{n // 2}</center>"
        f"</kspace_encoding_step_{i + 1}>"
        for i, n in enumerate((shape[1], shape[0]))
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">'
        "<experimentalConditions><H1resonanceFrequency_Hz>123000000</H1resonanceFrequency_Hz></experimentalConditions>"
        f"<encoding>{both}<encodingLimits>{limits}</encodingLimits><trajectory>cartesian</trajectory>"
        f"<parallelImaging><accelerationFactor><kspace_encoding_step_1>{steps[1]}</kspace_encoding_step_1>"
        f"<kspace_encoding_step_2>{steps[0]}</kspace_encoding_step_2></accelerationFactor>"
        "<calibrationMode>separate</calibrationMode></parallelImaging></encoding></ismrmrdHeader>"
    )


def file_of(path, kspace, came, reference, steps):
    """kspace: [coil, z, y, x]; came, reference: [z, y]; steps: of the lattice, z and y."""
    messages = []
    lines = [(*row, CALIBRATION) for row in np.argwhere(reference)] + [(*row, 0) for row in np.argwhere(came)]
    for z, y, flags in lines:
        if len(messages) == len(lines) - 1:
            flags |= wire.LAST_IN_SLICE
        messages.append(wire.acquisition(kspace[:, z, y], None, flags, y, counter=len(messages), step2=z))
    scans.Scan(header(kspace.shape[1:], steps), messages).save(path)


def cases(scan):
    """(name, whole k-space [coil, z, y, x], came, reference, steps) of each acceleration."""
    if scan == "und2x2":
        full = read_cfl(DATA / "espirit_examples/full")[..., None]
        came = np.any(read_cfl(DATA / "espirit_examples/und2x2") != 0, axis=0)
        reference = np.zeros_like(came)
        reference[80:100, 105:125] = True
        yield scan, full, came, reference, (2, 2)
        return
    file, begin, accelerations = {
        "brain16": ("mchiew/brain16.h5", 36, (2, 3, 4)),
        "headcoil16": ("cartesian_flash_phantom/headcoil16.h5", 52, (2, 3)),
        "se32": ("cartesian_se_phantom32/se32.h5", 20, (2, 3)),
    }[scan]
    full = whole_2d(file)
    line = np.arange(full.shape[2])
    reference = (line >= begin) & (line < begin + 24)
    for r in accelerations:
        yield f"{scan} R={r}", full, ((line % r == 0) | reference)[None], reference[None], (1, r)


def recon(arguments, folder, gadget, combine, component):
    output = folder / "images.h5"
    output.unlink(missing_ok=True)
    (folder / "pipeline.yaml").write_text(PIPELINE.format(gadget=gadget, combine=combine, component=component))
    command = [arguments.program.resolve(), "recon", folder / "scan.h5", "-c", folder / "pipeline.yaml", "-o", output]
    subprocess.run([*command, "--backend", arguments.backend], check=True, stdout=subprocess.DEVNULL,
                   env={"ECHOTRAIN_AUTOTUNE": "off", **os.environ})  # fmt: skip
    try:
        _, pixels = scans.read_images(output)
    except KeyError:  # no images: the program has said why
        return None
    assert pixels.shape[:2] == (1, 1)
    return pixels[0, 0]


def error(image, truth):
    """Relative, with the best factor."""
    factor = np.vdot(image, truth) / np.vdot(image, image)
    return np.linalg.norm(factor * image - truth) / np.linalg.norm(truth)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("scans", nargs="*")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    options = ", ".join(change.replace("=", ": ") for change in arguments.set)
    missed = False
    for scan in arguments.scans or ["und2x2", "brain16"]:
        for name, full, came, reference, steps in cases(scan):
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                joined = f"grappa: {{{options}}}"
                file_of(folder / "scan.h5", full, np.ones_like(came), reference, steps)
                truth = recon(arguments, folder, "fft", "rss", "magnitude")
                truth_joined = recon(arguments, folder, joined, "none", "complex")
                file_of(folder / "scan.h5", full, came, reference, steps)
                of_coils = f"grappa: {{output: coils{', ' if options else ''}{options}}}"
                errors = [error(recon(arguments, folder, of_coils, "rss", "magnitude"), truth),
                          error(recon(arguments, folder, joined, "none", "complex"), truth_joined)]  # fmt: skip
                asked = ASKED.get(name, (None, None))
                missed |= any(bound is not None and e > bound for e, bound in zip(errors, asked))
                line = f"{name:14} rss {errors[0]:.4f} (asked {asked[0]}), combined {errors[1]:.4f} (asked {asked[1]})"
                of_maps = recon(arguments, folder, "sense", "rss", "magnitude")
                if of_maps is not None:
                    inside = of_maps != 0
                    line += (f"; sense {error(of_maps, np.where(inside, truth, 0)):.4f} against rss in "
                             f"{inside.mean():.2f} of the pixels")  # fmt: skip
                print(line, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
