"""The tables of docs/performance.md from the JSON of one run:

    python3 tests/bench/tables.py FOLDER            writes what the JSON files of FOLDER have into the page
    python3 tests/bench/tables.py --run BIN FOLDER  runs the benches and the peers first; their JSON goes to FOLDER
    python3 tests/bench/tables.py --check           whether the page has every table once, with the heads given here, and
                                                    whether a table of made-up results is right

`./run bench --tables` calls it. A table stands between `<!-- table NAME -->` and `<!-- end -->`, below a line with machine,
commit and date, which are those of the JSON; all tables that a run fills have the same. A table of which the run has no row is
left as it is (a run without a GPU leaves the tables of GPUs alone). Within a table that it fills, what the run lacks
becomes "not measured here", and a ratio to it is empty.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs" / "performance.md"
BENCHES = ("nufft", "solver", "fhd", "fft", "stream")
PEERS = ("finufft_peer.py", "bart_peer.py")
NOT_HERE = "not measured here"
SETTINGS = re.compile(r"(/(iterations|repeats|min_time|threads):[\d.]+|/(manual|real|process)_time)+$")  # Google Benchmark's
MARKED = re.compile(r"<!-- table (\w+) -->\n(.*?)<!-- end -->", re.S)


class Results:
    """The benchmarks of all JSON files of a folder, medians where they repeat."""

    def __init__(self, folder):
        self.rows, self.best, contexts = {}, {}, {}
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text())
            if "benchmarks" not in content:
                continue
            contexts[path.name] = content["context"]
            place = f"/{content['context']['backend']}" if "backend" in content["context"] else ""
            for entry in sorted(content["benchmarks"], key=lambda e: e.get("run_type") == "aggregate"):
                if entry.get("aggregate_name", "median") == "median" and not entry.get("error_occurred"):
                    name = SETTINGS.sub("", entry.get("run_name", entry["name"])) + place
                    self.rows[name] = entry
                    self.best[name] = min(self.best.get(name, entry), entry, key=lambda e: e["real_time"])
        if not contexts:
            sys.exit(f"error: no results of benches in {folder}")
        commits = {name: context.get("commit", "") for name, context in contexts.items()}
        if len(set(commits.values())) != 1 or not all(commits.values()):
            sys.exit(f"error: these are not the results of one run of one commit: {commits}")
        self.commit = commits.popitem()[1]
        bench = next((c for c in contexts.values() if "cpu" in c), {})
        self.cpu = bench.get("cpu", "unknown machine")
        self.gpu = f"{bench.get('gpu', 'unknown GPU')}, {bench.get('num_cpus', '?')} cores"
        self.date = next(iter(contexts.values()))["date"][:10]

    def get(self, name, counter="ms"):
        """A counter, or the time in ms, of the benchmark of that name; None where there is none."""
        entry = self.rows.get(name, {})
        if counter == "ms" and entry:
            return entry["real_time"] * {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[entry["time_unit"]]
        return entry.get(counter)


def show(value, unit=""):
    if value is None:
        return NOT_HERE
    if value != 0 and abs(value) < 9.95e-3:
        text = f"{value:.2e}".replace("e-0", "e-")
    else:
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def over(a, b, form="{:.1f}"):
    return "" if a is None or b in (None, 0) else form.format(a / b)


def met(asked, values):
    """Whether the values are what the numbers of `asked` say, in their order: times and errors at most, all else at least."""
    targets = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,.]*(?:e-\d+)?", re.sub(r"p\d+ ", "", asked))]
    at_most = re.search(r"\d m?s\b", asked)
    return bool(targets) and all(v is not None and (v <= target if at_most else v >= target)
                                 for target, v in zip(targets, values))  # fmt: skip


@dataclasses.dataclass
class Judged:
    """A cell's figure, which is bold where its values are what was asked, and what follows it."""

    text: str
    values: list
    more: str = ""
    again: bool = False  # of the same scan once more, which `asked` names after "again"

    def cell(self, asked):
        asked = asked.partition("again ")[2 if self.again else 0]
        return (f"**{self.text}**" if met(asked, self.values) else self.text) + self.more


@dataclasses.dataclass
class Table:
    head: str  # names of columns, as in Markdown
    rows: list  # (label, ...) as `cells` takes them
    cells: object  # cells(results, *row without its label) -> list of texts, or None if the run has no such row
    fixed: int = 0  # columns after the label that are part of the row, as what was asked

    def lines(self, results):
        """None if this run has none of its rows."""
        columns = self.head.count("|") - 1
        lines, found = [self.head, "|" + "---|" * columns], False
        for label, *rest in self.rows:
            cells = self.cells(results, *rest[self.fixed:])
            found = found or cells is not None
            cells = [cell.cell(rest[0]) if isinstance(cell, Judged) else cell for cell in cells or []]
            row = [label, *rest[:self.fixed], *(cells or [NOT_HERE])]
            lines.append(f"| {' | '.join(row + [''] * (columns - len(row)))} |")
        return lines if found else None


def gridding_cpu(results, case):
    name = f"{case}/cpu"
    time = results.get(name)
    if time is None:
        return None
    cells = [show(time, "ms"), *(show(results.get(name, c)) for c in ("error", "error_ellipsoids", "theory"))]
    cells.append(show(results.get(name, "plan_ms"), "ms"))
    theirs = results.get(f"{name}/bart")
    cells += [show(theirs, "ms"), "" if theirs is None else show(results.get(f"{name}/bart", "error"))]
    return [*cells, over(theirs, time)]


def gridding_peer(results, case, peer):
    name = f"{case}/{peer}"
    theirs, ours = results.get(name), results.get(name, "ours_ms")
    if theirs is None:
        return None
    cells = [show(ours, "ms"), show(results.get(name, "ours_error")), show(theirs, "ms"), show(results.get(name, "error")),
             f"tolerance {show(results.get(name, 'tolerance'))}, {results.get(name, 'settings')}"]  # fmt: skip
    if peer == "cufinufft":
        return [*cells, over(theirs, ours)]
    theirs, ours = (results.get(name, counter) for counter in ("cpu_ms", "ours_cpu_ms"))
    return [*cells, show(ours, "ms"), show(theirs, "ms"), over(theirs, ours)]


def gridding_gpu(results, case):
    name = f"{case}/cuda"
    time, rate = results.get(name), results.get("device_copy/cuda", "gb_per_s")
    if time is None:
        return None
    floor = None if rate is None else results.get(name, "megabytes") / rate
    return [Judged(show(time, "ms"), [time, results.get(name, "error")]), show(results.get(name, "cold_ms"), "ms"),
            *(show(results.get(name, c)) for c in ("error", "error_ellipsoids", "theory")),
            show(results.get(name, "plan_ms"), "ms"), show(floor, "ms"), over(time, floor)]  # fmt: skip


def from_host(results, case):
    whole, parts = (f"from_host/{case}/{way}/cuda" for way in ("whole", "as_they_come"))
    if results.get(whole) is None:
        return None
    return [show(results.get(whole, "upload_ms"), "ms"), show(results.get(whole, "in_turn_ms"), "ms"),
            show(results.get(whole), "ms"), show(results.get(parts), "ms"), show(results.get(parts, "difference"))]  # fmt: skip


def toeplitz(results, name):
    time, peer = results.get(name), results.get("toeplitz/128.3x284592/cuda/cufft")
    if time is None:
        return None
    if not name.startswith("toeplitz/128"):  # no program of plain cuFFT
        return [show(time, "ms"), NOT_HERE, ""]
    return [show(time, "ms"), show(peer, "ms"), over(peer, time)]


def time_and_error(results, name):
    time, error = results.get(name), results.get(name, "error")
    return None if time is None else [show(time, "ms"), "" if error is None else show(error)]


def seconds(entry):
    return f"{entry['real_time'] * {'ms': 1e-3, 's': 1}[entry['time_unit']]:.2g} s"


def ingest(results, case, place, per_second):
    ours, plain = (results.rows.get(f"ingest/{case}/{way}/{place}") for way in ("passthrough", "plain_copy"))
    if ours is None or plain is None:
        return None
    rate = f"{ours['readouts_per_s']:,.0f} readouts/s" if per_second else f"{ours['bytes_per_s'] / 1e9:.1f} GB/s"
    share = plain["real_time"] / ours["real_time"]
    return [Judged(rate, [ours["readouts_per_s"] if per_second else share], f", {share:.2f} of the plain copy")]


def whole_scan(results, case, place):
    name = f"whole_scan/{case}/{place}"
    entry = results.rows.get(name)
    if entry is None:
        return None
    return [Judged(seconds(entry), [1e-3 * results.get(name)]), seconds(results.best[name]), f"{entry['server_cpu_s']:.2g} s"]


def latency(results, case, place):
    entry = results.rows.get(f"latency/{case}/{place}")
    if entry is None:
        return None
    more = f", worst {entry['max_ms']:.1f} ms of {entry['frames']:,.0f} frames"
    parts = [f"{part} {entry[part + '_p50_ms']:.2f} and {entry[part + '_p99_ms']:.2f}"
             for part in ("server", "queue", "compute", "copy", "send") if part + "_p50_ms" in entry]  # fmt: skip
    return [Judged(f"p50 {entry['p50_ms']:.2f} ms, p99 {entry['p99_ms']:.2f} ms", [entry["p50_ms"], entry["p99_ms"]],
                   more + (f" ({', '.join(parts)})" if parts else ""))]  # fmt: skip


def scanners(results, case, place):
    entry = results.rows.get(f"latency/{case}/{place}")
    if entry is None:
        return None
    return [Judged(f"p99 {entry['p99_ms']:.2f} ms", [entry["p99_ms"]],
                   f", p50 {entry['p50_ms']:.2f} ms of {entry['frames']:,.0f} frames after the first second of each; the latest "
                   f"first image {entry['first_ms']:.1f} ms; p99 of all {show(entry.get('whole_p99_ms'), 'ms')}")]  # fmt: skip


def sessions(results, case, place):
    rates = [results.get(f"cine/{case}/{n}_sessions/{place}", "frames_per_s") for n in (1, 4)]
    return None if None in rates else [Judged(f"{rates[0]:,.0f} / {rates[1]:,.0f} frames/s", rates)]


def at_once(results, case, place):
    one, all_ = (results.rows.get(f"at_once/{case}/{n}_scans/{place}") for n in (1, 8))
    if one is None or all_ is None:
        return None
    times = all_["frames_per_s"] / one["frames_per_s"]
    return [Judged(f"{times:.2f}", [times], f" of one scan's rate; slowest / fastest {all_['slowest_to_fastest']:.2f}")]


def first_frame(results, case, place):
    """After a pause; as soon as the server is ready; and on a GPU, where CUDA's driver has compiled for a server before."""
    names = [f"first/{case}{suffix}/{place}" for suffix in ("", "/at_once", "/compiled")]
    measured = [results.rows[name] for name in names if name in results.rows]
    if not measured:
        return None
    entry = measured[0]
    times = [results.get(name) for name in (names if place != "cpu" else names[:2])]
    cells = [*(Judged(show(time, "ms"), [time]) for time in times), show(entry["later_ms"], "ms")]
    cells.append(Judged(show(entry["again_ms"], "ms"), [entry["again_ms"]], again=True))
    return [*cells, show(entry["error"]), show(entry["ready_ms"], "ms")]


def fft(results, size):
    limit = results.get(f"fft/cpu/{size}", "limit_per_s")
    if limit is None:
        return None
    rates = [results.get(f"{way}/{size}", "frames_per_s") for way in ("fftw", "fft/cpu", "gadget/cpu", "pipeline/cpu")]
    return [f"{limit:,.0f}",
            *(NOT_HERE if r is None else f"{r:,.0f} ({r / limit:.2f})" for r in rates)]  # fmt: skip


RADIAL, GOLDEN = "2d_radial_600x768_c16_384", "2d_golden_402x512_c8_256"
KOOSH, SMALL_KOOSH = "3d_kooshball_10m_c8_256", "3d_kooshball_284592"
CPU_ROWS = [
    ("2D golden angle 402 x 512, 8 coils -> 256^2", f"adjoint_{GOLDEN}/e1e-3"),
    ("3D koosh-ball 284,592 samples, 1 coil -> 128^3", f"adjoint_{SMALL_KOOSH}_c1_128/e1e-3"),
    ("3D koosh-ball 284,592 samples, 8 coils -> 128^3", f"adjoint_{SMALL_KOOSH}_c8_128/e1e-3"),
    ("forward, the first row's", f"forward_{GOLDEN}/e1e-3"),
    ("forward, the third row's", f"forward_{SMALL_KOOSH}_c8_128/e1e-3"),
]
CPU_PEER_ROWS = [
    (f"{label}, {told}", f"adjoint_{case}/{error}/cpu", "finufft")
    for error, told in (("e1e-3", "width 5"), ("e1e-5", "width 7"))
    for label, case in (
        ("2D golden angle 402 x 512, 8 coils -> 256^2", GOLDEN),
        ("3D koosh-ball 284,592 samples, 1 coil -> 128^3", f"{SMALL_KOOSH}_c1_128"),
        ("3D koosh-ball 284,592 samples, 8 coils -> 128^3", f"{SMALL_KOOSH}_c8_128"),
    )
    if error == "e1e-3" or "c8_128" not in case
]
GPU_ROWS = [
    ("adjoint 2D radial 600 x 768, 16 coils -> 384^2, width 4", "0.20 ms, 2e-3", f"adjoint_{RADIAL}/e2e-3"),
    ("the same, with slack", "0.13 ms, 2e-3", f"adjoint_{RADIAL}/slack_e2e-3"),
    ("the same without, width 6, oversampling 1.75", "0.50 ms, 3e-5", f"adjoint_{RADIAL}/e3e-5"),
    ("the same, with slack", "0.22 ms, 3e-5", f"adjoint_{RADIAL}/slack_e3e-5"),
    ("the same without, width 7", "0.50 ms, 3e-5", f"adjoint_{RADIAL}/e3e-5_w7"),
    ("forward, the same size, width 4", "0.20 ms, 2e-3", f"forward_{RADIAL}/e2e-3"),
    ("adjoint 3D koosh-ball 10,000,000 samples, 8 coils -> 256^3, width 5, oversampling 1.25", "10 ms, 2.2e-3",
     f"adjoint_{KOOSH}/e2e-3"),
    ("the same, with slack", "6 ms, 2e-3", f"adjoint_{KOOSH}/slack_e2e-3"),
    ("the same without, width 7", "25 ms, 2e-5", f"adjoint_{KOOSH}/e2e-5"),
    ("forward, the same size, width 4", "10 ms, 2.5e-3", f"forward_{KOOSH}/w4"),
    ("adjoint 3D 284,592 samples, 1 coil -> 128^3, width 7", "0.60 ms, 1.2e-5", f"adjoint_{SMALL_KOOSH}_c1_128/e1e-5"),
    ("adjoint 2D golden angle 402 x 512, 8 coils -> 256^2, width 5", "", f"adjoint_{GOLDEN}/e1e-3"),
    ("adjoint 3D 284,592 samples, 8 coils -> 128^3, width 5", "", f"adjoint_{SMALL_KOOSH}_c8_128/e1e-3"),
]  # fmt: skip
# By turns with ours, the peer at its best settings of no larger error.
PEER_ROWS = [(label.replace("the same without", "the same"), f"{case}/cuda", "cufinufft") for label, _, case in GPU_ROWS
             if not case.endswith("_w7") and "slack" not in case]  # fmt: skip
SIZES = """256x256 473 355, 512x512 104 56, 2048x32 426 230, 2048x64 207 105, 2048x128 100 53, 2048x256 48 26, 2048x512 23 13,
2048x1024 11 6, 1024x256 102 54, 1024x512 49 27"""
SOLVER = "128^3x284592/cuda"
REAL_TIME = "radial_256_16coils_55spokes_stride5_tr3ms"
STREAM = "| case | asked | median | best round | CPU time of the server |"


def stream_rows(place, asked):
    """`asked`: of each row, in order."""
    rows = [
        ("`ingest/128x2/passthrough`", ingest, "128x2", place, True),
        ("`ingest/512x16/passthrough`", ingest, "512x16", place, False),
        ("`whole_scan/cartesian_256_16coils_40frames` (675 MB)", whole_scan, "cartesian_256_16coils_40frames", place),
        ("`whole_scan/cartesian_grappa_256_16coils_40frames`, R=3, 24 reference lines before (228 MB)", whole_scan,
         "cartesian_grappa_256_16coils_40frames", place),
        ("the same readouts, plainly transformed", whole_scan, "cartesian_256_16coils_40frames/r3", place),
        ("`whole_scan/golden_radial_402x512_8coils_10frames`, never seen before", whole_scan,
         "golden_radial_402x512_8coils_10frames", place),
        ("the same, seen before", whole_scan, "golden_radial_402x512_8coils_10frames/seen_before", place),
        ("`cine/cartesian_256_1coil`, 1 session / 4 sessions", sessions, "cartesian_256_1coil", place),
        ("`latency/radial_256_16coils_55spokes_stride5_tr3ms`, last readout sent to image received", latency,
         "radial_256_16coils_55spokes_stride5_tr3ms", place),
        ("`latency/cartesian_grappa_256_16coils_r3`, a line each 0.5 ms, weights known", latency,
         "cartesian_grappa_256_16coils_r3", place),
        ("the same readouts, plainly transformed", latency, "cartesian_256_16coils_r3", place),
        ("`at_once/cartesian_256_16coils_8frames`, 8 scans", at_once, "cartesian_256_16coils_8frames", place),
        *((f"`latency/{REAL_TIME}/{n}_scanners`", scanners, f"{REAL_TIME}/{n}_scanners", place)
          for n in ((8, 24) if place == "cuda" else ())),
    ]  # fmt: skip
    return [(label, target, *rest) for (label, *rest), target in zip(rows, asked, strict=True)]


FIRST = "| scan | asked | first image | server just ready | its next frame | the same scan again | error | ready after |"
FIRST_GPU = FIRST.replace("just ready |", "just ready | kernels compiled by an earlier server |")


def first_rows(place, asked):
    rows = [
        ("`cartesian_grappa`: R=3, 48 reference lines, 14 or 16 coils, 144^2 to 208^2", "grappa"),
        ("`epi_2d`: ramp sampling, 4 to 16 coils, 72^2 to 136^2", "epi"),
        ("`cartesian_2d`: 4 to 16 coils, 144^2 to 256^2", "plain"),
        ("`cartesian_sense`: R=3, 24 reference lines, 14 or 16 coils, 144^2 to 208^2", "sense"),
        ("`cg_sense_2d`: 25 spokes, 12 coils, 112^2 to 144^2", "cg_sense"),
    ]
    return [(label, target, case, place) for (label, case), target in zip(rows, asked, strict=True)]


TABLES = {
    "first_cpu": Table(FIRST, first_rows("cpu", ["40 ms", "", "", "again 10 ms", ""]), first_frame, 1),
    "first_gpu": Table(FIRST_GPU, first_rows("cuda", ["10 ms", "10 ms", "10 ms", "", "8 ms, again 4 ms"]), first_frame, 1),
    "stream_cpu": Table(STREAM, stream_rows("cpu", [
        "500,000 readouts/s", "0.7 of the plain copy", "0.5 s", "0.3 s", "", "0.6 s", "", "", "", "", "", "0.9"]), lambda r, row, *a: row(r, *a), 1),
    "stream_gpu": Table(STREAM, stream_rows("cuda", [
        "500,000 readouts/s", "0.7 of the plain copy", "", "", "", "", "", "4,000 / 12,000 frames/s", "p50 1 ms, p99 2 ms",
        "p50 0.7 ms", "", "5", "", "p99 2 ms"]),
        lambda r, row, *a: row(r, *a), 1),
    "gridding_cpu": Table(
        "| work | time | error, noise | error, ellipsoids | theory, noise | plan | BART per frame | its error | ratio |",
        CPU_ROWS, gridding_cpu),
    "gridding_peer_cpu": Table(
        "| work | ours | our error | FINUFFT | its error | its settings | processor time: ours | FINUFFT | ratio |",
        CPU_PEER_ROWS, gridding_peer),
    "gridding_gpu": Table(
        "| work | asked | time | caches cold | error, noise | error, ellipsoids | theory, noise | plan | floor "
        "| time / floor |", GPU_ROWS, gridding_gpu, 1),
    "gridding_peer_gpu": Table(
        "| work | ours | our error | cuFINUFFT | its error | its settings | ratio |", PEER_ROWS, gridding_peer),
    "gridding_gpu_other": Table("| work | asked | time | error |", [
        ("after the last readout, first row above, gridded as they came", "0.15 ms", f"after_last_readout_{RADIAL}/cuda"),
        ("`pipe_menon`, first row above, 10 iterations", "3 ms", "pipe_menon_2d_radial_600x768_384/cuda"),
    ], time_and_error, 1),
    "from_host": Table(
        "| work | upload alone | upload, then the work | overlapped, gridded at the end | overlapped, gridded as they come "
        "| difference |", [
            ("2D radial 600 x 768, 16 coils -> 384^2, width 4", RADIAL),
            ("2D golden angle 402 x 512, 8 coils -> 256^2, width 5", GOLDEN),
            ("3D koosh-ball 10,000,000 samples, 8 coils -> 256^3, width 5, oversampling 1.25", KOOSH),
        ], from_host),
    "exact_gpu": Table("| work | time | error |", [
        ("F^H d, 284,592 samples, 128^3", f"exact_fhd/{SOLVER}"),
        ("the same, `precision: fast`", f"fast_fhd/{SOLVER}"),
        ("Q, 284,592 samples, 128^3 (256^3 lags)", f"exact_q/{SOLVER}"),
        ("the same, `precision: fast`", f"fast_q/{SOLVER}"),
        ("F^H d, 20,000 samples, 64^3", "exact_fhd/64^3x20000/cuda"),
        ("Q, 20,000 samples, 64^3 (128^3 lags)", "exact_q/64^3x20000/cuda"),
    ], time_and_error),
    "fhd_gpu": Table("| work | time | error |", [
        ("F^H d, 284,592 samples anywhere, 128^3: exact sums", "fhd/exact/random/128^3/cuda"),
        ("the same, `auto` to 1.2e-6", "fhd/1.2e-06/random/128^3/cuda"),
        ("the same, `auto` to 6e-7", "fhd/6e-07/random/128^3/cuda"),
        ("Q of these (256^3 lags), exact sums", "q/exact/random/128^3/cuda"),
        ("the same, `auto` to 1.2e-6", "q/1.2e-06/random/128^3/cuda"),
        ("the same, `auto` to 6e-7", "q/6e-07/random/128^3/cuda"),
        ("F^H d of the head, 19,800 samples, 64^3: exact sums", "fhd/exact/head/64^3/cuda"),
        ("the same, `auto` to 1.2e-6", "fhd/1.2e-06/head/64^3/cuda"),
        ("the same kernel, readouts gridded as they come", "fhd/parts_1.2e-06/head/64^3/cuda"),
        ("Q of these (128^3 lags), exact sums", "q/exact/koosh/64^3/cuda"),
        ("the same, `auto` to 1.2e-6", "q/1.2e-06/koosh/64^3/cuda"),
    ], time_and_error),
    "solver_gpu": Table("| work | time | plain cuFFT | ratio |", [
        ("Toeplitz step, 128^3, of ten in a row", f"toeplitz/{SOLVER}"),
        ("60 PCG iterations, Tikhonov's prior", f"pcg60/{SOLVER}"),
        ("the same, 20,000 samples, 64^3", "pcg60/64^3x20000/cuda"),
        ("exact F^H d and 60 iterations", f"recon/{SOLVER}"),
        ("the same, F^H d with `precision: fast`", f"recon_fast/{SOLVER}"),
        ("the same, F^H d as `fhd: {method: auto, accuracy: 1.2e-6}` takes it", f"recon_auto/{SOLVER}"),
        ("the first after the last readout, 1,078 readouts streamed within a second", f"after_last/{SOLVER}"),
        ("30 iterations, 8 coils with maps", f"sense30_c8/{SOLVER}"),
    ], toeplitz),
    "solver_cpu": Table("| work | time | error |", [
        ("exact F^H d, 20,000 samples, 64^3", "exact_fhd/64^3x20000/cpu"),
        ("the plain loop, the same", "sincos_fhd/64^3x20000/cpu"),
        ("exact Q, 20,000 samples, 64^3 (128^3 lags)", "exact_q/64^3x20000/cpu"),
        ("Toeplitz step, 64^3", "toeplitz/64^3x20000/cpu"),
        ("Toeplitz step, 128^3", "toeplitz/128^3x284592/cpu"),
        ("60 PCG iterations, Tikhonov's prior, 128^3", "pcg60/128^3x284592/cpu"),
    ], time_and_error),
    "fft_cpu": Table(
        "| size | chapter: GPU of 2004 | chapter: FFTW of 2004 | limit | FFTW | fft | gadget | pipeline |",
        [(size, gpu, fftw, size) for size, gpu, fftw in (s.split() for s in SIZES.replace("\n", " ").split(", "))], fft, 2),
}  # fmt: skip


def run_all(folder, out, commit):
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.json"):
        old.unlink()
    failed = []

    def bench(name, result, *arguments):
        command = [folder / f"bench_{name}", *arguments, f"--benchmark_out={out / result}.json", "--benchmark_out_format=json",
                   f"--benchmark_context=commit={commit}"]  # fmt: skip
        print(f"== bench_{name} {' '.join(arguments)}", flush=True)
        if subprocess.run(command).returncode != 0:
            failed.append(f"bench_{name}")

    for name in BENCHES:
        bench(name, name)
    if '"gpu"' in (out / "nufft.json").read_text():
        bench("stream", "stream_gpu", "--backend", "cuda", "--frames", "10000")
    for script in PEERS:
        print(f"== {script}", flush=True)
        path = SOURCE / "tests/bench/peers" / script
        result = out / f"{path.stem}.json"
        if subprocess.run([sys.executable, path, folder, "--out", result, "--commit", commit]).returncode != 0:
            print(f"warning: {script} did not run; its columns say '{NOT_HERE}'", file=sys.stderr)
            result.unlink(missing_ok=True)
    return failed


def fill(text, results):
    """The page with the tables of this run, and their names."""
    filled = []

    def replace(match):
        lines = TABLES[match[1]].lines(results)
        if lines is None:
            return match[0]
        filled.append(match[1])
        machine = results.cpu if match[1].endswith("_cpu") else results.gpu
        origin = f"*{machine}; commit {results.commit}, {results.date}.*"
        return f"<!-- table {match[1]} -->\n" + "\n".join([origin, "", *lines]) + "\n<!-- end -->"

    return MARKED.sub(replace, text), filled


def problems(text):
    names = [name for name, _ in MARKED.findall(text)]
    for name in sorted(set(names) | set(TABLES)):
        if name not in TABLES or names.count(name) != 1:
            yield f"table {name}: {names.count(name)} times in the page, known here: {name in TABLES}"
    for name, body in MARKED.findall(text):
        if name in TABLES and TABLES[name].head not in body.splitlines():
            yield f"table {name} has another head than tests/bench/tables.py gives it: run ./run bench --tables"
        elif not body.startswith("*"):
            yield f"table {name} does not say where it comes from"


def self_test():
    """What is wrong with a table of made-up results."""
    case = f"adjoint_{GOLDEN}/e1e-3/cpu"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        context = {"commit": "abc", "date": "2026-01-02T03:04:05", "cpu": "a CPU", "num_cpus": 2}
        ours = {"name": f"{case}/iterations:1/manual_time", "real_time": 2000, "time_unit": "us", "error": 2.931e-4}
        peer = {"name": f"{case}/bart", "real_time": 30, "time_unit": "ms", "ours_ms": 3, "error": 8.5e-3}
        fast = {"name": f"adjoint_{RADIAL}/e2e-3/cuda", "real_time": 0.19, "time_unit": "ms", "error": 1.9e-3}
        slow = {"name": f"forward_{RADIAL}/e2e-3/cuda", "real_time": 0.21, "time_unit": "ms", "error": 1.9e-3}
        first = {"name": "first/cg_sense/cuda", "real_time": 6, "time_unit": "ms", "error": 0.4, "later_ms": 7, "again_ms": 5,
                 "ready_ms": 900}  # fmt: skip
        for file, rows in (("bench", [ours, fast, slow, first]), ("peer", [peer])):
            (folder / f"{file}.json").write_text(json.dumps({"context": context, "benchmarks": rows}))
        before = "".join(f"<!-- table {table} -->\nkept\n<!-- end -->\n" for table in ("gridding_cpu", "gridding_gpu", "first_gpu", "fft_cpu"))
        text, filled = fill(before, Results(folder))
    row = "| 2 ms | 2.93e-4 | not measured here | not measured here | not measured here | 30 ms | 8.50e-3 | 15.0 |"
    met_and_missed = ("| 0.20 ms, 2e-3 | **0.19 ms** |", "| 0.20 ms, 2e-3 | 0.21 ms |", "| 8 ms, again 4 ms | **6 ms** |", "| 7 ms | 5 ms |")
    for wanted in ("*a CPU; commit abc, 2026-01-02.*", row, "kept", *met_and_missed):
        if wanted not in text or filled != ["gridding_cpu", "gridding_gpu", "first_gpu"]:
            yield f"self-test: '{wanted}' is not in\n{text}"
    for asked, values, is_met in (("p50 1 ms, p99 2 ms", [0.7, 2.1], False), ("4,000 / 12,000 frames/s", [4001, 12001], True),
                                  ("0.7 of the plain copy", [0.69], False), ("", [1], False)):  # fmt: skip
        if met(asked, values) != is_met:
            yield f"self-test: '{asked}' is met by {values}: {not is_met}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path, metavar="BIN")
    parser.add_argument("--commit", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = PAGE.read_text()
    if arguments.check:
        found = [*self_test(), *problems(text)]
        print("\n".join(found) or "docs/performance.md has every table", file=sys.stderr if found else sys.stdout)
        return 1 if found else 0
    if arguments.folder is None:
        parser.error("FOLDER is missing")
    failed = run_all(arguments.run, arguments.folder, arguments.commit) if arguments.run else []
    text, filled = fill(text, Results(arguments.folder))
    PAGE.write_text(text)
    print(f"docs/performance.md: filled {', '.join(filled) or 'nothing'}; left as they are: "
          f"{', '.join(name for name in TABLES if name not in filled) or 'none'}")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
