"""docs/realtime.gif and docs/realtime.png: a measured spiral scan in real time, six times undersampled.

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/realtime/realtime_gif.py build/bin/echotrain docs

spiral_b0_octopus, a phantom (ACR), 20 coils, 54 interleaves: image i is of the 9 interleaves i, i + 6, i + 12, ..., so that
six frames follow each other as in a real-time scan that turns its interleaves from frame to frame. GIF, of each frame: on the
left gridding (spiral_2d), then CG-SENSE of the same 9 interleaves, each frame by itself (cg_sense_2d) and from the frame before
(cg_sense_realtime), both with the weights that the data bring; on the right what they are after, all 54 by gridding. The still
picture is the last frame. Printed: the
relative difference of each from the right one, magnitudes, with the best factor. Of measured data only sets are shown whose
licence allows it (docs/data.md). Needs Pillow.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/support"))
import scans  # noqa: E402
import wire  # noqa: E402
from programs import DATA, SHIPPED  # noqa: E402

MATRIX, INTERLEAVES, FRAMES, CAPTION = 192, 54, 6, 22


def scan(k, data, groups):
    """Readouts of each group as a frame (repetition)."""
    messages = []
    for f, group in enumerate(groups):
        for i, r in enumerate(group):
            flags = wire.FIRST_IN_SLICE * (i == 0) | wire.LAST_IN_SLICE * (i + 1 == len(group))
            messages.append(wire.acquisition(data[r], k[r], flags, i, f, center=0, counter=len(messages)))
    xml = scans.header_xml("spiral", (MATRIX, MATRIX, 1), readouts=len(groups[0]), repetitions=len(groups))
    return scans.Scan(xml, messages)


def images(program, folder, name, made, *changes):
    text = (SHIPPED / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text, f"{name}.yaml has no '{old}'"
        text = text.replace(old, new)
    (folder / "pipeline.yaml").write_text(text)
    made.save(folder / "scan.h5")
    (folder / "images.h5").unlink(missing_ok=True)
    subprocess.run([program, "recon", folder / "scan.h5", "-c", folder / "pipeline.yaml", "-o", folder / "images.h5"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    return scans.read_images(folder / "images.h5")[1][:, 0, 0]


def difference(image, truth):
    factor = np.sum(image * truth) / np.sum(image**2)
    return np.linalg.norm(factor * image - truth) / np.linalg.norm(truth)


def picture(panels, captions):
    out = Image.new("L", (len(panels) * MATRIX, MATRIX + CAPTION))
    draw = ImageDraw.Draw(out)
    for i, (panel, caption) in enumerate(zip(panels, captions, strict=True)):
        grey = np.round(np.clip(panel / np.percentile(panel, 99.5), 0, 1) * 31).astype(np.uint8) * (255 // 31)
        out.paste(Image.fromarray(grey), (i * MATRIX, 0))
        draw.text((i * MATRIX + 4, MATRIX + 4), caption, fill=255, font=ImageFont.load_default(size=12))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("docs", type=pathlib.Path)
    arguments = parser.parse_args()
    _, _, k, data = scans.read_acquisitions(DATA / "spiral_b0_octopus/spiral20.h5")
    groups = [list(range(f, INTERLEAVES, FRAMES)) for f in range(FRAMES)]
    with tempfile.TemporaryDirectory() as name:
        folder, program = pathlib.Path(name), arguments.program.resolve()
        (truth,) = images(program, folder, "spiral_2d", scan(k, data, [list(range(INTERLEAVES))]))
        gridded = images(program, folder, "spiral_2d", scan(k, data, groups))
        solved = images(program, folder, "cg_sense_2d", scan(k, data, groups), ("method: ramp", "method: from_data"))
        streamed = images(program, folder, "cg_sense_realtime", scan(k, data, groups), ("frame: {readouts: 21}", "frame: auto"),
                          ("method: ramp, share: equal", "method: from_data"))  # fmt: skip
    for title, found in (("gridding", gridded), ("cg_sense_2d", solved), ("cg_sense_realtime", streamed)):
        away = [difference(each, truth) for each in found]
        print(f"{title}: {np.mean(away):.3f} from all interleaves, mean of frames, the last one {away[-1]:.3f}")
    frames = [picture((g, s, r, truth), (f"{f + 1}: 9 interleaves, gridding", "the same, cg_sense_2d", "cg_sense_realtime",
                                         "all 54, gridding"))
              for f, (g, s, r) in enumerate(zip(gridded, solved, streamed, strict=True))]  # fmt: skip
    frames[-1].save(arguments.docs / "realtime.png", optimize=True)
    frames[0].save(arguments.docs / "realtime.gif", save_all=True, append_images=frames[1:], duration=400, loop=0)
    print(f"{arguments.docs / 'realtime.gif'}: {(arguments.docs / 'realtime.gif').stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
