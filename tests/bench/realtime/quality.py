"""How good real-time images are: a beating, breathing heart against the truth of each image's instant, and measured scans
by the spokes that no program was given. A build, `apt install bart` for the peers, then

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/realtime/quality.py build/bin/echotrain [PIPELINE...]

Heart: `echotrain simulate --motion cardiac`, 128 x 128, 6 coils, 21 golden-angle spokes a frame, 3 ms each, 75 beats a
minute, breathing of 8 mm, noise; k-space in closed form, each spoke of the heart at its moment. Each pipeline goes through
`echotrain recon`; a pipeline whose `frame:` is a window has that window, all others frames of 21 spokes. The truth is that
of the middle of an image's readouts. NRMSE: one factor for all images of a pipeline, the first five frames left out.
Sharpness: how steep the edge between the left chamber and its muscle is, as a share of the truth's, mean over directions;
the mean over the frames and the least, which is where the heart moves fastest.

BART gets every third of the same frames, one by one: `pics` (l2) with maps of `ecalib` from five frames together, and
`nlinv`. `rtnlinv` gets all frames, as ours do, each of them begins at the one before. Of both, all numbers of Newton steps of
`--newton` are printed; the best is what compares. Frames in common are compared, too: "on BART's frames". `--out` has all rows as
JSON, after each of them.

Measured: perfusion3 of radial_rt_scgrog (7 frames of 30 spokes, 3 coils) and kMB1_top_SP69 of sms_radial16 (one frame of 69,
compressed to 6 coils, delays corrected), every 7th spoke left out. Programs give complex images; what coils saw of an image is
found for all programs alike: smooth maps (49 plane waves of up to 3/4 cycle per field of view) fitted by least squares to the
spokes that were given. Residual: |F S x - d| / |d| at the spokes left out.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from scipy.ndimage import map_coordinates, spline_filter

for place in ("integration/support", "bench/peers"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / place))
import scans  # noqa: E402
import wire  # noqa: E402
from bart_peer import write_cfl  # noqa: E402
from programs import DATA, SHIPPED  # noqa: E402

PIPELINES = ["radial_2d", "radial_realtime", "cg_sense_2d", "cg_sense_realtime", "nlinv_realtime"]
MATRIX, COILS, SPOKES, TR_MS, RATE, BREATHS = 128, 6, 21, 3.0, 75, 20
FRAMES, FIRST, EVERY = 24, 5, 3
FIELD_MM, BREATH_MM = 256, 8


def quietly(*command, cwd=None):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"})  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def note(arguments, data, name, **values):
    arguments.rows.append({"data": data, "name": name, **{key: float(value) for key, value in values.items()}})
    if arguments.out:
        arguments.out.write_text(json.dumps(arguments.rows, indent=1))


def simulate(program, path, every, frames=FRAMES):
    quietly(program, "simulate", "-o", path, "--trajectory", "golden_radial", "--motion", "cardiac", "--matrix", MATRIX,
            "--coils", COILS, "--readouts", SPOKES, "--frames", frames, "--tr-ms", TR_MS, "--heart-rate", RATE,
            "--jitter", 0, "--breathing-mm", BREATH_MM, "--breathing-rate", BREATHS, "--noise", 3, "--truth-every",
            every)  # fmt: skip
    return path


def truths_of(path):
    times = scans.read_array(path, "truth_ms")
    return times, np.array([scans.read_array(path, "truth" + (f"_{i}" if i else "")) for i in range(len(times))])


def edge(image, ms):
    """How steep the left chamber's edge is at most, mean over directions in which there is nothing but muscle."""
    phase = ((ms - 0.4 * 60000 / RATE) / (60000 / RATE)) % 1
    tight = ((1 - np.cos(np.pi * phase / 0.35)) / 2 if phase < 0.35
             else (1 + np.cos(np.pi * (phase - 0.35) / 0.45)) / 2 if phase < 0.8 else 0)  # fmt: skip
    length = 60000 / BREATHS
    shift = np.sin(np.pi * (ms % length) / length) ** 4 * BREATH_MM * MATRIX / FIELD_MM
    radius = 0.2 * (1 - 0.45 * tight) * MATRIX / 2
    x0, y0 = MATRIX // 2 + 0.1 * MATRIX / 2, MATRIX // 2 + shift
    at = np.arange(radius - 4, radius + 4.01, 0.25)
    steep = []
    for degrees in (-60, -30, 0, 30, 60, 90):
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        line = map_coordinates(image, [y0 + at * s, x0 + 1.05 * at * c], order=1)
        steep.append(np.abs(line[4:] - line[:-4]).max())
    return np.mean(steep)


def frame_of(text):
    """(readouts, stride) of a pipeline's window; None: frames as the scan has them."""
    found = re.search(r"(?m)^frame:\s*\{readouts:\s*(\d+)(?:,\s*stride:\s*(\d+))?", text)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def pipeline_text(name):
    path = pathlib.Path(name)
    path = path if path.suffix == ".yaml" else SHIPPED / f"{name}.yaml"
    return path.read_text() if path.exists() else None


def judge(images, truth, times, sub=None):
    """(NRMSE, sharpness on average, the least)."""
    images, truth, times = (np.asarray(a) if sub is None else np.asarray(a)[sub] for a in (images, truth, times))
    factor = np.sum(images * truth) / np.sum(images**2)
    sharp = [edge(factor * i, t) / edge(u, t) for i, u, t in zip(images, truth, times)]
    return np.linalg.norm(factor * images - truth) / np.linalg.norm(truth), np.mean(sharp), np.min(sharp)


def kspace_of(path):
    """k [readout, sample, 2], data [readout, coil, sample], repetition [readout]."""
    _, heads, trajectories, data = scans.read_acquisitions(path)
    keep = [i for i, head in enumerate(heads) if not head["flags"] & np.uint64(wire.NOISE)]
    return (np.array([trajectories[i][:, :2] for i in keep], float), np.array([data[i] for i in keep]),
            np.array([heads[i]["idx"]["repetition"] for i in keep]))  # fmt: skip


class Bart:
    """Complex images of frames, by the one and the other program."""

    def __init__(self, folder, matrix):
        self.folder, self.matrix = folder, matrix

    def write(self, k, data, weighted=False):
        readouts, coils, samples = data.shape
        points = np.concatenate([k * self.matrix, np.zeros((*k.shape[:-1], 1))], axis=-1)
        write_cfl(self.folder / "t", points, [3, samples, readouts])
        values = data * np.hypot(k[..., 0], k[..., 1])[:, None] if weighted else data
        write_cfl(self.folder / "d", values.transpose(0, 2, 1).transpose(2, 0, 1), [1, samples, readouts, coils])

    def read(self, name):
        dims = [int(n) for n in (self.folder / f"{name}.hdr").read_text().splitlines()[1].split()]
        return np.fromfile(self.folder / f"{name}.cfl", np.complex64).reshape(dims[::-1]).squeeze()

    def maps(self, k, data):
        n = self.matrix
        self.write(k, data, weighted=True)
        quietly("bart", "nufft", "-a", "-d", f"{n}:{n}:1", "t", "d", "c", cwd=self.folder)
        quietly("bart", "fft", "-u", 3, "c", "k", cwd=self.folder)
        quietly("bart", "ecalib", "-m1", "-r20", "-c0", "k", "s", cwd=self.folder)

    def pics(self, k, data, weight):
        self.write(k, data)
        quietly("bart", "pics", "-S", "-l2", "-r", weight, "-i", 30, "-t", "t", "d", "s", "x", cwd=self.folder)
        return self.read("x")

    def nlinv(self, k, data, steps):
        """`k` [frame, readout, sample, 2]: each frame by itself."""
        return np.array([self.inverted("nlinv", k[f : f + 1], data[f : f + 1], steps)[0] for f in range(len(k))])

    def rtnlinv(self, k, data, steps):
        return self.inverted("rtnlinv", k, data, steps)

    def inverted(self, tool, k, data, steps):
        frames, readouts, coils, samples = data.shape
        points = np.concatenate([k * self.matrix, np.zeros((*k.shape[:-1], 1))], axis=-1)
        write_cfl(self.folder / "t", points, [3, samples, readouts, *[1] * 7, frames])
        write_cfl(self.folder / "d", data.transpose(0, 2, 1, 3), [1, samples, readouts, coils, *[1] * 6, frames])
        quietly("bart", tool, "-i", steps, "-t", "t", "d", "x", cwd=self.folder)
        x = self.read("x")
        n, m = self.matrix, x.shape[-1]
        return x.reshape(frames, m, m)[:, (m - n) // 2 : (m - n) // 2 + n, (m - n) // 2 : (m - n) // 2 + n]


def recon(program, scan, text, folder):
    config, output = folder / "pipeline.yaml", folder / "images.h5"
    config.write_text(text)
    output.unlink(missing_ok=True)
    quietly(program, "recon", scan, "-c", config, "-o", output)
    return scans.read_images(output)[1][:, 0, 0]


def heart(arguments, folder):
    program = arguments.program
    whole = simulate(program, folder / "heart.h5", SPOKES)
    times, truth = truths_of(whole)
    common = list(range(FIRST, FRAMES, EVERY))
    windows = None

    def said(name, found, more=""):
        print(f"{name}: NRMSE {found[0]:.4f}, sharpness {found[1]:.3f}, least {found[2]:.3f}{more}", flush=True)
        note(arguments, "heart", name, nrmse=found[0], sharpness=found[1], least=found[2])

    for name in arguments.pipelines:
        text = pipeline_text(name)
        if text is None:
            print(f"{name}: not there")
            continue
        images = recon(arguments.recon or program, whole, text, folder)
        window = frame_of(text)
        if window and window != (SPOKES, SPOKES):
            readouts, stride = window
            if windows is None or windows[0] != stride:
                windows = (stride, *truths_of(simulate(program, folder / "windows.h5", stride, 16)))
            middles = (np.arange(len(images)) * stride + readouts / 2) * TR_MS
            at = np.array([int(np.argmin(np.abs(windows[1] - m))) for m in middles])
            keep = (middles > FIRST * SPOKES * TR_MS) & (middles <= windows[1][-1])
            assert keep.any() and np.abs(windows[1][at] - middles)[keep].max() <= TR_MS, "windows without a truth"
            found = judge(np.abs(images)[keep], windows[2][at[keep]], windows[1][at[keep]])
            said(f"{name}, {readouts}/{stride} spokes", found)
            continue
        assert len(images) == FRAMES, f"{name}: {len(images)} images of {FRAMES} frames"
        found, few = judge(np.abs(images), truth, times, slice(FIRST, None)), judge(np.abs(images), truth, times, common)
        said(name, found, f"; on BART's frames {few[0]:.4f}, {few[1]:.3f}, {few[2]:.3f}")
    if not arguments.bart:
        return
    k, data, repetition = kspace_of(whole)
    bart = Bart(folder, MATRIX)
    bart.maps(k[: 5 * SPOKES], data[: 5 * SPOKES])
    k, data = (np.array([values[repetition == f] for f in range(FRAMES)]) for values in (k, data))

    def say(name, images, at):
        said(name, judge(np.abs(images), truth[at], times[at]))

    for w in arguments.weights:
        say(f"bart pics -l2 -r {w} -i 30", [bart.pics(k[f], data[f], w) for f in common], common)
    for steps in arguments.newton:
        say(f"bart nlinv -i {steps}", bart.nlinv(k[common], data[common], steps), common)
    for steps in arguments.newton:
        say(f"bart rtnlinv -i {steps}", bart.rtnlinv(k, data, steps)[FIRST:], range(FIRST, FRAMES))


class Transform:
    """F x at any k [..., 2] in cycles/pixel, between points of a transform four times as fine: to about 1e-3 of the largest."""

    def __init__(self, image):
        n = image.shape[-1]
        self.m = 4 * n
        begin = self.m // 2 - n // 2
        wide = np.zeros((self.m, self.m), complex)
        wide[begin : begin + n, begin : begin + n] = image
        fine = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(wide)))
        self.parts = [spline_filter(part, order=3, mode="grid-wrap") for part in (fine.real, fine.imag)]

    def __call__(self, k):
        at = [k[..., 1] * self.m + self.m // 2, k[..., 0] * self.m + self.m // 2]
        real, imaginary = (map_coordinates(part, at, order=3, mode="grid-wrap", prefilter=False) for part in self.parts)
        return real + 1j * imaginary


def residual_left_out(image, k, data, left):
    """|F S x - d| / |d| at the spokes `left`, S fitted to the others: plane waves times x are x's transform elsewhere."""
    n = image.shape[-1]
    steps = np.arange(-3, 4) * 0.25 / n
    of_image = Transform(image)
    columns = np.array([of_image(k - np.array([qx, qy])) for qy in steps for qx in steps])  # [wave, readout, sample]
    known, unknown = columns[:, ~left].reshape(len(columns), -1).T, columns[:, left].reshape(len(columns), -1).T
    # A little damping, as neighbouring waves are nearly alike: 1e-3 of the largest eigenvalue.
    gram = known.conj().T @ known
    gram += 1e-3 * np.linalg.eigvalsh(gram)[-1] * np.eye(len(gram))
    power = missed = 0.0
    for c in range(data.shape[1]):
        weights = np.linalg.solve(gram, known.conj().T @ data[~left, c].ravel())
        missed += np.sum(np.abs(unknown @ weights - data[left, c].ravel()) ** 2)
        power += np.sum(np.abs(data[left, c]) ** 2)
    return missed, power


def measured_sets():
    """(name, k [frame, readout, sample, 2], data [frame, readout, coil, sample], matrix)."""
    path = DATA / "radial_rt_scgrog/perfusion3.h5"
    if path.exists():
        k, data, _ = kspace_of(path)
        yield "perfusion3, 7 frames of 30", k.reshape(7, 30, *k.shape[1:]), data.reshape(7, 30, *data.shape[1:]), 144
    path = DATA / "sms_radial16/kMB1_top_SP69.h5"
    if path.exists():
        k, data, _ = kspace_of(path)
        # Gradient delays, as published: samples lie shifted along their spoke.
        direction = k[:, -1] - k[:, 0]
        a = direction / np.linalg.norm(direction, axis=1)[:, None]
        shift = -(0.614225 * a[:, 1] ** 2 + 0.651670 * a[:, 0] ** 2 + 2 * 0.000881 * a[:, 0] * a[:, 1])
        k = k + (a * shift[:, None])[:, None] / k.shape[1]
        flat = data.transpose(1, 0, 2).reshape(data.shape[1], -1)
        basis = np.linalg.eigh(flat @ flat.conj().T)[1][:, ::-1][:, :6]
        yield "kMB1_top_SP69, 69 spokes", k[None], np.einsum("ci,rcs->ris", basis.conj(), data)[None], 192


def save(path, k, data, matrix):
    frames, readouts = k.shape[:2]
    messages = []
    for f in range(frames):
        for r in range(readouts):
            flags = wire.FIRST_IN_SLICE * (r == 0) | wire.LAST_IN_SLICE * (r + 1 == readouts)
            messages.append(wire.acquisition(data[f, r], k[f, r], flags, r, f, counter=len(messages)))
    scans.Scan(scans.header_xml("goldenangle", (matrix, matrix, 1), readouts=readouts, repetitions=frames), messages).save(path)


def measured(arguments, folder):
    for name, k, data, matrix in measured_sets():
        left = np.arange(k.shape[1]) % 7 == 6
        data = data / np.abs(data).max()
        save(folder / "given.h5", k[:, ~left], data[:, ~left], matrix)
        print(f"{name}, {left.sum()} left out:")

        def say(who, images, k=k, data=data, left=left, name=name):
            parts = [residual_left_out(image, k[f], data[f], left) for f, image in enumerate(images)]
            whole, last = (np.sqrt(sum(p[0] for p in some) / sum(p[1] for p in some)) for some in (parts, parts[FIRST:] or parts))
            print(f"  {who}: {whole:.4f}; last frames {last:.4f}", flush=True)
            note(arguments, name, who, residual=whole, last_frames=last)

        for pipeline in arguments.pipelines:
            text = pipeline_text(pipeline)
            if text is None or (frame_of(text) and frame_of(text)[0] > (~left).sum()):
                continue
            text = text.replace("component: magnitude", "component: complex").replace("type: float", "type: complex_float")
            text = re.sub(r"\{component: complex, type: \w+\}", "{component: complex}", text)
            images = recon(arguments.recon or arguments.program, folder / "given.h5", text, folder)
            if np.iscomplexobj(images) and len(images) == len(k):
                say(pipeline, images)
        if not arguments.bart:
            continue
        bart = Bart(folder, matrix)
        given_k, given = k[:, ~left].reshape(-1, *k.shape[2:]), data[:, ~left].reshape(-1, *data.shape[2:])
        bart.maps(given_k, given)
        for w in arguments.weights:
            say(f"bart pics -l2 -r {w} -i 30", [bart.pics(k[f, ~left], data[f, ~left], w) for f in range(len(k))])
        for steps in arguments.newton:
            say(f"bart nlinv -i {steps}", bart.nlinv(k[:, ~left], data[:, ~left], steps))
            if len(k) > 1:
                say(f"bart rtnlinv -i {steps}", bart.rtnlinv(k[:, ~left], data[:, ~left], steps))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("pipelines", nargs="*", default=PIPELINES)
    parser.add_argument("--recon", type=pathlib.Path, help="another program for the pipelines: of another build")
    parser.add_argument("--no-bart", dest="bart", action="store_false")
    parser.add_argument("--no-heart", dest="heart", action="store_false")
    parser.add_argument("--no-measured", dest="measured", action="store_false")
    parser.add_argument("--weights", type=float, nargs="*", default=[0.01, 0.1], help="lambda of `bart pics`")
    parser.add_argument("--newton", type=int, nargs="*", default=[6, 7, 8, 9, 10], help="steps of `bart nlinv` and `rtnlinv`")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the rows as JSON")
    arguments = parser.parse_args()
    arguments.program, arguments.rows = arguments.program.resolve(), []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if arguments.heart:
            heart(arguments, pathlib.Path(folder))
        if arguments.measured:
            measured(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
