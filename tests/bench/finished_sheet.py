"""docs/pictures/finished.png and the table of docs/gallery.md: measured scans by cartesian_plain, and finished.

    ECHOTRAIN_DATA=../shared/data python3 tests/bench/finished_sheet.py build/bin/echotrain docs [all]

Each pair of the sheet is a scan: left before, right after, each with its 99.5th percentile as white. Only scans whose
licence allows a picture are drawn (docs/data.md); with `all` every one, for the eyes of who runs this, and the page stays
as it is. What is left out of measured k-space here is what a faster scan would have left out, and the image of all of it
the truth. Shading is the standard deviation over the mean of the object, without its borders, smoothed to a sixteenth of
the picture. Other figures are of images without `intensity`, unless a prescan gives the field. Needs Pillow.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw

BENCH = pathlib.Path(__file__).resolve().parent
for place in (BENCH / "cartesian", BENCH.parent / "integration" / "support"):
    sys.path.insert(0, str(place))
import ghosts  # noqa: E402
import reference  # noqa: E402
import scans  # noqa: E402
import wire  # noqa: E402
from measured_fold import wrapped  # noqa: E402
from measured_partial_fourier import width  # noqa: E402
from measured_scans import DATA, cases, error, scan_of, whole_2d  # noqa: E402
from pictures import write_png  # noqa: E402
from programs import SHIPPED  # noqa: E402

SIDE, PAIRS, GAP, TITLE = 112, 4, 4, 14
TURNED = ("  - orient", "  # - orient")  # leaves images as they were encoded
LINES_TURNED = ("epi_2d", ("method: linear ", "method: none "), ("delay: navigators ", "delay: given "))
PRESCAN = 1 << 28
BEGIN, END = "<!--finished_sheet.py-->\n||scan|pipeline|before and after|\n|---|---|---|---|\n", "<!--end-->"


def smooth(image, sigma):
    """A Gaussian of `sigma` pixels, by transforms: what leaves one side comes in at the other."""
    k = [np.exp(-2 * (np.pi * sigma * np.fft.fftfreq(n)) ** 2) for n in image.shape]
    return np.fft.ifft2(np.fft.fft2(image) * np.outer(*k)).real


def shading(image):
    """Standard deviation over mean [%] of an object without its borders, smoothed to a sixteenth of the picture."""
    signal = smooth(image, 1.5) > 0.15 * np.percentile(image, 99)
    weight, low = (smooth(np.where(signal, v, 0), min(image.shape) / 16) for v in (1.0, image))
    inside = signal & (weight > 0.9)
    return 100 * np.std(low[inside] / weight[inside]) / np.mean(low[inside] / weight[inside])


class Sheet:
    def __init__(self, program, folder, everything):
        self.program, self.folder, self.all, self.rows, self.pairs = program, folder, everything, [], []

    def image(self, scan, pipeline, *changes):
        """The first image [y, x] of a scan by a shipped pipeline, of which parts are replaced."""
        text = (SHIPPED / f"{pipeline}.yaml").read_text()
        for old, new in changes:
            assert old in text, (pipeline, old)
            text = text.replace(old, new)
        config, out = self.folder / "pipeline.yaml", self.folder / "images.h5"
        config.write_text(text)
        out.unlink(missing_ok=True)
        if not isinstance(scan, pathlib.Path):
            scan.save(self.folder / "scan.h5")
            scan = self.folder / "scan.h5"
        done = subprocess.run([self.program, "recon", scan, "-c", config, "-o", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return np.abs(scans.read_images(out)[1][0, 0].astype(complex)).squeeze()

    def add(self, name, scan, finished, what="", figure=None, field="none", before=("cartesian_plain",), shown=False):
        """figure: a number of an image [y, x] that is not turned, with this method of `intensity`; `what` says which.
        shown: the scan's licence allows a picture."""
        plain, full = self.image(scan, *before), self.image(scan, finished)
        text = f"shading {shading(plain):.0f} to {shading(full):.0f} %"
        if figure:
            method = "prescan" if finished.startswith("epi") else "auto"
            field = (f"intensity: {{method: {method}}}", f"intensity: {{method: {field}}}")
            text = f"{what} {figure(plain):.2g} to {figure(self.image(scan, finished, TURNED, field)):.2g}"
        if shown or self.all:
            self.pairs.append((plain, full))
        self.rows.append(f"|{len(self.pairs) if shown or self.all else ''}|{name}|`{finished}`|{text}|")
        print(self.rows[-1], flush=True)


def nrmse(truth):
    return lambda image: error(image, truth)


def ratio_to(truth):
    """Standard deviation over mean of the image over another one, of means of 3 x 3, in per cent."""
    block = smooth(truth, 1.2)
    signal = block > 0.5 * np.percentile(block, 99)

    def of(image):
        ratio = (smooth(image, 1.2) / block)[signal]
        return 100 * ratio.std() / ratio.mean()

    return of


def some_of(kspace, came, reference_lines=None, steps=(1, 1)):
    """A scan of these rows [z, y] of k-space [coil, z, y, x]."""
    reference_lines = np.zeros_like(came) if reference_lines is None else reference_lines
    return scan_of(kspace, came, reference_lines, steps, "embedded" if reference_lines.any() else "other")


def with_prescan(array, body):
    """The array's scan, and before it the central 32 lines of both coils as a prescan (flag 29)."""
    xml, heads, trajectories, data = scans.read_acquisitions(DATA / array)
    prescan = []
    for file in (array, body):
        _, of, _, samples = scans.read_acquisitions(DATA / file)
        prescan += [wire.acquisition(line, None, PRESCAN, int(head["idx"]["kspace_encode_step_1"]))
                    for head, line in zip(of, samples) if 48 <= head["idx"]["kspace_encode_step_1"] < 80]  # fmt: skip
    lines = [wire.acquisition(line, None, int(head["flags"]), int(head["idx"]["kspace_encode_step_1"]))
             for head, line in zip(heads, data)]  # fmt: skip
    return scans.Scan(xml, prescan + lines)


def rss(kspace):
    """[y, x] of k-space [coil, 1, y, x]."""
    return np.linalg.norm(reference.picture(kspace[:, 0]), axis=0)


def plane(kspace):
    """[z, y] of k-space [coil, z, y, 1]."""
    return np.linalg.norm(reference.picture(kspace[..., 0]), axis=0)


def measured(sheet):
    head, body = "cartesian_flash_phantom/headcoil16.h5", "cartesian_flash_phantom/bodycoil2.h5"
    sheet.add("phantom, head coil of 16", DATA / head, "cartesian_2d", shown=True)
    sheet.add("with a prescan", with_prescan(head, body), "cartesian_2d", "deviation from the body coil [%]",
              ratio_to(rss(whole_2d(body))), "prescan", shown=True)  # fmt: skip
    sheet.add("phantom, 32 coils", DATA / "cartesian_se_phantom32/se32.h5", "cartesian_2d", shown=True)
    sheet.add("phantom, 2 coils", DATA / "cartesian_gre_phantom2/gre2.h5", "cartesian_2d", shown=True)
    poisson = np.load(DATA / "cartesian_brain_poisson8/cartesian_ksp.npy")[..., None]
    came = np.abs(poisson).sum(axis=(0, 3)) > 0
    middle = np.zeros_like(came)
    middle[tuple(slice(n // 2 - 12, n // 2 + 12) for n in came.shape)] = True
    sheet.add("brain, an eighth of its points", some_of(poisson, came, middle & came), "cartesian_sense", shown=True)
    for name in ("ro1200", "ro240", "ramp96"):
        scan = DATA / f"epi_pulseq_pe_polarity/{name}_forward.h5"
        mask = ghosts.object_mask(sheet.image(scan, "epi_2d", TURNED))
        sheet.add(f"EPI, {name}", scan, "epi_2d", "ghost", lambda image, mask=mask: ghosts.ghost_level(image, mask),
                  before=LINES_TURNED, shown=True)  # fmt: skip
    sheet.add("TrueFISP, 12 coils, R = 2", DATA / "grappa_trufi_siemens/trufi.h5", "cartesian_grappa")
    sheet.add("half echoes", DATA / "marcsous_parallel/half_echoes.h5", "cartesian_2d")
    brain = whole_2d("mchiew/brain16.h5")
    truth = rss(brain)
    sheet.add("brain, 16 coils", DATA / "mchiew/brain16.h5", "cartesian_2d")
    sheet.add("three quarters of its lines", some_of(brain, np.arange(96)[None] < 72), "cartesian_2d", "edges' width",
              lambda image: width(image * np.vdot(image, truth) / np.vdot(image, image), truth, 0))  # fmt: skip
    for _, kspace, came, reference_lines, steps in cases("brain16"):
        if steps == (1, 3):
            scan = some_of(kspace, came, reference_lines, steps)
            sheet.add("every third, and 24", scan, "cartesian_grappa")
    for _, kspace, came, reference_lines, steps in cases("und2x2"):
        scan = some_of(kspace, came, reference_lines, steps)
        sheet.add("brain, R = 2 x 2, 8 coils", scan, "cartesian_sense", "NRMSE", nrmse(plane(kspace)))
    kspace, folded = wrapped()
    line = np.arange(kspace.shape[2])
    reference_lines = np.broadcast_to(abs(line - len(line) // 2 + 0.5) < 12, kspace.shape[1:3])
    scan = some_of(kspace, (line % 2 == 0) | reference_lines, reference_lines, (1, 2))
    sheet.add("folded, R = 2", scan, "cartesian_sense", "NRMSE", nrmse(folded.squeeze()))


def drawn(pairs):
    def tile(image):
        image = np.clip(image / np.percentile(image, 99.5), 0, 1)
        factor = SIDE / max(image.shape)
        size = [max(1, round(n * factor)) for n in image.shape[::-1]]
        out = Image.new("L", (SIDE, SIDE))
        out.paste(Image.fromarray((255 * image).astype(np.uint8)).resize(size, Image.BICUBIC),
                  [(SIDE - n) // 2 for n in size])  # fmt: skip
        return out

    width, height = 2 * SIDE + 3 * GAP, SIDE + TITLE + GAP
    sheet = Image.new("L", (PAIRS * width, -(-len(pairs) // PAIRS) * height), 255)
    draw = ImageDraw.Draw(sheet)
    for i, pair in enumerate(pairs):
        x, y = i % PAIRS * width, i // PAIRS * height
        draw.text((x + GAP, y), str(i + 1), fill=0)
        for at, image in enumerate(pair):
            sheet.paste(tile(image), (x + GAP + at * (SIDE + GAP), y + TITLE))
    return sheet


def main():
    program, docs = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        sheet = Sheet(program, pathlib.Path(folder), sys.argv[3:] == ["all"])
        measured(sheet)
    (docs / "pictures").mkdir(exist_ok=True)
    write_png(docs / "pictures" / "finished.png", np.asarray(drawn(sheet.pairs)) / 255)
    page = docs / "gallery.md"
    if page.exists() and not sheet.all:
        head, _, rest = page.read_text().partition(BEGIN)
        page.write_text(head + BEGIN + "\n".join(sheet.rows) + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
