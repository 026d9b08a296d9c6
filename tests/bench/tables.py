"""The figures of the pages, from benches to docs/measurements and from there to the pages:

    python3 tests/bench/tables.py FOLDER            takes the JSON files of a run in FOLDER into docs/measurements, then as --pages
    python3 tests/bench/tables.py --run BIN FOLDER  runs the benches and the peers first; their JSON goes to FOLDER
    python3 tests/bench/tables.py --pages           writes tables, figures and the chart anew from docs/measurements
    python3 tests/bench/tables.py --print NAME ...  prints tables of docs/measurements, those that no page has, too; all: every one
    python3 tests/bench/tables.py --check           whether pages and docs/measurements agree, and whether made-up results
                                                    get into both

`./run bench --tables` calls it. A result of a run replaces the row of its name in the file of its machine; what, and what was
asked, stays. A machine that is new gets a file, with the rows that other machines have. Rows of which the run has nothing stay
as they are, with their machine, commit and date. measurements.py has the pages' side.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import measurements
from measurements import show

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BENCHES = ("nufft", "solver", "fhd", "fft", "stream")
PEERS = ("finufft_peer.py", "bart_peer.py")
PEER_NAMES = {"finufft": "FINUFFT", "cufinufft": "cuFINUFFT"}
SETTINGS = re.compile(r"(/(iterations|repeats|min_time|threads):[\d.]+|/(manual|real|process)_time)+$")  # Google Benchmark's
RATES = ("/s", "times", "copy", "rate")  # units of which more is better


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


def met(asked, unit, values):
    """Whether the values are what the numbers of `asked` say, in their order: rates at least, all else at most."""
    targets = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,.]*(?:e-\d+)?", re.sub(r"p\d+ ", "", asked))]
    at_least = unit.endswith(RATES)
    return all(v is not None and (v >= target if at_least else v <= target) for target, v in zip(targets, values)) if targets else None


def time_and_error(results, name):
    return {"value": results.get(name), "unit": "ms", "error": results.get(name, "error")}


def gridding(results, name):
    rate, moved = results.get("device_copy/cuda", "gb_per_s"), results.get(name, "megabytes")
    also = {"processor time, ms": results.get(name, "cpu_ms"), "caches cold, ms": results.get(name, "cold_ms"),
            "ellipsoids": results.get(name, "error_ellipsoids"), "theory, noise": results.get(name, "theory"),
            "plan, ms": results.get(name, "plan_ms"),
            "floor, ms": moved / rate if moved and rate and name.endswith("/cuda") else None}  # fmt: skip
    return time_and_error(results, name) | {"also": also}


def gridding_peer(results, name):
    case, _, peer = name.rpartition("/")
    if peer == "bart":
        return {"value": results.get(name, "ours_ms"), "unit": "ms", "error": results.get(case, "error"), "runs": "by turns",
                "peer": {"name": "BART", "options": "`nufft -a`", "value": results.get(name), "error": results.get(name, "error")}}  # fmt: skip
    told = {"name": PEER_NAMES[peer], "options": f"tolerance {show(results.get(name, 'tolerance'))}, {results.get(name, 'settings')}",
            "error": results.get(name, "error")}  # fmt: skip
    row = {"unit": "ms", "error": results.get(name, "ours_error"), "runs": "by turns"}
    if peer == "finufft":  # of all threads together
        told |= {"value": results.get(name, "cpu_ms"), "also": {"wall": show(results.get(name), "ms")}}
        return row | {"value": results.get(name, "ours_cpu_ms"), "also": {"wall, ms": results.get(name, "ours_ms")}, "peer": told}
    return row | {"value": results.get(name, "ours_ms"), "peer": told | {"value": results.get(name)}}


def from_host(results, name):
    parts = name.replace("/whole/", "/as_they_come/")
    also = {"upload alone": results.get(name, "upload_ms"), "upload, then the work": results.get(name, "in_turn_ms"),
            "gridded as they come": results.get(parts), "difference": results.get(parts, "difference")}  # fmt: skip
    return {"value": results.get(name), "unit": "ms", "also": also}


def toeplitz(results, name):
    peer = results.get(name.replace("^", ".") + "/cufft")
    told = {"peer": {"name": "plain cuFFT", "options": "forward and inverse transform of the whole doubled grid", "value": peer}}
    return time_and_error(results, name) | (told if peer else {})


def ingest(results, name):
    ours, plain = results.rows[name], results.rows.get(name.replace("passthrough", "plain_copy"))
    share = plain["real_time"] / ours["real_time"] if plain else None
    if "/128x2/" in name:
        return {"value": ours["readouts_per_s"], "unit": "readouts/s", "also": {"of the plain copy": share}}
    return {"value": share, "unit": "of the plain copy", "also": {"GB/s": ours["bytes_per_s"] / 1e9}}


def whole_scan(results, name):
    seconds = {"value": 1e-3 * results.get(name), "unit": "s"}
    best = results.best[name]
    best = best["real_time"] * {"ms": 1e-3, "s": 1}[best["time_unit"]]
    return seconds | {"also": {"best round, s": best, "server's processor time, s": results.get(name, "server_cpu_s")}}


def latency(results, name):
    entry = results.rows[name]
    also = {"worst": entry.get("max_ms"), "latest first image": entry.get("first_ms"), "p99 of all": entry.get("whole_p99_ms")}
    also |= {part: f"{entry[part + '_p50_ms']:.2f} and {entry[part + '_p99_ms']:.2f}"
             for part in ("server", "queue", "compute", "copy", "send") if part + "_p50_ms" in entry}  # fmt: skip
    value = {"p50": entry["p50_ms"], "p99": entry["p99_ms"]} if "scanners" not in name else {"p99": entry["p99_ms"]}
    return {"value": value, "unit": "ms", "runs": f"{entry['frames']:,.0f} frames", "also": also}


def frames(results, name):
    return {"value": results.get(name, "frames_per_s"), "unit": "frames/s"}


def at_once(results, name):
    one = results.get(name.replace("/8_scans/", "/1_scans/"), "frames_per_s")
    return {"value": results.get(name, "frames_per_s") / one if one else None, "unit": "of one scan's rate",
            "also": {"slowest over fastest": results.get(name, "slowest_to_fastest")}}  # fmt: skip


def first_frame(results, name):
    case, _, place = name.rpartition("/")
    also = {"server just ready": results.get(f"{case}/at_once/{place}"), "its next frame": results.get(name, "later_ms"),
            "same scan again": results.get(name, "again_ms"), "ready after": results.get(name, "ready_ms")}  # fmt: skip
    return time_and_error(results, name) | {"also": also}


def fft(results, name):
    size = name.split("/")[1]
    peer, place = ("FFTW", "fftw") if name.endswith("/cpu") else ("cuFFT", "cufft/cuda")
    where = name.split("/")[2]
    also = {way: results.get(f"{way}/{where}/{size}", "frames_per_s") for way in ("gadget", "pipeline")}
    return {"value": results.get(f"fft/{where}/{size}", "frames_per_s"), "unit": "frames/s",
            "also": also | {"limit": results.get(f"fft/{where}/{size}", "limit_per_s")},
            "peer": {"name": peer, "value": results.get(f"{place}/{size}", "frames_per_s")}}  # fmt: skip


# What reads a result, by its name; the first that fits.
READERS = [
    (r"^(adjoint|forward)_.*/(finufft|cufinufft|bart)$", gridding_peer),
    (r"^(adjoint|forward)_", gridding),
    (r"^from_host/.*/whole/", from_host),
    (r"^toeplitz/.*/cuda$", toeplitz),
    (r"^ingest/.*/passthrough/", ingest),
    (r"^whole_scan/", whole_scan),
    (r"^latency/", latency),
    (r"^cine/", frames),
    (r"^at_once/.*/8_scans/", at_once),
    (r"^first/\w+/(cpu|cuda)$", first_frame),
    (r"^fft/\d+x\d+/(cpu|cuda)$", fft),
]


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items() if each is not None}
    return float(f"{value:.3g}") if isinstance(value, float) and abs(value) < 1e3 else round(value) if isinstance(value, float) else value


def read(results, task):
    """The row's fields that this run has; None where it has no such result."""
    if re.match(r"fft/\d", task):
        size, place = task.split("/")[1:]
        if f"fft/{place}/{size}" not in results.rows:
            return None
    elif "/again/" in task:
        again = results.get(task.replace("/again/", "/"), "again_ms")
        return {"value": rounded(again), "unit": "ms"} if again else None
    elif task not in results.rows:
        return None
    reader = next((reader for pattern, reader in READERS if re.search(pattern, task)), time_and_error)
    row = {key: rounded(value) for key, value in reader(results, task).items() if value not in (None, {})}
    return row if row.get("value") is not None else None


def take_in(machines, results):
    """Puts the results into the rows of their machines; returns their tasks."""
    known, taken = {}, []
    for machine in machines.values():
        for row in machine["rows"]:
            known.setdefault(row["task"], row)
    for task, first in known.items():
        new = read(results, task)
        if new is None:
            continue
        context = results.gpu if re.search(r"/cuda(/|$)", task) else results.cpu
        stem = next((stem for stem, machine in machines.items() if context in machine.get("context", [])), None)
        if stem is None:
            stem = re.sub(r"\W+", "-", context).strip("-").lower()
            machines[stem] = {"machine": context, "is": context, "context": [context], "rows": []}
        rows = machines[stem]["rows"]
        at = next((i for i, row in enumerate(rows) if row["task"] == task), None)
        old = first if at is None else rows[at]
        row = {key: old[key] for key in ("table", "task", "what", "asked", "limits", "gap", "command") if key in old} | new
        row |= {"commit": results.commit, "date": results.date}
        values = list(new["value"].values()) if isinstance(new["value"], dict) else [new["value"], new.get("error")]
        row["met"] = met(old.get("asked", ""), new["unit"], values)
        if row["met"] is False:
            row.setdefault("limits", "not known")
        elif row["met"]:
            row.pop("limits", None)
        row = {key: value for key, value in row.items() if value is not None}
        rows[len(rows) if at is None else at:len(rows) if at is None else at + 1] = [row]
        taken.append(task)
    return taken


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
            print(f"warning: {script} did not run; its rows stay as they are", file=sys.stderr)
            result.unlink(missing_ok=True)
    return failed


def self_test():
    """What is wrong with how made-up results get into rows and pages."""
    case = "adjoint_a/e1e-3"
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        folder = root / "docs" / "measurements"
        folder.mkdir(parents=True)
        context = {"commit": "abc", "date": "2026-01-02T03:04:05", "cpu": "a CPU", "gpu": "a GPU", "num_cpus": 2}
        benchmarks = [
            {"name": f"{case}/cuda/iterations:1/manual_time", "real_time": 210, "time_unit": "us", "error": 1.9e-3},
            {"name": f"{case}/cuda/cufinufft", "real_time": 3, "time_unit": "ms", "ours_ms": 0.2, "error": 1e-3, "tolerance": 1e-2,
             "settings": "x 1"},
            {"name": "at_once/b/8_scans/cuda", "real_time": 1, "time_unit": "ms", "frames_per_s": 60, "slowest_to_fastest": 1.25},
            {"name": "at_once/b/1_scans/cuda", "real_time": 1, "time_unit": "ms", "frames_per_s": 10},
        ]  # fmt: skip
        (root / "run.json").write_text(json.dumps({"context": context, "benchmarks": benchmarks}))
        rows = [{"table": "a", "task": f"{case}/cuda", "what": "gridding", "value": 0.1, "asked": "0.20 ms, 2e-3", "met": True, "date": "old"},
                {"table": "a", "task": f"{case}/cuda/cufinufft", "what": "beside", "value": None, "date": "old"},
                {"table": "a", "task": "at_once/b/8_scans/cuda", "what": "scans", "value": 1, "asked": "5", "met": False, "limits": "cores", "date": "old"},
                {"table": "a", "task": "by hand", "what": "kept", "value": [1, 2], "unit": "s", "date": "old"}]  # fmt: skip
        machines = {"gpu": {"machine": "G", "is": "", "context": ["a GPU, 2 cores"], "rows": rows}}
        taken = take_in(machines, Results(root))
        measurements.save(folder, machines)
        page = root / "docs" / "page.md"
        marks = "".join(f"<!--table {each}-->\n<!--end-->\n" for each in ("a", "summary", "gaps", "machines"))
        page.write_text(f"{marks}It is <!--=gpu:{case}/cuda-->9 h<!--.-->.\n")
        measurements.write(root)
        text = page.read_text()
        if found := list(measurements.problems(root)):
            yield f"self-test: {found} where nothing is wrong"
        for broken in (text.replace("0.21 ms, missed", "0.19 ms"), text.replace("-->0.21 ms<!--", "-->0.2 ms<!--")):
            page.write_text(broken)
            if broken == text or not list(measurements.problems(root)):
                yield f"self-test: a page with another figure passes:\n{broken}"
    if taken != [row["task"] for row in rows[:3]]:
        yield f"self-test: {taken} was taken in"
    for wanted in ("|gridding|0.20 ms, 2e-3|0.21 ms, missed|1.90e-3|", "cuFINUFFT (tolerance 0.01, x 1): 3 ms, error 1.00e-3|15|",
                   "|scans|5|**6 of one scan's rate**|", "|kept||1 and 2 s|", "G (a: abc, 2026-01-02", "It is <!--=gpu:",
                   "|gridding|0.20 ms, 2e-3|0.21 ms, missed|not known|"):  # fmt: skip
        if wanted not in text:
            yield f"self-test: '{wanted}' is not in\n{text}"
    for asked, unit, values, is_met in (("p50 1 ms, p99 2 ms", "ms", [0.7, 2.1], False), ("4,000 frames/s", "frames/s", [4001], True),
                                        ("0.7 of the plain copy", "of the plain copy", [0.69], False), ("", "ms", [1], None)):  # fmt: skip
        if met(asked, unit, values) is not is_met:
            yield f"self-test: '{asked}' is met by {values}: {met(asked, unit, values)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path, metavar="BIN")
    parser.add_argument("--commit", default="")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--print", nargs="+", metavar="NAME", dest="wanted")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=SOURCE, help="the tree whose pages they are")
    arguments = parser.parse_args()
    if arguments.check:
        found = [*self_test(), *measurements.problems(arguments.root)]
        print("\n".join(found) or "pages and docs/measurements agree", file=sys.stderr if found else sys.stdout)
        return 1 if found else 0
    if arguments.wanted:
        machines = measurements.load(arguments.root / "docs" / "measurements")
        names = measurements.names(machines)
        if unknown := [name for name in arguments.wanted if name not in (*names, "all")]:
            parser.error(f"no table {', '.join(unknown)}; there are: {', '.join(names)}")
        for name in names if "all" in arguments.wanted else arguments.wanted:
            print("\n".join([f"## {name}", "", *measurements.table(machines, name), ""]))
        return 0
    failed = []
    if not arguments.pages:
        if arguments.folder is None:
            parser.error("FOLDER is missing")
        failed = run_all(arguments.run, arguments.folder, arguments.commit) if arguments.run else []
        folder = arguments.root / "docs" / "measurements"
        machines = measurements.load(folder)
        taken = take_in(machines, Results(arguments.folder))
        measurements.save(folder, machines)
        print(f"docs/measurements: {len(taken)} rows are of this run: {', '.join(taken) or 'none'}")
    print(f"written anew: {', '.join(measurements.write(arguments.root)) or 'no page'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
