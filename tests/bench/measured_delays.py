"""Delays of gradients by trajectory_correction, and what they are worth, for docs/trajectories.md:

    ECHOTRAIN_BIN_DIR=build/bin python3 tests/bench/measured_delays.py [--bart bart] [--picture FILE.png]

The measured radial scans beside their published delays (and `bart estdelay`, where there is one), simulated scans with
the NRMSE of their images, and a spoke moved by the measured impulse responses. The picture shows kMB1_top_SP69 before
and after. It needs h5py.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import h5py
import numpy as np

for place in ("integration/support", "bench", "../clients/python"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / place))
import scans  # noqa: E402
from programs import DATA, run_client, variant  # noqa: E402

PUBLISHED = (-0.651670, -0.614225, -0.000881)
METHOD = "method: ring, spokes: 64"
SIMULATED = ["0:0:0", "-0.6:-0.65:0", "-0.6:-0.65:0.1", "-0.6:0.45:0.2"]


def reconstruct(scan, parameters, folder, *options):
    """Image [y, x] of the first frame, and the delays that the log tells."""
    config = folder / "c.yaml"
    config.write_text(variant("radial_corrected", ("backend: auto", "backend: cpu"), (METHOD, parameters)))
    made = run_client("recon", scan, "-c", config, "-o", folder / "o.h5", *options)
    if made.returncode != 0:
        sys.exit(made.stderr)
    told = re.search(r"lie (\S+) \(x\), (\S+) \(y\), (\S+) \(xy\)", made.stdout + made.stderr)
    image = np.asarray(scans.read_images(folder / "o.h5")[1][0], float).squeeze()
    return image, tuple(map(float, told.groups())) if told else None


def readouts(path):
    with h5py.File(path) as file:
        rows = file["dataset/data"][:]
    samples = int(rows[0]["head"]["number_of_samples"])
    data = np.array([row["data"].view("c8").reshape(-1, samples) for row in rows])
    return np.array([row["traj"].reshape(samples, -1)[:, :2] for row in rows]), data


def bart(program, path, folder, *options):
    """What `bart estdelay` says, in the order x, y, xy."""
    trajectory, data = readouts(path)

    def write(name, array):
        shape = list(array.shape) + [1] * (16 - array.ndim)
        (folder / f"{name}.hdr").write_text("# Dimensions\n" + " ".join(map(str, shape)) + "\n")
        array.astype("c8").ravel("F").tofile(folder / f"{name}.cfl")

    k = np.zeros((3, *trajectory.shape[1::-1][:1], len(trajectory)))
    k[:2] = trajectory.transpose(2, 1, 0) * trajectory.shape[1]
    write("k", k)
    write("d", data.transpose(2, 0, 1)[None])
    said = subprocess.run([program, "estdelay", *options, folder / "k", folder / "d"], capture_output=True, text=True)
    y, x, xy = map(float, said.stdout.split()[0].split(":"))
    return x, y, xy


def text(delays):
    return " ".join(f"{value:.4f}" for value in delays) + f" | {max(abs(a - b) for a, b in zip(delays, PUBLISHED)):.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bart", help="also runs this program")
    parser.add_argument("--picture", type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("| scan | by | x, y, xy | largest difference from the published |\n|---|---|---|---|")
        for scan in ("SP69", "SP29"):
            path = DATA / f"sms_radial16/kMB1_top_{scan}.h5"
            for method in ("cross_correlation", "ring"):
                image, delays = reconstruct(path, f"method: {method}, spokes: 69", folder)
                print(f"| {scan} | `{method}` | {text(delays)} |")
                if scan == "SP69" and method == "cross_correlation":
                    corrected = image
            for options in ((), ("-R",)) if given.bart else ():
                print(f"| {scan} | `bart estdelay {' '.join(options)}` | {text(bart(given.bart, path, folder, *options))} |")
        print("\n| delays | uncorrected | given | `ring` | `cross_correlation` |\n|---|---|---|---|---|")
        for delays in SIMULATED:
            scan = folder / "scan.h5"
            run_client("simulate", "-o", scan, "--trajectory", "golden_radial", "--matrix", 128, "--coils", 8,
                       "--readouts", 233, f"--gradient-delays={delays}")  # fmt: skip
            truth = scans.read_array(scan, "truth").squeeze()
            x, y, xy = delays.split(":")
            row = []
            for parameters in ("method: given", f"method: given, x: {x}, y: {y}, xy: {xy}", METHOD,
                               "method: cross_correlation"):  # fmt: skip
                image, _ = reconstruct(scan, parameters, folder)
                row.append(f"{np.linalg.norm(image - truth) / np.linalg.norm(truth):.4f}")
            print(f"| {delays} | {' | '.join(row)} |")
        if given.picture:
            from measured_pictures import write_png

            plain, _ = reconstruct(DATA / "sms_radial16/kMB1_top_SP69.h5", "method: given", folder)
            top = np.percentile(corrected, 99.5)
            write_png(given.picture, np.kron(np.hstack([plain / top, corrected / top]), np.ones((2, 2))))


if __name__ == "__main__":
    main()
