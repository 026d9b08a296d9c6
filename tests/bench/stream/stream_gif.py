"""docs/stream.gif: a radial scan that streams through a server, in real time.

    python3 tests/bench/stream/stream_gif.py build/bin docs/stream.gif

A simulated golden-angle scan (8 coils, noise) is sent at the pace of a scanner, 15 ms per readout. The pipeline grids every
12 readouts and gives the mean of all images so far, as complex coil images, so each image is that of all spokes so far.
Left: the spokes that have been sent, the newest in orange. Right: the image that the server has sent back. Needs h5py and
Pillow.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE, SPOKES, FRAMES, TR_MS = 240, 12, 26, 15
CAPTION, HOLD_MS = 26, 2500
BLACK, WHITE, GREY, ORANGE = 0, 239, 240, 241  # of the palette: 240 greys, then two colours more
PIPELINE = f"""echotrain: 1
name: growing
description: an image of all spokes so far, after every {SPOKES}
frame: {{readouts: {SPOKES}}}
pipeline:
  - density_compensation: {{method: ramp}}
  - gridding
  - fft
  - deapodization
  - average: {{over: repetition, running: true}}
  - coil_combine
  - image
"""


def stream(programs, folder):
    """Simulates the scan, sends it to a server at a scanner's pace, and leaves images.h5."""
    (folder / "growing.yaml").write_text(PIPELINE)
    subprocess.run([programs / "echotrain", "simulate", "-o", folder / "scan.h5", "--trajectory", "golden_radial", "--matrix",
                    str(SIZE), "--coils", "8", "--readouts", str(SPOKES), "--frames", str(FRAMES), "--noise", "1", "--tr-ms",
                    str(TR_MS), "--no-truth"], check=True, stdout=subprocess.DEVNULL)
    log = folder / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen([programs / "echotrain-server", "--port", "0"], stdout=out, stderr=out)
    try:
        for _ in range(100):
            port = re.search(r"listening on \S*:(\d+)", log.read_text())
            if port:
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"the server did not start:\n{log.read_text()}")
        subprocess.run([programs / "echotrain", "send", folder / "scan.h5", "-c", folder / "growing.yaml", "-p", port.group(1),
                        "-o", folder / "images.h5", "--rate", str(1000 / TR_MS)], check=True, stdout=subprocess.DEVNULL)
    finally:
        server.terminate()
        server.wait()


def spokes_of(scan):
    """The ends of each readout's spoke in cycles/pixel: [readout, 2, 2]."""
    with h5py.File(scan) as file:
        heads, trajectories = file["dataset/data"]["head"], file["dataset/data"]["traj"]
    return np.array([t.reshape(h["number_of_samples"], h["trajectory_dimensions"])[[0, -1], :2]
                     for h, t in zip(heads, trajectories)])


def images_of(path):
    """Pixels [image, y, x]."""
    with h5py.File(path) as file:
        return file["dataset/image_1/data"][:, 0, 0]


def picture(spokes, sent, image, caption):
    out = Image.new("P", (2 * SIZE, SIZE + CAPTION), BLACK)
    out.putpalette([level * 255 // WHITE for level in range(WHITE + 1) for _ in range(3)] + [120, 120, 130, 255, 150, 40])
    draw = ImageDraw.Draw(out)
    for number in range(sent):
        ends = SIZE / 2 + 0.92 * SIZE * spokes[number]
        draw.line([tuple(ends[0]), tuple(ends[1])], fill=ORANGE if number >= sent - SPOKES else GREY)
    out.paste(Image.fromarray(image, "P"), (SIZE, 0))
    draw.text((8, SIZE + 5), caption, fill=WHITE, font=ImageFont.load_default(size=13))
    return out


def main():
    programs, target = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        stream(programs, folder)
        spokes = spokes_of(folder / "scan.h5")
        pixels = images_of(folder / "images.h5")
    top = np.percentile(pixels[-1], 97.5)
    # 30 greys are enough for the eye, and halve the file.
    grey = np.round(np.clip(pixels / top, 0, 1) * 29).astype(np.uint8) * (WHITE // 29)
    frames = []
    for number, image in enumerate(grey, 1):
        sent = number * SPOKES
        caption = f"{sent * TR_MS / 1000:4.2f} s: {sent} of {len(spokes)} readouts sent, image {number} is back"
        frames.append(picture(spokes, sent, image, caption))
    durations = [TR_MS * SPOKES] * (len(frames) - 1) + [HOLD_MS]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=False)
    print(f"{target}: {len(frames)} frames, {target.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
