"""The time that a step whose module is slow to load adds to a scan, beyond its function: a process that waits, or a new one.

    first_image.py BIN PYTHON [IMPORT] [SCANS]

IMPORT: a line of the module, such as "import torch"; else it sleeps for two seconds. A scan is that of Python's client,
connect to image: 16 coils and 64^2. BIN: the folder of the programs; PYTHON: an interpreter with our package's needs.
"""

import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "clients" / "python"))

import numpy as np  # noqa: E402

import echotrain  # noqa: E402

MODULE = """
import time
import echotrain
import numpy as np
{}

@echotrain.step(takes="CoilImages", gives="CoilImages")
def f(images):
    begin = time.perf_counter_ns()
    out = 2 * images.data
    images.meta["ns"] = str(time.perf_counter_ns() - begin)
    return out
"""
PIPELINE = """echotrain: 1
name: {}
description: a step
pipeline: [cartesian_kspace, fft: {{direction: inverse}},{} coil_combine: {{method: rss}}, image]
"""
STEP = "python: {module: slow, function: f, takes: CoilImages, gives: CoilImages},"


def scan(port, kspace, pipeline):
    begin = time.perf_counter()
    with echotrain.Client("127.0.0.1", port) as client:
        for image in client.reconstruct(kspace, pipeline=pipeline):
            took = time.perf_counter() - begin
    return 1e3 * took, 1e-6 * float(image.meta.get("ns", 0))


def main():
    programs, python = sys.argv[1:3]
    line = sys.argv[3] if len(sys.argv) > 3 else "time.sleep(2)"
    scans = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    kspace = np.random.default_rng(1).standard_normal((16, 64, 64)).astype(np.complex64)
    for warm in (0, 1):
        with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as free:
            folder, port = pathlib.Path(name), free.getsockname()[1]
            free.close()
            (folder / "m").mkdir()
            (folder / "m" / "slow.py").write_text(MODULE.format(line))
            (folder / "m" / "echotrain").symlink_to(SOURCE / "clients" / "python" / "echotrain")
            for pipeline, step in (("with", STEP), ("without", "")):
                (folder / f"{pipeline}.yaml").write_text(PIPELINE.format(pipeline, step))
            options = ["--port", port, "--admin-port", 0, "--pipelines", folder, "--python", python, "--python-modules",
                       folder / "m", "--python-warm", warm, "--backend", "cpu", "--log-level", "error"]  # fmt: skip
            server = subprocess.Popen([f"{programs}/echotrain-server", *map(str, options)], stdout=subprocess.PIPE, text=True)
            while "listening" not in server.stdout.readline():
                pass
            first, _ = scan(port, kspace, "with")
            time.sleep(1 + 2 * first / 1e3 + 1.5 if warm else 0)
            beyond, own, without = [], [], []
            for _ in range(scans if warm else 3):
                without.append(scan(port, kspace, "without")[0])
                took, function = scan(port, kspace, "with")
                beyond.append(took - function - without[-1])
                own.append(function)
                time.sleep(1 + 2 * first / 1e3 + 1.5 if warm else 0)
            server.terminate()
            server.wait()
        print(f"python_warm {warm}: beyond the function's {statistics.median(own):.2f} ms and the scan's "
              f"{statistics.median(without):.1f} ms: median {statistics.median(beyond):.1f}, most {max(beyond):.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
