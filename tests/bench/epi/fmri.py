"""Functional series as docs/epi.md has them, with nothing but Python and the programs, so that it runs beside a GPU:

    python3 tests/bench/epi/fmri.py --bin build/bin --pipelines config/pipelines --backend cuda [--multiband 2]

A series of `--slices` slices of 64 x 64, 32 coils, on ramps, R = 2, navigators, references once, made by `echotrain
simulate`, goes to a server by `epi_timeseries`: `--volumes` volumes (and a fourth of them) as fast as they go, where the
difference of both tells slices a second (as a stream of messages, so that reading HDF5 does not count); then `--paced` volumes with one echo train each `--pace` ms. Of the paced ones,
latencies of all images and of those after the first volume are told, from the last line sent to the image received, and
by how much the whole series took longer than its pace. `--threads` tells the CPU seconds of the server's threads.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

BASE = (
    "--trajectory epi --matrix 64 --coils 32 --ramp-us 190 --flat-us 160 --gradient-delay-us 3.4 --ghost 0.2 "
    "--acceleration 2 --calibration 24 --calibration-mode separate --interleaved --no-truth"
)
LINES = 3 + 32  # navigators and lines of an echo train


class Bench:
    def __init__(self, folder, arguments):
        self.folder, self.arguments = folder, arguments
        self.client = pathlib.Path(arguments.bin) / "echotrain"
        self.config = folder / "epi_timeseries.yaml"
        text = (pathlib.Path(arguments.pipelines) / "epi_timeseries.yaml").read_text()
        self.config.write_text(text.replace("backend: auto", f"backend: {arguments.backend}"))
        log = folder / "server.log"
        command = [pathlib.Path(arguments.bin) / "echotrain-server", "--port", "0", "--admin-port", "0",
                   "--pipelines", arguments.pipelines]
        with open(log, "wb") as to:
            self.server = subprocess.Popen([str(c) for c in command], stdout=to, stderr=subprocess.STDOUT)
        found, end = None, time.monotonic() + 20
        while not (found := re.search(r"listening on (\S+):(\d+)", log.read_text(errors="replace"))):
            if self.server.poll() is not None or time.monotonic() > end:
                sys.exit(log.read_text(errors="replace"))
            time.sleep(0.05)
        self.address = ["-a", found[1], "-p", found[2]]

    def run(self, *arguments):
        begin = time.monotonic()
        command = [str(a) for a in (self.client, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return done.stdout, time.monotonic() - begin

    def simulate(self, volumes):
        a = self.arguments
        path = self.folder / "series.h5"
        more = f"--multiband {a.multiband} --fov-shift {a.multiband}" if a.multiband > 1 else ""
        _, seconds = self.run("simulate", "-o", path, *f"{BASE} --slices {a.slices} --frames {volumes} {more}".split())
        print(f"    {volumes} volumes: {path.stat().st_size / 2**20:.0f} MiB, made in {seconds:.1f} s", flush=True)
        return path

    def send(self, scan, *options, command="send"):
        output = self.folder / "images.h5"
        output.unlink(missing_ok=True)
        return self.run(command, scan, "-c", self.config, *self.address, "-o", output, *options)

    def threads(self):
        """CPU seconds of the server's threads so far; those of threads that have ended as `ended`."""
        out, ended = {}, pathlib.Path(f"/proc/{self.server.pid}/stat")
        for task in pathlib.Path(f"/proc/{self.server.pid}/task").iterdir():
            try:
                out[task.name] = self.cpu_s(task / "stat")
            except OSError:
                continue
        return {**out, "ended": self.cpu_s(ended) - sum(out.values())}

    @staticmethod
    def cpu_s(path):
        fields = path.read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def unpaced(self):
        a = self.arguments
        times = []
        for volumes in (a.volumes // 4, a.volumes):
            scan, stream = self.simulate(volumes), self.folder / "series.mrd"
            self.run("convert", scan, stream)
            scan.unlink()
            found = []
            for _ in range(a.repeat):
                before = self.threads()
                found.append(self.send(stream, command="replay")[1])
                if a.threads:
                    spent = sorted((s - before.get(t, 0) for t, s in self.threads().items()), reverse=True)
                    print(f"    {found[-1]:.2f} s; threads: " + " ".join(f"{s:.2f}" for s in spent[:6]), flush=True)
            times.append(min(found))
        slices, more = (a.volumes - a.volumes // 4) * a.slices, times[1] - times[0]
        rate = f"{slices / more:.0f} slices/s" if more > 0 else "no rate (give more --volumes)"
        print(f"unpaced, {a.slices} slices x {a.volumes} volumes, {a.multiband} at once: {rate}", flush=True)

    def paced(self):
        a = self.arguments
        scan = self.simulate(a.paced)
        said, seconds = self.send(scan, "--rate", LINES * 1000 / a.pace, "--latency")
        print(f"paced, {a.pace} ms an echo train, {a.paced} volumes of {a.slices}, {a.multiband} at once: {seconds:.1f} s")
        print("\n".join(line for line in said.splitlines() if re.search(r"p50|p9|\d ms  |queue|compute|copy|\s-\s", line)))
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.environ.get("ECHOTRAIN_BIN_DIR", "build/bin"))
    parser.add_argument("--pipelines", default="config/pipelines")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--multiband", type=int, default=1)
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--volumes", type=int, default=20, help="as fast as they go; 0: none")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--paced", type=int, default=100, help="volumes; 0: none")
    parser.add_argument("--pace", type=float, default=33, help="ms an echo train")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--folder", help="for the series: of memory, where there is one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        bench = Bench(pathlib.Path(name), arguments)
        try:
            if arguments.volumes > 0:
                bench.unpaced()
            if arguments.paced > 0:
                bench.paced()
        finally:
            bench.server.terminate()
            bench.server.wait(20)


if __name__ == "__main__":
    main()
