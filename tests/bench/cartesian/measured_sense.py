"""`cartesian_sense` on measured data of which lines were left out, beside BART: `apt install bart`, a build, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cartesian/measured_sense.py build/bin/echotrain [SCAN...]

For each scan, an ISMRMRD file of the lines that are kept goes through `echotrain recon -c cartesian_sense`, and the
same lines through `bart ecalib -m1` and `bart pics -l2` with its best weight of a few. Both are compared with BART's
image of the whole k-space (`ecalib -m1 -r24`, `pics -l2 -r 0.0005 -i 30`): complex, one factor, all pixels. "seen" is
the share of pixels where the image is not 0: maps that are 0 at the edges flatter an error. Scans:

    und2x2      espirit_examples: one plane of a volume, both axes accelerated by 2, calibration 20 x 20
    brain16     lines 36 to 59 of 96 kept, R = 2, 3 and 4
    headcoil16  lines 52 to 75 of 128 kept, R = 2 and 3;  se32: lines 20 to 43 of 64, R = 2 and 3, 32 coils.
                The pipeline's parameters were chosen on these two (`--set` tries others).

`--set lambda=0.01` (`iterations`, `crop`, ..) changes parameters of the pipeline. `--backend cuda` is for a GPU.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

for place in ("integration/support", "bench/peers"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / place))
import scans  # noqa: E402
import wire  # noqa: E402
from bart_peer import ENVIRONMENT, write_cfl  # noqa: E402
from programs import DATA, SHIPPED  # noqa: E402

CALIBRATION_AND_IMAGING = 1 << 20
WEIGHTS = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05)
# The largest error allowed, of each scan's accelerations.
ASKED = {"und2x2": [0.081], "brain16": [0.0069, 0.0174, 0.0282]}


def read_cfl(name):
    """[..., y, x]: slowest axis first, without axes of one point."""
    dims = [int(n) for n in pathlib.Path(f"{name}.hdr").read_text().splitlines()[1].split()]
    return np.fromfile(f"{name}.cfl", np.complex64).reshape(dims[::-1]).squeeze()


def whole_2d(name):
    """[coil, y, x] of an ISMRMRD file without undersampling."""
    _, heads, _, data = scans.read_acquisitions(DATA / name)
    kspace = np.zeros((data[0].shape[0], len(data), data[0].shape[1]), np.complex64)
    for head, line in zip(heads, data):
        kspace[:, int(head["idx"]["kspace_encode_step_1"])] = line
    return kspace


def header(shape, steps):
    """Of a volume [z, y, x] with reference lines in place."""
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
        "<calibrationMode>embedded</calibrationMode></parallelImaging></encoding></ismrmrdHeader>"
    )


def file_of(path, kspace, came, reference, steps):
    """kspace: [coil, z, y, x]; came, reference: [z, y]; steps: of the lattice, z and y."""
    messages = []
    # Reference lines first: a block is whole once other lines follow and it has no gap.
    rows = np.concatenate([np.argwhere(reference), np.argwhere(came & ~reference)])
    for z, y in rows:
        flags = CALIBRATION_AND_IMAGING if reference[z, y] else 0
        if len(messages) == len(rows) - 1:
            flags |= wire.LAST_IN_SLICE
        messages.append(wire.acquisition(kspace[:, z, y], None, flags, y, counter=len(messages), step2=z))
    scans.Scan(header(kspace.shape[1:], steps), messages).save(path)


def band(extent, steps, at, width):
    """came, reference [1, y]: every steps[1]-th line from line 0 on, and lines at .. at + width - 1."""
    line = np.arange(extent)
    reference = (line >= at) & (line < at + width)
    return ((line % steps[1] == 0) | reference)[None], reference[None]


def cases(scan):
    """(name, whole k-space [coil, z, y, x], came, reference, steps) of each acceleration."""
    if scan == "und2x2":
        full = read_cfl(DATA / "espirit_examples/full")[..., None]
        came = np.any(read_cfl(DATA / "espirit_examples/und2x2") != 0, axis=0)
        reference = np.zeros_like(came)
        reference[80:100, 105:125] = True
        yield "und2x2", full, came, reference, (2, 2)
        return
    file, begin, accelerations = {
        "brain16": ("mchiew/brain16.h5", 36, (2, 3, 4)),
        "headcoil16": ("cartesian_flash_phantom/headcoil16.h5", 52, (2, 3)),
        "se32": ("cartesian_se_phantom32/se32.h5", 20, (2, 3)),
    }[scan]
    full = whole_2d(file)[:, None]
    for r in accelerations:
        yield f"{scan} R={r}", full, *band(full.shape[2], (1, r), begin, 24), (1, r)


def bart(folder, *words):
    subprocess.run(["bart", *map(str, words)], check=True, env=ENVIRONMENT, cwd=folder, stdout=subprocess.DEVNULL)


def pics(folder, kspace, calibration, weights, iterations=30):
    """[z, y, x] for each weight; kspace: [coil, z, y, x]. The plane of und2x2 is BART's y and z."""
    write_cfl(folder / "data", kspace, (*kspace.shape[:0:-1], kspace.shape[0]))
    bart(folder, "ecalib", "-m1", f"-r{calibration}", "data", "maps")
    for weight in weights:
        bart(folder, "pics", "-l2", "-r", weight, "-i", iterations, "data", "maps", "image")
        yield read_cfl(folder / "image").reshape(kspace.shape[1:])


def ours(program, folder, config, backend):
    output = folder / "images.h5"
    output.unlink(missing_ok=True)
    command = [program, "recon", folder / "scan.h5", "-c", config, "-o", output, "--backend", backend]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                   env={"ECHOTRAIN_AUTOTUNE": "off", **os.environ})  # fmt: skip
    _, pixels = scans.read_images(output)
    assert pixels.shape[:2] == (1, 1)
    return pixels[0, 0]


def error(image, truth):
    """Relative, with the best complex factor."""
    factor = np.vdot(image, truth) / np.vdot(image, image)
    return np.linalg.norm(factor * image - truth) / np.linalg.norm(truth)


def complex_pipeline(folder, changes, text=None):
    text = text or (SHIPPED / "cartesian_sense.yaml").read_text()
    text = text.replace("component: magnitude, type: float", "component: complex")
    assert "component: complex" in text
    for change in changes:
        name, value = change.split("=")
        text, count = re.subn(rf"(?m)^( *-.*\b){name}: [^,}}]+", rf"\g<1>{name}: {value}", text)
        assert count == 1, f"cartesian_sense.yaml says {name} {count} times"
    (folder / "pipeline.yaml").write_text(text)
    return folder / "pipeline.yaml"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("scans", nargs="*", default=["und2x2", "brain16"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--no-bart", action="store_true", help="only the reference is BART's")
    parser.add_argument("--pipeline", type=pathlib.Path, help="instead of the shipped one")
    arguments = parser.parse_args()
    missed = False
    for scan in arguments.scans or ["und2x2", "brain16"]:
        asked = iter(ASKED.get(scan, []))
        for name, full, came, reference, steps in cases(scan):
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                kept = full * came[None, :, :, None]
                truth = next(iter(pics(folder, full, 24, [0.0005])))
                file_of(folder / "scan.h5", full, came, reference, steps)
                text = arguments.pipeline.read_text() if arguments.pipeline else None
                image = ours(arguments.program.resolve(), folder, complex_pipeline(folder, arguments.set, text),
                             arguments.backend)  # fmt: skip
                mine, bound = error(image, truth), next(asked, None)
                line = f"{name:14} ours {mine:.4f}, seen {np.mean(image != 0):.2f}"
                if bound:
                    line += f", asked {bound}"
                    missed |= mine > bound or scan == "und2x2" and np.mean(image != 0) < 0.8
                if not arguments.no_bart:
                    lines = 24 if scan != "und2x2" else 20
                    theirs = [error(i, truth) for i in pics(folder, kept, lines, WEIGHTS)]
                    best = int(np.argmin(theirs))
                    line += f"; bart {theirs[best]:.4f} with -r {WEIGHTS[best]}"
                print(line, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
