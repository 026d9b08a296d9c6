"""What EPI costs beside plain Cartesian lines, and series of volumes, over TCP, for docs/epi.md:

    ECHOTRAIN_BIN_DIR=build/bin python3 tests/bench/epi/series.py [--backend cuda] [--only error,slice,series,multiband]

error: matrix 96, 32 coils, ramps of 190 us, a gradient that is 3.4 us late, a ghost of 20 %, R = 2, 6/8: NRMSE against
the truth, beside that without faults. slice: 128 x 128 x 32, from the last line to the image, by `epi_2d` and by
`cartesian_plain` plain, paced, and the server's CPU time for each slice. series: `--slices` slices of 64 x 64 x 32, R = 2,
references once, by `epi_timeseries`: slices a second as fast as they go (by the difference of a long and a short series,
so that start and references do not count), and paced at `--pace` ms an echo train for `--paced-volumes` volumes.
multiband: the same with two slices at once. entropy: time of the first image with `refine: entropy` beside that without,
128 x 128 x 32.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "support"))
import reference  # noqa: E402
import scans  # noqa: E402
from programs import Server, run_client, variant  # noqa: E402

RAMPS = "--ramp-us 190 --flat-us 160"
FAULTS = "--gradient-delay-us 3.4 --ghost 0.2"
LEFT_OUT = "--acceleration 2 --calibration 24 --calibration-mode separate"


class Bench:
    def __init__(self, folder, backend, arguments):
        self.folder, self.backend, self.arguments = folder, backend, arguments
        self.server = Server(folder, *arguments.server)

    def simulate(self, name, options):
        path = self.folder / f"{name}.h5"
        made = run_client("simulate", "-o", path, *options.split(), timeout=3600)
        if made.returncode != 0:
            sys.exit(made.stderr)
        return path

    def config(self, name, *changes):
        path = self.folder / f"{name}.yaml"
        path.write_text(variant(name, ("backend: auto", f"backend: {self.backend}"), *changes))
        return path

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, scan, config, *options):
        """(what was said, seconds, the server's CPU seconds); the images are in images.h5."""
        output = self.folder / "images.h5"
        output.unlink(missing_ok=True)
        cpu, begin = self.cpu_s(), time.monotonic()
        result = self.server.send(scan, config, output, *options, timeout=3600)
        if result.returncode != 0:
            sys.exit(result.stdout + result.stderr)
        return result.stdout, time.monotonic() - begin, self.cpu_s() - cpu

    def error(self):
        base = f"--trajectory epi --matrix 96 --coils 32 {RAMPS}"
        kinds = {
            "all lines": "",
            "R = 2, 24 reference lines before": LEFT_OUT,
            "R = 2, 6/8, 24 reference lines before": f"{LEFT_OUT} --partial-fourier 0.75",
            "R = 2, 6/8, FLASH references": f"{LEFT_OUT} --partial-fourier 0.75 --references flash",
        }
        print("| scan | without faults | with both | ratio |\n|---|---|---|---|")
        for name, options in kinds.items():
            found = []
            for faults in ("", FAULTS):
                scan = self.simulate("error", f"{base} {options} {faults}")
                self.send(scan, self.config("epi_timeseries"))
                image = scans.read_images(self.folder / "images.h5")[1][0].squeeze()
                found.append(reference.nrmse(image, scans.read_array(scan, "truth")))
            print(f"| {name} | {found[0]:.5f} | {found[1]:.5f} | {found[1] / found[0]:.3f} |", flush=True)

    @staticmethod
    def latency(said):
        """p50 and p99 of the server's own times, last line received to image queued, else those of the client [ms]."""
        found = re.search(r"p50 ([\d.]+) ms, p90 [\d.]+ ms, p99 ([\d.]+) ms", said)
        return f"p50 {found[1]} ms, p99 {found[2]} ms" if found else "not told"

    def slice(self):
        frames, rate = self.arguments.frames, self.arguments.rate
        plain = self.simulate("plain", f"--trajectory cartesian --matrix 128 --coils 32 --frames {frames}")
        epi = self.simulate("epi", f"--trajectory epi --matrix 128 --coils 32 {RAMPS} {FAULTS} --frames {frames}")
        for name, scan in (("cartesian_plain", plain), ("epi_2d", epi), ("epi_timeseries", epi), ("cartesian_plain", plain)):
            said, _, cpu = self.send(scan, self.config(name), "--rate", rate, "--latency")
            print(f"{name}: {self.latency(said)}, paced at {rate} lines/s; {1000 * cpu / frames:.1f} ms of CPU a slice")
            print(re.sub(r"(?m)^", "    ", said.strip()), flush=True)
            _, _, cpu = self.send(scan, self.config(name))
            print(f"{name}: {1000 * cpu / frames:.2f} ms of CPU a slice at once", flush=True)

    def series(self, more=""):
        a = self.arguments
        slices = f"--slices {a.slices} --interleaved {more}"
        base = f"--trajectory epi --matrix 64 --coils 32 {RAMPS} {FAULTS} {LEFT_OUT} {slices}"
        times = {}
        for volumes in (a.volumes // 4, a.volumes):
            scan = self.simulate("series", f"{base} --frames {volumes}")
            times[volumes] = min(self.send(scan, self.config("epi_timeseries"))[1:] for _ in range(2))
        (few, (short, cpu_short)), (many, (long, cpu_long)) = times.items()
        slices = (many - few) * a.slices
        rate = f"{slices / (long - short):.0f} slices/s" if long > short else "no rate (give more --volumes)"
        cost = 1000 * (cpu_long - cpu_short) / slices
        print(
            f"{a.slices} slices x {many} volumes, 64 x 64 x 32, R = 2{more}: {rate}, {cost:.2f} ms of CPU a slice",
            flush=True,
        )
        if a.paced_volumes == 0:
            return
        scan = self.simulate("series", f"{base} --frames {a.paced_volumes}")
        lines = 3 + 32  # navigators and lines of a slice, or of those at once
        said, seconds, _ = self.send(scan, self.config("epi_timeseries"), "--rate", lines * 1000 / a.pace, "--latency")
        print(f"paced at {a.pace} ms an echo train: {self.latency(said)}, {seconds:.1f} s in all")
        print(re.sub(r"(?m)^", "    ", said.strip()), flush=True)

    def multiband(self):
        self.series(" --multiband 2 --fov-shift 2")

    def entropy(self):
        scan = self.simulate("entropy", f"--trajectory epi --matrix 128 --coils 32 {RAMPS} {FAULTS}")
        for refine in ("none   ", "entropy"):
            changes = (("refine: none ", f"refine: {refine.strip()} "),)
            times = [self.send(scan, self.config("epi_2d", *changes))[1:] for _ in range(3)]
            seconds, cpu = (min(values) for values in zip(*times))
            print(f"refine: {refine} {seconds:.3f} s, {cpu:.3f} s of CPU", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", default="error,slice,entropy,series,multiband")
    parser.add_argument("--frames", type=int, default=24, help="of `slice`")
    parser.add_argument("--rate", type=float, default=2000, help="of `slice`: lines a second")
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--volumes", type=int, default=20)
    parser.add_argument("--pace", type=float, default=33, help="of `series`: ms an echo train")
    parser.add_argument("--paced-volumes", type=int, default=3)
    parser.add_argument("server", nargs="*", help="further options of the server, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(pathlib.Path(name), arguments.backend, arguments)
        try:
            for part in arguments.only.split(","):
                print(f"# {part}", flush=True)
                getattr(bench, part)()
        finally:
            bench.server.stop()


if __name__ == "__main__":
    main()
