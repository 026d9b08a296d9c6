"""The measured rows of docs/seeds.md: this machine's numbers today beside the documents' and the recorded ones.

    python3 tests/seeds/seeds.py BIN_DIR OUT_DIR [NAME...]      runs the benches (default: all) and prints a Markdown table
    python3 tests/seeds/seeds.py --programs [NAME...]           says which programs of the build that takes

`./run seeds` builds those programs and calls it. OUT_DIR gets every bench's JSON, its log, and the table, seeds.md. Rows of a GPU
are there where a GPU is. Quality and rounding need numpy, scipy and h5py.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs" / "seeds.md"


KOOSHBALL = "adjoint_3d_kooshball_284592_c1_128/e1e-3"


@dataclasses.dataclass
class Run:
    program: str
    what: str
    arguments: tuple = ()


RUNS = {
    "fft": Run("bench_fft", "2D transforms of ten sizes", ("--planning_seconds=1", "--benchmark_min_time=0.2")),
    "stream": Run("bench_stream", "a cine through the server", ("--backend", "auto", "--benchmark_filter=cine/")),
    "ultrasound": Run("bench_ultrasound", "f-k migration, delay and sum"),
    "gregerson": Run("seed_gregerson", "the ladder of gridding"),
    "nufft": Run("bench_nufft", "gridding in 3D", (f"--benchmark_filter={KOOSHBALL}",)),
    "stone": Run("seed_stone", "versions of F^H d and Q"),
    "solver": Run("bench_solver", "the solver at 128^3",
                  ("--benchmark_filter=^(exact_.*128.*/cuda|recon/|after_last/|pcg60/128)",)),
    "micgpu": Run("seed_micgpu", "sums and Sobel's operator"),
    "quality": Run("echotrain", "error, PSNR and noise of images (minutes)"),
    "rounding": Run("echotrain", "what rounding of F^H d does to images"),
    "images": Run("echotrain", "the heart and the head of GPU Gems"),
}  # fmt: skip


def fft_rows():
    sizes = "256x256 512x512 2048x32 2048x64 2048x128 2048x256 2048x512 2048x1024 1024x256 1024x512".split()
    for row, size in enumerate(sizes, 10):
        yield (f"F{row}", "fft",
               f"FFTW <fftw/{size}/:frames_per_s>, fft <fft/cpu/{size}/:frames_per_s>, pipeline "
               f"<pipeline/cpu/{size}/:frames_per_s>; limit <fft/cpu/{size}/:limit_per_s>")  # fmt: skip
        yield (f"F{row}", "fft",
               f"GPU: cuFFT <cufft/cuda/{size}/:frames_per_s>, fft <fft/cuda/{size}/:frames_per_s>, pipeline "
               f"<pipeline/cuda/{size}/:frames_per_s>; limit <fft/cuda/{size}/:limit_per_s>")  # fmt: skip


def ultrasound_rows():
    for row, case in (("F31", "128x_20MHz_to_251"), ("F32", "128x_20MHz_to_512"), ("F33", "128x_6.67MHz_to_251")):
        yield (row, "ultrasound", f"f-k <fk_migration/{case}:ms> ms, delay and sum <delay_and_sum/{case}:ms> ms")
        yield (row, "ultrasound", f"GPU: f-k <fk_migration_cuda/{case}:ms> ms")
        yield (row, "ultrasound", f"GPU: delay and sum <delay_and_sum_cuda/{case}:ms> ms")
    case = "128x_20MHz_to_512"
    for place in ("cpu", "cuda"):
        yield ("F30", "ultrasound",
               f"{place}: a frame <stream/one_session/{place}/{case}:ms> ms in one session, "
               f"<stream/two_in_turn/{place}/{case}:ms> ms in two by turns")  # fmt: skip


def gregerson_rows():
    yield ("G8", "gregerson", "<seed_5000/cpu_loop:us> us; 8,192 samples: <seed_8192/cpu_loop:us> us")
    yield ("G9", "gregerson", "<seed_5000/ours_cpu:us> us, <seed_5000/ours_cpu:speedup_cpu> of the loop's speed; "
           "<seed_8192/ours_cpu:us> us, <seed_8192/ours_cpu:speedup_cpu>")  # fmt: skip
    rungs = ("naive_input_driven", "cached_input", "output_driven_cached_input", "aligned_layout", "constant_table",
             "sector_tiles", "two_blocks_per_sm", "ours/")  # fmt: skip
    for row, rung in enumerate(rungs, 10):
        step = f", <seed_5000/{rung}:speedup_step> times the rung before" if row > 10 else ""
        yield (f"G{row}", "gregerson",
               f"GPU: <seed_5000/{rung}:us> us, <seed_5000/{rung}:speedup_cpu> times the loop{step}; 8,192: "
               f"<seed_8192/{rung}:us> us")  # fmt: skip
    for place in ("cpu", "cuda"):
        yield ("G21", "nufft", f"{place}: <{KOOSHBALL}/{place}:ms> ms, error <{KOOSHBALL}/{place}:error>")


def stone_rows():
    yield ("S10", "stone", r"<CPU\.DP/\d+_threads:at_seed_size> s, <CPU\.DP/\d+_threads:gflops> GFLOPS; one thread: "
           r"<CPU\.DP/1_thread/:at_seed_size> s")  # fmt: skip
    yield ("S11", "stone", r"<CPU\.SP/\d+_threads:at_seed_size> s, <CPU\.SP/\d+_threads:gflops> GFLOPS; one thread: "
           r"<CPU\.SP/1_thread/:at_seed_size> s")  # fmt: skip
    versions = ("Base", "RegAlloc", "Layout", "ConstMem", "FastTrig", r"Tune\.as_seed", "Tune/", r"Multi\.\d+")
    for row, version in enumerate(versions, 12):
        at = rf"GPU\.{version}"
        yield (f"S{row}", "stone", f"GPU: <{at}:ms> ms, <{at}:gflops> GFLOPS")
        yield (f"S{row}", "stone", f"image <{at}:percent> %, <{at}:psnr> dB, noisy <{at}:noisy_percent> %")
    yield ("S20", "stone", r"<ours/\d+_threads:at_seed_size> s by pairs")
    for precision in ("exact", "fast"):
        at = rf"ours\.{precision}/gpu"
        yield ("S20", "stone", f"{precision}: <{at}:ms> ms on the GPU, image <{at}:percent> %, <{at}:psnr> dB")
    yield ("S20", "solver", "GPU: <exact_fhd/128.*/cuda:ms> ms, error <exact_fhd/128.*/cuda:error>")
    yield ("S21", "solver", "60 iterations <pcg60/128.*/cpu:ms> ms")
    yield ("S21", "solver", "GPU: 60 iterations <pcg60/128.*/cuda:ms> ms")
    yield ("S22", "stone", r"GPU: the pipeline <ours\.pipeline/gpu:ms> ms, with method: auto <ours\.pipeline\.auto/gpu:ms> ms")
    yield ("S22", "solver", "GPU: <recon/128.*/cuda:ms> ms; after the last readout <after_last/128.*/cuda:ms> ms; F^H d by "
           "the NUFFT <recon_auto/128.*/cuda:ms> ms")  # fmt: skip
    yield ("S23", "stone", r"CPU.SP <Q/CPU\.SP:at_seed_size> s, ours <Q/ours/\d+_threads:ms> ms for 128^3 lags of 1,024 samples")
    yield ("S23", "solver", "GPU: <exact_q/128.*/cuda:ms> ms")
    yield from stone_rows_of_others()


def stone_rows_of_others():
    """Rows that take up what others measure, the kit's among them."""
    tuned, single = r"GPU\.Tune/", r"CPU\.SP/\d+_threads"
    yield ("S8", "stone", f"GPU: <{tuned}:threads> threads, tile <{tuned}:tile>, unrolled <{tuned}:unroll>")
    yield ("S15", "stone", "GPU: unrolled by 8 <Figure8/structures/unroll_8/tile_256/:at_seed_size> s")
    yield ("S29", "stone", r"GPU: Base <GPU\.Base:percent> %, GPU.Tune <GPU\.Tune/:percent> %, the product "
           r"<ours\.exact/gpu:percent> %, precision: fast <ours\.fast/gpu:percent> %")  # fmt: skip
    for layout in ("structures", "arrays"):
        for unroll in (1, 4, 8):
            tiles = (f"<Figure8/{layout}/unroll_{unroll}/tile_{tile}/:at_seed_size>" for tile in (32, 256, 2048))
            yield ("S32", "stone", f"GPU: {layout} unrolled {unroll}: {', '.join(tiles)} s")
    yield ("S35", "stone", rf"GPU: GPU.Multi <GPU\.Multi\.\d+:ms> ms, one <{tuned}:ms> ms")
    yield ("S35", "solver", "GPU: two <exact_fhd/128.*/2gpu:ms> ms, one <exact_fhd/128.*/cuda:ms> ms")
    yield ("S39", "stone", f"CPU.SP <{single}:at_seed_size> s, GPU.Tune <{tuned}:s> s")
    yield ("K3", "stone", "GPU: <Kit/a_thread_per_sample:at_seed_size> s by pairs")
    yield ("K7", "stone", "GPU: <Kit/k_in_constant_memory:at_seed_size> s by pairs")
    yield ("K12", "nufft", f"<{KOOSHBALL}/cpu:ms> ms")
    yield ("K13", "stone", r"<CPU\.DP/\d+_threads:at_seed_size> s, <CPU\.DP/\d+_threads:gflops> GFLOPS")
    yield ("K14", "stone", f"<{single}:at_seed_size> s, <{single}:gflops> GFLOPS")
    for row, version in (("K15", r"GPU\.Base"), ("K16", r"GPU\.ConstMem"), ("K17", tuned)):
        yield (row, "stone", f"GPU: <{version}:s> s, <{version}:gflops> GFLOPS")
    yield ("K17", "stone", "GPU: Q by GPU.Tune <Q/GPU.Tune:s> s")
    yield ("K17", "solver", "GPU, the product: Q <exact_q/128.*/cuda:ms> ms, F^H d <exact_fhd/128.*/cuda:ms> ms, solver "
           "<pcg60/128.*/cuda:ms> ms, reconstruction <recon/128.*/cuda:ms> ms")  # fmt: skip


def micgpu_rows():
    yield ("M3", "micgpu", "GPU: <gpu/sum/one_thread:ms> ms of one thread, kernel 1 <gpu/sum/kernel_1:us> us")
    yield ("M1", "micgpu", "ints <cpu/sum_ints/plain_loop:us> us; floats <cpu/sum_floats/plain_loop:us> us")
    kernels = ("kernel_1", "kernel_2", "kernel_3", "kernel_7", "cub_ints", "ours")
    for row, kernel in enumerate(kernels, 5):
        at = f"gpu/sum/{kernel}"
        yield (f"M{row}", "micgpu",
               f"GPU: <{at}:us> us, <{at}:gb_s> GB/s, <{at}:over_limit> times the limit")  # fmt: skip
    yield ("M10", "micgpu", "<cpu/sum_floats/ours:us> us, error <cpu/sum_floats/ours:error>")
    yield ("M11", "micgpu", "<cpu/sobel/plain_loop:us> us")
    for row, way in enumerate(("global", "texture", "shared", "ours"), 12):
        at = f"gpu/sobel_floats/{way}"
        bytes_too = f"<gpu/sobel_bytes/{way}:us> us of bytes, " if way != "ours" else ""
        yield (f"M{row}", "micgpu", f"GPU: {bytes_too}<{at}:us> us of floats, <{at}:over_limit> times the limit")
    yield ("M15", "micgpu", "<cpu/sobel/ours:us> us")


# (row of docs/seeds.md, run, text): <PATTERN:COUNTER> is a counter of the benchmark whose name begins like that, or its
# time in us, ms or s. A text with a number that this run lacks is left out.
ROWS = [
    *fft_rows(),
    ("F21", "stream", "<cine/cartesian_256_1coil/1_:frames_per_s> frames/s; <cine/cartesian_256_1coil/4_:frames_per_s> "
     "of four sessions"),
    *ultrasound_rows(),
    *gregerson_rows(),
    *stone_rows(),
    *micgpu_rows(),
]  # fmt: skip
QUALITY = {"S24": "gridded", "S25": "Tikhonov", "S26": "anatomical, other contrast", "S27": "anatomical, all contrasts",
           "S28": "anatomical, true edges"}  # fmt: skip
# Rows that need more than a bench: which run has their numbers.
OTHER_ROWS = {**dict.fromkeys([*QUALITY, "S40", "K11"], "quality"), "S29": "rounding", "F20": "images", "F23": "images"}
IMAGES = {
    "F20": ("--trajectory cartesian --motion cardiac --matrix 256 --readouts 192 --phases 13 --heart-rate 500 --tr-ms 7.9",
            "cartesian_cine"),
    "F23": ("--trajectory cartesian --phantom ellipsoids_3d --matrix 256 --slices 16", "cartesian_3d"),
}  # fmt: skip


NUMBER = re.compile(r"<([^<>]+):(\w+)>")


def number(value):
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Results:
    """Results of one Google Benchmark program: medians where it repeats."""

    def __init__(self, benchmarks):
        self.by_name = {}
        for entry in sorted(benchmarks, key=lambda e: e.get("run_type") == "aggregate"):
            if entry.get("aggregate_name", "median") == "median":
                self.by_name[entry.get("run_name", entry["name"])] = entry

    def get(self, pattern, counter):
        """The number, or None where this run has none."""
        for name, entry in self.by_name.items():
            if re.match(pattern, name):
                if counter in entry:
                    return number(entry[counter])
                if counter in ("us", "ms", "s"):
                    seconds = entry["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[entry["time_unit"]]
                    return number(seconds / {"us": 1e-6, "ms": 1e-3, "s": 1}[counter])
        return None

    def fill(self, text):
        """`text` with its numbers; None if one of them is not there."""
        numbers = [self.get(pattern, counter) for pattern, counter in NUMBER.findall(text)]
        return None if None in numbers else NUMBER.sub(lambda _: numbers.pop(0), text)


def page_rows():
    """{row: (what, the document's number, ours as recorded)} of docs/seeds.md."""
    rows, columns = {}, {}
    for line in re.sub(r"<!--.*?-->", "", PAGE.read_text()).splitlines():  # figures stand between comments
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        if cells[0] == "row":
            columns = {name.split(":")[0]: i for i, name in enumerate(cells)}
        elif re.fullmatch(r"[FGSKM]\d+", cells[0]):
            ours = [cells[i] for name, i in columns.items() if name.startswith("ours") and cells[i]]
            rows[cells[0]] = (cells[columns["what"]], cells[columns["document"]], "; ".join(ours))
    return rows


def run_bench(run, folder, out, name):
    """The program's results; None if it failed, which is reported."""
    log, result = out / f"{name}.log", out / f"{name}.json"
    result.unlink(missing_ok=True)
    outputs = [f"--benchmark_out={result}", "--benchmark_out_format=json"]
    with open(log, "w") as file:
        status = subprocess.run([folder / run.program, *run.arguments, *outputs], stdout=file, stderr=file).returncode
    if status != 0:
        print(f"error: {run.program} ended with status {status}; see {log}", file=sys.stderr)
        return None
    return Results(json.loads(result.read_text())["benchmarks"])


def run_script(script, program, out, name):
    """What a script beside this one prints; None if it failed, which is reported."""
    log = out / f"{name}.log"
    with open(log, "w") as file:
        command = [sys.executable, SOURCE / "tests/seeds" / script, program]
        status = subprocess.run(command, stdout=file, stderr=file).returncode
    if status != 0:
        print(f"error: {script} ended with status {status}; see {log}", file=sys.stderr)
        return None
    return log.read_text()


def quality_rows(text):
    """{row: text} of what seed_stone_quality.py prints."""
    errors, percent = {}, {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) == 6 and cells[1] in ("noiseless", "noisy"):
            of = "" if cells[1] == "noiseless" else "noisy "
            errors.setdefault(cells[0], []).append(
                f"{of}{cells[2]} (limited {cells[3]}); second contrast {cells[4]} ({cells[5]})"
            )
            percent.setdefault(cells[0], []).extend(float(cell.split(" %")[0]) for cell in cells[2:4])
    rows = {row: ". ".join(errors[image]) for row, image in QUALITY.items()}
    rows["K11"] = f"gridded {errors['gridded'][0]}; anatomical {errors[QUALITY['S27']][0]}"
    ours = percent[QUALITY["S27"]]
    ratios = [a / b for a, b in zip((*percent["gridded"], 42, 47), (*ours, ours[0], ours[2]))]
    rows["S40"] = ("{:.1f} times; limited {:.1f}; noisy {:.1f}; limited {:.1f}; the document's gridded 42 and 47 % over ours {:.1f} "
                   "and {:.1f}").format(*ratios)  # fmt: skip
    return rows


def rounding_rows(text):
    head, _, *lines = text.splitlines()
    names = [cell.strip() for cell in head.strip("| ").split("|")][1:]
    told = []
    for line in lines:
        weight, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        told.append(f"lambda {weight}: " + ", ".join(f"{cell} ({name})" for cell, name in zip(cells, names)))
    return {"S29": "; ".join(told)}


def image_rows(folder, out):
    """{row: text} of scans simulated and reconstructed; None if one failed, which is reported."""
    rows = {}
    for row, (options, pipeline) in IMAGES.items():
        scan, images = out / f"{row}.h5", out / f"{row}_images.h5"
        images.unlink(missing_ok=True)
        for command in (["simulate", "-o", scan, *options.split()],
                        ["recon", scan, "-c", pipeline, "-o", images, "--truth"]):  # fmt: skip
            done = subprocess.run([folder / "echotrain", *command], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"error: echotrain {command[0]}: {done.stderr}", file=sys.stderr)
                return None
        rows[row] = "NRMSE " + re.search(r"NRMSE +(median \S+)", done.stdout)[1]
    return rows


def run_other(name, folder, out):
    """{row: text} of a run that is not a bench; None if it failed, which is reported."""
    if name == "images":
        return image_rows(folder, out)
    if name == "rounding":
        text = run_script("seed_stone_rounding.py", folder / "echotrain", out, name)
        return text and rounding_rows(text)
    text = run_script("seed_stone_quality.py", folder, out, name)
    return text and quality_rows(text)


def main():
    arguments = sys.argv[1:]
    only_programs = arguments[:1] == ["--programs"]
    names = arguments[1:] if only_programs else arguments[2:]
    unknown = [name for name in names if name not in RUNS]
    if unknown or (not only_programs and len(arguments) < 2):
        print(f"{__doc__}\nNames: {', '.join(RUNS)}", file=sys.stderr)
        return 2
    names = names or list(RUNS)
    if only_programs:
        programs = dict.fromkeys(RUNS[name].program for name in names)
        if "stream" in names or "quality" in names:
            programs["echotrain-server"] = None
        print(" ".join(programs))
        return 0

    folder, out = (pathlib.Path(argument).resolve() for argument in arguments[:2])
    out.mkdir(parents=True, exist_ok=True)
    today, failed = {}, False
    for name in names:
        begin = time.monotonic()
        print(f"== {name}: {RUNS[name].what}", end=" ... ", file=sys.stderr, flush=True)
        if name in OTHER_ROWS.values():
            texts = run_other(name, folder, out)
            failed |= texts is None
            for row, text in (texts or {}).items():
                today.setdefault(row, []).append(text)
        else:
            results = run_bench(RUNS[name], folder, out, name)
            failed |= results is None
            for row, of, text in ROWS:
                if of == name and results and (filled := results.fill(text)):
                    today.setdefault(row, []).append(filled)
        print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)

    page = page_rows()
    lines = ["| row | what | document | docs/seeds.md | today, here |", "|---|---|---|---|---|"]
    for row in sorted(today, key=lambda row: ("FGSKM".index(row[0]), int(row[1:]))):
        if row not in page:
            print(f"error: docs/seeds.md has no row {row}", file=sys.stderr)
            failed = True
            continue
        lines.append("| " + " | ".join([row, *page[row], ". ".join(today[row])]) + " |")
    text = "\n".join(lines) + "\n"
    (out / "seeds.md").write_text(text)
    print(text, end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
