"""docs/cg_sense.png: measured spirals with interleaves left out, gridded and by cg_sense_2d.

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/cg_sense_picture.py build/bin/echotrain docs/cg_sense.png
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration" / "support"))
import scans  # noqa: E402


def write_png(path, image):
    """64 greys, about as many as the eye tells apart, so that noise compresses well; `image`: 0..1."""
    rows = (np.round(np.clip(image, 0, 1) * 63) * (255 / 63)).astype(np.uint8)
    height, width = rows.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    pathlib.Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def main():
    program, output = sys.argv[1:3]
    path = pathlib.Path(os.environ["ECHOTRAIN_DATA"]) / "spiral_phantom8/spiral_phantom8.h5"
    _, _, trajectory, data = scans.read_acquisitions(path)
    panels = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for step, pipelines in ((1, ["spiral_2d"]), (2, ["spiral_2d", "cg_sense_2d"]), (3, ["spiral_2d", "cg_sense_2d"])):
            scans.non_cartesian("spiral", (256, 256, 1), trajectory[::step], data[::step]).save(folder / "scan.h5")
            for pipeline in pipelines:
                command = [program, "recon", folder / "scan.h5", "-c", pipeline, "-o", folder / "image.h5"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                image = scans.read_images(folder / "image.h5")[1][0][0, 0]
                panels.append(image / np.percentile(image, 99.5))
    write_png(output, np.hstack(panels))


if __name__ == "__main__":
    main()
