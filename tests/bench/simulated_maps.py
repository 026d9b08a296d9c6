"""Maps of simulated vials by a server, over TCP, against what is true and against the spread of their values:

    python3 tests/bench/simulated_maps.py build/bin [--backend cpu|cuda] [--snr 10 20 30 50] [--only t1_ir ...] [--draws 200]
                                          [--coils 1] [--out FILE.json]

`echotrain simulate --mapping` makes scans of --draws repetitions with a noise scan; the server maps each. Of each vial the 100
voxels about its centre count, and of these those that have a value. Printed for each value of each SNR:

    masked    part of the voxels without a value; values of which it is more than half count as masked
    bias      of the mean, in standard deviations; at most 0.1 + 3 / sqrt(N) of them is asked. MOLLI's is against the fit of
              noiseless data, whose own distance from T1 is the method's
    sd        the map of standard deviations, pooled, over the values' spread over the draws; within 5 % is asked from SNR 20 on
    covers    part of the values T whose 95 % interval, T exp(-1.96 SD / T) to T exp(1.96 SD / T), holds what is true: fits are
              made in ln T. Below SNR 20 0.93 to 0.97 is asked

Rows for docs/measurements, one for each map, go to --out.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

MATRIX = 128
CASES = {  # pipeline: mapping, array of what is true, name
    "t1_ir": ("inversion_recovery", "t1", "T1, inversion recovery"),
    "t1_sasha": ("saturation", "t1", "T1, SASHA"),
    "t1_molli": ("molli", "t1", "T1, MOLLI"),
    "t2_map": ("spin_echo", "t2", "T2, spin echoes"),
    "t2star_map": ("multi_echo", "t2star", "T2\\*, gradient echoes"),
    "adc_map": ("diffusion", "adc", "ADC, three directions"),
}
VALUE, DEVIATION = 1, 7  # series
ENOUGH = 0.5  # part of the draws with a value, for a vial to count as not masked
MOST_BIAS, MOST_OFF, COVERED = 0.1, 0.05, (0.93, 0.97)


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)


class Scans:
    def __init__(self, options, folder, port):
        self.options, self.folder, self.port = options, folder, port
        self.truth = {}

    def maps(self, pipeline, snr, frames, seed=1):
        """The maps of values and of deviations, [draw, voxel], of scans with this SNR; None: without noise."""
        mapping, quantity, _ = CASES[pipeline]
        scan, images = self.folder / "scan.h5", self.folder / "maps.h5"
        for path in (scan, images):
            path.unlink(missing_ok=True)
        noisy = ("--snr", snr, "--noise-scan", "--seed", seed) if snr else ()
        run(self.options.programs / "echotrain", "simulate", "-o", scan, "--trajectory", "cartesian", "--matrix", MATRIX, "--coils",
            self.options.coils, "--mapping", mapping, "--frames", frames, *noisy)
        run(self.options.programs / "echotrain", "send", scan, "-p", self.port, "-c", pipeline, "-o", images)
        with h5py.File(scan) as file:
            self.truth[quantity] = np.array(file["dataset"][f"truth_{quantity}"]).reshape(-1)
        with h5py.File(images) as file:
            return [np.array(file["dataset"][f"image_{series}"]["data"]).reshape(frames, -1).astype(float)
                    for series in (VALUE, DEVIATION)]  # fmt: skip

    def vials(self, pipeline):
        """Each vial's value and the numbers of its middle voxels."""
        truth = self.truth[CASES[pipeline][1]]
        for value in np.unique(truth[truth > 0]):
            where = np.flatnonzero(truth == value)
            y, x = where // MATRIX, where % MATRIX
            away = (y - y.mean()) ** 2 + (x - x.mean()) ** 2
            yield value, where[np.argsort(away, kind="stable")[:100]]


def of_vial(values, deviations, truth):
    """What is measured of one vial's voxels, [draw, voxel]."""
    there = values > 0
    count = there.sum()
    out = {"masked": 1 - count / there.size}
    if count < ENOUGH * there.size:
        return out
    spread = np.sqrt(np.mean((values[there] - values[there].mean()) ** 2))
    return out | {"bias": (values[there].mean() - truth) / spread, "bound": MOST_BIAS + 3 / np.sqrt(count), "spread": spread / truth,
                  "sd": np.sqrt(np.mean(deviations[there] ** 2)) / spread,
                  "covers": np.mean(np.abs(np.log(values[there] / truth)) < 1.959964 * deviations[there] / values[there])}  # fmt: skip


def faults(one, snr):
    """What one vial misses."""
    if "bias" not in one:
        return []
    out = ["bias"] if abs(one["bias"]) > one["bound"] else []
    if snr >= 20 and abs(one["sd"] - 1) > MOST_OFF:
        out.append("sd")
    if snr < 20 and not COVERED[0] <= one["covers"] <= COVERED[1]:
        out.append("covers")
    return out


def show(pipeline, snr, value, one, wrong):
    text = f"{pipeline:11} SNR {snr:<4g} {value:<9.4g} masked {one['masked']:5.3f}"
    if "bias" in one:
        text += f"  bias {one['bias']:+.3f} ({one['bound']:.3f})  sd {one['sd']:.3f}  covers {one['covers']:.3f}  spread {one['spread']:.3f}"
    print(text + (f"  MISSED: {', '.join(wrong)}" if wrong else ""), flush=True)


def between(numbers, digits):
    numbers = [n for n in numbers if n is not None]
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}" if numbers else ""


def row(pipeline, found, options):
    """A row of docs/measurements."""
    fitted = [(snr, one) for snr, _, one, _ in found if "bias" in one]
    missed = sum(bool(wrong) for *_, wrong in found)
    return {
        "table": "simulated_maps", "task": f"simulated/{pipeline}/{options.backend}", "what": CASES[pipeline][2],
        "value": f"{len(found) - missed} of {len(found)}",
        "also": {"bias, SD": between([one["bias"] for _, one in fitted], 2),
                 "SD map over spread, SNR 20 to 50": between([one["sd"] for snr, one in fitted if snr >= 20], 2),
                 "95 % intervals, SNR 10": between([one["covers"] for snr, one in fitted if snr < 20], 2)},
        "date": datetime.date.today().isoformat(), "command": "simulated_maps.py build/bin"}  # fmt: skip


def measure(pipeline, scans, options):
    clean, _ = scans.maps(pipeline, None, 1)
    found = []
    for snr in options.snr:
        values, deviations = scans.maps(pipeline, snr, options.draws)
        for truth, where in scans.vials(pipeline):
            reference = truth
            if pipeline == "t1_molli":
                reference = np.mean(clean[0, where])
                if snr == options.snr[0]:
                    print(f"t1_molli    without noise {truth:.4g}: {100 * (reference / truth - 1):+.2f} %")
                if reference == 0:
                    continue
            one = of_vial(values[:, where], deviations[:, where], reference)
            wrong = faults(one, snr)
            show(pipeline, snr, truth, one, wrong)
            found.append((snr, truth, one, wrong))
    return row(pipeline, found, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--snr", type=float, nargs="+", default=[10, 20, 30, 50])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--coils", type=int, default=1)
    parser.add_argument("--port", default="9418")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([options.programs / "echotrain-server", "--port", options.port, "--backend", options.backend],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            time.sleep(2)
            for pipeline in options.only:
                rows.append(measure(pipeline, Scans(options, pathlib.Path(folder), options.port), options))
                print(f"{rows[-1]['what']}: {rows[-1]['value']} values meet what is asked; {rows[-1]['also']}", flush=True)
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
