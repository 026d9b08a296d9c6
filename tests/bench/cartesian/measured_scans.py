"""Measured k-space of which lines are left out, for the programs beside this one: these scans, their images
by a server, over TCP, and errors against all of k-space.

    und2x2      espirit_examples: one plane of a volume, both axes accelerated by 2, calibration 20 x 20
    brain16     lines 36 to 59 of 96 kept, R = 2, 3 and 4
    headcoil16  lines 52 to 75 of 128 kept, R = 2 and 3;  se32: lines 20 to 43 of 64, R = 2 and 3, 32 coils.
                Parameters of gadgets are chosen on these two, never on the first two.
"""

import contextlib
import pathlib
import sys
import tempfile

import numpy as np

for place in ("integration/support", "bench/peers"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / place))
import scans  # noqa: E402
import wire  # noqa: E402
from programs import DATA, Server  # noqa: E402

CALIBRATION, CALIBRATION_AND_IMAGING = 1 << 19, 1 << 20


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


def header(shape, steps, mode):
    """The header of a volume [z, y, x]; `steps` of its lattice: z and y; `mode`: where its reference lines are."""
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
        f"<calibrationMode>{mode}</calibrationMode></parallelImaging></encoding></ismrmrdHeader>"
    )


def scan_of(kspace, came, reference, steps, mode):
    """kspace: [coil, z, y, x]; came, reference: [z, y]. Reference lines come first: "separate", for calibration alone,
    before all lines of the image; "embedded", among these."""
    rows = [(*row, CALIBRATION if mode == "separate" else CALIBRATION_AND_IMAGING) for row in np.argwhere(reference)]
    rows += [(*row, 0) for row in np.argwhere(came if mode == "separate" else came & ~reference)]
    messages = []
    for z, y, flags in rows:
        if len(messages) == len(rows) - 1:
            flags |= wire.LAST_IN_SLICE
        messages.append(wire.acquisition(kspace[:, z, y], None, flags, y, counter=len(messages), step2=z))
    return scans.Scan(header(kspace.shape[1:], steps, mode), messages)


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


@contextlib.contextmanager
def serving(arguments):
    """A server of the build whose client is `arguments.program`."""
    with tempfile.TemporaryDirectory() as folder:
        program = arguments.program.resolve().with_name("echotrain-server")
        server = Server(pathlib.Path(folder), "--backend", arguments.backend, program=program,
                        environment={"ECHOTRAIN_CACHE_DIR": folder})  # fmt: skip
        try:
            yield server
        finally:
            server.stop()


def reconstruct(server, pipeline, scan):
    """The image [z, y, x] that the server sends back for a scan of one frame; None: it sends none."""
    reply = wire.exchange(server.address, scan.stream(wire.config_text(pipeline)), timeout_s=600)
    assert not reply.errors(), reply.errors()
    if not reply.images:
        return None
    (image,) = reply.images
    assert len(image.pixels) == 1
    return image.pixels[0]


def error(image, truth):
    """Relative, with the best factor."""
    factor = np.vdot(image, truth) / np.vdot(image, image)
    return np.linalg.norm(factor * image - truth) / np.linalg.norm(truth)
