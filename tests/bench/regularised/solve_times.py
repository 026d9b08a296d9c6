"""How long `regularised` takes on this machine, by the server's own clock, with simulated data only (numpy and h5py, nothing
else): for a GPU machine that has a build's programs and this folder.

    python3 tests/bench/regularised/solve_times.py build/bin/echotrain-server [CASE...] [--backend cuda] [--rounds 5]

    wavelet, total_variation   230 x 180, 8 coils, 12 % of the points at random with a full middle, as the brain of
                               poisson_brain.py, with its pipelines
    grasp                      256 x 256, 16 coils, 100 frames of 21 golden-angle spokes of 512 samples, solved together
    grasp_small                the same of 128 x 128, 6 coils, 20 frames

The body is Gaussians under smooth coils, so that k-space is known in closed form; contrast rises from frame to frame.
Printed: `echotrain_compute_ms` of the last image, which is the time from taking the batch that completes the series until
the image is computed, and `echotrain_latency_ms`; of the first connection, whose operators are new, and the median of the
later ones. All bytes are sent at once, so a queue time would not say anything. Seconds of the processor are those of all threads
of the server, of a whole connection.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/support"))
import scans  # noqa: E402
import wire  # noqa: E402

PIPELINE = """echotrain: 1
name: solve
description: Regularised least squares
pipeline:
  - cartesian_kspace: {{calibration: none}}
  - encoding
  - coil_maps: {{method: given}}
  - regularised: {{scale: relative, lambda: 0.005, {options}}}
  - image: {{component: magnitude, type: float}}
"""
GRASP = """echotrain: 1
name: solve
description: GRASP
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {{method: ramp}}
  - fhd: {{dimensions: 2, method: nufft, accuracy: 1e-4}}
  - coil_maps: {{method: adaptive, calibration: 20}}
  - regularised: {{prior: temporal_variation, series: repetition, frames: {frames}, lambda: 0.02, iterations: 40,
                  tolerance: {tolerance}}}
  - image: {{component: magnitude, type: float}}
"""
OPTIONS = {
    "wavelet": "prior: wavelet, iterations: 18, tolerance: 0",
    "total_variation": "prior: total_variation, iterations: 22, tolerance: 0, inner: 10",
}
# Each blob has: value, x, y and width as shares of the field of view, and how much it gains from the first frame to the last.
BLOBS = [(1.0, 0, 0, 0.22, 0), (0.8, -0.15, 0.05, 0.06, 1.5), (0.6, 0.18, 0.1, 0.05, 0.8), (-0.5, 0.05, -0.2, 0.04, 0),
         (0.7, 0.1, 0.22, 0.03, 1.0), (0.5, -0.2, -0.15, 0.025, 0.5)]  # fmt: skip


class Coils:
    """Smooth profiles, sums of four plane waves, which only move k-space."""

    def __init__(self, coils, extent):
        self.waves = []
        for c in range(coils):
            at = 0.4 * np.array([np.cos(2 * np.pi * c / coils + 0.3), np.sin(2 * np.pi * c / coils + 0.3)])
            steps = 0.33 * np.array([(1, 0.15), (-0.9, 0.2), (0.1, -1.05), (-0.2, 0.95)])
            self.waves.append([(q / extent, 0.5 * np.exp(-2j * np.pi * q @ at) / np.sqrt(coils)) for q in steps])

    def maps(self, ny, nx):
        y, x = np.meshgrid(np.arange(ny) - ny // 2, np.arange(nx) - nx // 2, indexing="ij")
        return np.array([sum(w * np.exp(2j * np.pi * (q[0] * x + q[1] * y)) for q, w in waves) for waves in self.waves])

    def signal(self, kx, ky, extent, gain):
        """[coil, ...] at k in cycles/pixel; `gain`: of the contrast, 0 to 1, of k's shape or a number."""
        out = []
        for waves in self.waves:
            total = 0
            for q, w in waves:
                u, v = kx - q[0], ky - q[1]
                for value, x, y, width, rise in BLOBS:
                    s = width * extent
                    total = total + w * (value + rise * gain) * 2 * np.pi * s**2 * np.exp(
                        -2 * np.pi**2 * s**2 * (u**2 + v**2) - 2j * np.pi * extent * (u * x + v * y))  # fmt: skip
            out.append(total)
        return np.array(out).astype(np.complex64)


def points():
    """5130 of 230 x 180 points, one to a readout: the middle of 20 x 20, others at random, denser in the middle."""
    ny, nx, coils = 180, 230, 8  # y of readouts and "z"; the readout axis has one point
    random = np.random.default_rng(1)
    z, y = np.meshgrid(np.arange(nx) - nx // 2, np.arange(ny) - ny // 2, indexing="ij")
    chance = 1 / (0.05 + (2 * z / nx) ** 2 + (2 * y / ny) ** 2)
    chance[(abs(z) <= 10) & (abs(y) <= 10)] = 1e9
    came = np.zeros(nx * ny, bool)
    came[np.argsort(-np.log(random.random(nx * ny) + 1e-300) / chance.ravel())[:5130]] = True
    came = came.reshape(nx, ny)
    coil = Coils(coils, ny)
    maps = coil.maps(nx, ny)[..., None]  # [coil, z, y, x = 1]
    data = coil.signal(y / ny, z / nx, ny, 0.5)
    data = data + 0.002 * np.abs(data).max() * (random.normal(size=data.shape) + 1j * random.normal(size=data.shape))
    messages = [wire.image(maps.astype("c8"), "coil_maps")]
    chosen = np.argwhere(came)
    for i, (p, line) in enumerate(chosen):
        flags = wire.LAST_IN_SLICE * (i + 1 == len(chosen))
        messages.append(wire.acquisition(data[:, p, line, None], None, flags, line, counter=i, step2=p))
    xml = scans.header_xml("cartesian", (1, ny, nx), readouts=ny)
    limit = (f"<kspace_encoding_step_2><minimum>0</minimum><maximum>{nx - 1}</maximum><center>{nx // 2}</center>"
             "</kspace_encoding_step_2>")  # fmt: skip
    accelerated = ("<parallelImaging><accelerationFactor><kspace_encoding_step_1>1</kspace_encoding_step_1>"
                   "<kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor></parallelImaging>")  # fmt: skip
    xml = xml.replace("<repetition>", limit + "<repetition>").replace("</encoding>", accelerated + "</encoding>")
    return scans.Scan(xml, messages)


def spokes(matrix, coils, frames, per_frame=21):
    samples = 2 * matrix
    angle = np.arange(frames * per_frame) * np.deg2rad(111.246117975)
    radius = np.arange(samples) / samples - 0.5
    coil = Coils(coils, matrix)
    random = np.random.default_rng(1)
    messages = []
    for n, a in enumerate(angle):
        k = np.stack([radius * np.cos(a), radius * np.sin(a)], axis=-1)
        data = coil.signal(k[:, 0], k[:, 1], matrix, n / len(angle))
        data = data + 0.5 * (random.normal(size=data.shape) + 1j * random.normal(size=data.shape))
        first, last = n % per_frame == 0, n % per_frame == per_frame - 1
        flags = wire.FIRST_IN_SLICE * first | wire.LAST_IN_SLICE * last
        messages.append(wire.acquisition(data, k, flags, n % per_frame, n // per_frame, counter=n))
    return scans.Scan(scans.header_xml("goldenangle", (matrix, matrix, 1), readouts=per_frame, repetitions=frames), messages)


class Server:
    def __init__(self, program, backend, folder):
        self.log = pathlib.Path(folder) / "server.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen([program, "--port", "0", "--backend", backend, "--log-level", "info"], stdout=out,
                                            stderr=out)  # fmt: skip
        for _ in range(300):
            found = re.search(r"listening on (\S+):(\d+)", self.log.read_text())
            if found:
                break
            time.sleep(0.1)
        else:
            self.process.terminate()
            sys.exit(f"the server did not start:\n{self.log.read_text()}")
        self.address = (found[1], int(found[2]))

    def seconds(self):
        """The processor time of all threads so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server, name, text, scan, images, rounds):
    computed, latencies, walls, work = [], [], [], []
    for _ in range(rounds + 1):
        begin, before = time.perf_counter(), server.seconds()
        reply = wire.exchange(server.address, scan.stream(wire.config_text(text)), timeout_s=900)
        walls.append(time.perf_counter() - begin)
        work.append(server.seconds() - before)
        if reply.errors() or len(reply.images) != images:
            sys.exit(f"{name}: {reply.texts}, {len(reply.images)} images")
        notes = dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)", reply.images[-1].attributes))
        computed.append(float(notes["echotrain_compute_ms"]))
        latencies.append(float(notes["echotrain_latency_ms"]))
    solved = {key[12:]: value for key, value in notes.items() if key.startswith("regularised_")}
    print(f"{name}: compute of the last image {computed[0]:.1f} ms first, then {statistics.median(computed[1:]):.1f} ms; latency "
          f"{latencies[0]:.1f}, {statistics.median(latencies[1:]):.1f} ms; connection {walls[0]:.2f}, "
          f"{statistics.median(walls[1:]):.2f} s; processor {work[0]:.2f}, {statistics.median(work[1:]):.2f} s; {solved}",
          flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", default=["wavelet", "total_variation", "grasp_small", "grasp"])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tolerance", default="1e-3", help="of GRASP; 0: all 40 iterations")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.server.resolve(), arguments.backend, folder)
        try:
            poisson = None
            for name in arguments.cases:
                if name in OPTIONS:
                    poisson = poisson or points()
                    measure(server, name, PIPELINE.format(options=OPTIONS[name]), poisson, 1, arguments.rounds)
                else:
                    matrix, coils, frames = {"grasp": (256, 16, 100), "grasp_small": (128, 6, 20)}[name]
                    text = GRASP.format(frames=frames, tolerance=arguments.tolerance)
                    measure(server, name, text, spokes(matrix, coils, frames), frames, arguments.rounds)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
