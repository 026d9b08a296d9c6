"""The figures of the pages: docs/measurements/*.json, one file per machine, and the tables that pages make of them.

A page has `<!--table NAME-->` ... `<!--end-->` where the rows of that table stand, and `<!--=MACHINE:TASK[@KEY]-->` ...
`<!--.-->` around a single figure within its text. docs/measurements/README.md says what a row holds.
"""

import html
import json
import math
import re

NOT_HERE = "not measured here"
MARKED = re.compile(r"<!--table (\w+)-->\n(.*?)<!--end-->", re.S)
INLINE = re.compile(r"<!--=([\w-]+):([^\s@]+?)(?:@([^>]+?))?-->(.*?)<!--\.-->")
NEEDED = ("table", "task", "what", "value")
KEYS = (*NEEDED, "unit", "range", "runs", "error", "also", "asked", "met", "limits", "gap", "peer", "commit", "date", "command")
MADE_TABLES = ("summary", "gaps", "machines")  # of several tables' rows, or of none; pages have each once
MOST_COLUMNS = 5  # of what rows have besides; more go into one column

# (label, task on a CPU, task on a GPU): of each the newest row, whatever the machine.
R2D, R3D, K1 = "2d_radial_600x768_c16_384", "3d_kooshball_10m_c8_256", "3d_kooshball_284592_c1_128"
GOLDEN, STREAM = "2d_golden_402x512_c8_256", "radial_256_16coils_55spokes_stride5_tr3ms"
SUMMARY = [
    ("Cartesian scan, 256^2, 16 coils, 40 frames (675 MB), first byte to last image", "whole_scan/cartesian_256_16coils_40frames/cpu",
     "whole_scan/cartesian_256_16coils_40frames/cuda"),
    ("the same with GRAPPA, R = 3 (228 MB)", "whole_scan/cartesian_grappa_256_16coils_40frames/cpu",
     "whole_scan/cartesian_grappa_256_16coils_40frames/cuda"),
    ("golden angle 402 x 512, 8 coils, 10 frames never seen before", "whole_scan/golden_radial_402x512_8coils_10frames/cpu",
     "whole_scan/golden_radial_402x512_8coils_10frames/cuda"),
    ("cine 256^2, one coil, one session", "cine/cartesian_256_1coil/1_sessions/cpu", "cine/cartesian_256_1coil/1_sessions/cuda"),
    ("the same, four sessions", "cine/cartesian_256_1coil/4_sessions/cpu", "cine/cartesian_256_1coil/4_sessions/cuda"),
    ("eight scans at once over one", "at_once/cartesian_256_16coils_8frames/8_scans/cpu",
     "at_once/cartesian_256_16coils_8frames/8_scans/cuda"),
    ("real time, 55 spokes of 16 coils, 256^2: last readout to image", f"latency/{STREAM}/cpu", f"latency/{STREAM}/cuda"),
    ("the same with the option `latency`", "", f"latency/{STREAM}/cuda/latency"),
    ("24 such scanners at once", "", f"latency/{STREAM}/24_scanners/cuda"),
    ("the first image of a server: `cartesian_grappa`", "first/grappa/cpu", "first/grappa/compiled/cuda"),
    ("`cg_sense_realtime`, CPU 128^2, GPU 256^2: last readout to image", "cg_sense_realtime/128/cpu", "cg_sense_realtime/256/cuda/latency"),
    ("NLINV, 7 Newton steps, CPU 128^2 (solver alone), GPU 256^2: the same", "nlinv/128/cpu", "nlinv/256/cuda/latency"),
    ("ESPIRiT's maps, 16 coils, 24^2 samples, 128^2", "espirit/cpu", "espirit/cuda"),
    ("gridding 2D, 402 x 512, 8 coils -> 256^2, width 5 (CPU: processor time)", f"adjoint_{GOLDEN}/e1e-3/cpu/finufft", f"adjoint_{GOLDEN}/e1e-3/cuda/cufinufft"),
    ("gridding 2D, 600 x 768, 16 coils -> 384^2, width 4", "", f"adjoint_{R2D}/e2e-3/cuda/cufinufft"),
    ("forward 2D, 600 x 768, 16 coils, width 4", "", f"forward_{R2D}/e2e-3/cuda/cufinufft"),
    ("gridding 3D, 284,592 samples, 1 coil -> 128^3, width 7 (CPU: processor time)", f"adjoint_{K1}/e1e-5/cpu/finufft", f"adjoint_{K1}/e1e-5/cuda/cufinufft"),
    ("gridding 3D, 10,000,000 samples, 8 coils -> 256^3, width 5", "", f"adjoint_{R3D}/e2e-3/cuda/cufinufft"),
    ("F^H d, 284,592 samples -> 128^3, to 1.2e-6", "", "fhd/1.2e-06/random/128^3/cuda"),
    ("Toeplitz step, 128^3", "toeplitz/128^3x284592/cpu", "toeplitz/128^3x284592/cuda"),
    ("60 PCG iterations, 128^3", "pcg60/128^3x284592/cpu", "pcg60/128^3x284592/cuda"),
    ("F^H d and 60 iterations", "", "recon_auto/128^3x284592/cuda"),
    ("points left out at random, wavelets (CPU: to BART's J; GPU: 18 iterations)", "wavelet/14/cpu", "solve/wavelet/cuda"),
    ("GRASP, 20 frames of 21 spokes, 128^2 (CPU: 40 iterations; GPU: 26)", "grasp_small/40/cpu", "solve/grasp_small/cuda"),
    ("2D transform 512 x 512", "fft/512x512/cpu", "fft/512x512/cuda"),
    ("ultrasound: f-k migration, 512 x 512", "fk/20MHz_to_512/cpu", "fk/20MHz_to_512/cuda"),
    ("EPI series, 64^2, 32 coils, R = 2, two slices at once", "", "epi/multiband/cuda"),
]  # fmt: skip
README = [
    ("A Cartesian scan of 675 MB through TCP, first byte to last image", *SUMMARY[0][1:]),
    ("A real-time radial image, last readout to image, with `latency`", *SUMMARY[7][1:]),
    ("Gridding 2D, 8 coils -> 256^2 (CPU: processor time)", *SUMMARY[13][1:]),
    ("Gridding 3D, 10,000,000 samples, 8 coils -> 256^3", *SUMMARY[17][1:]),
    ("ESPIRiT's maps of 16 coils", *SUMMARY[12][1:]),
    ("GRASP, 20 frames, 128^2 (CPU: 40 iterations; GPU: 26)", *SUMMARY[23][1:]),
]

# Table 48-1 of seeds.md: row, size, what the document has, its FFTW.
SIZES = """F10 256x256 430 473 355 1.33, F11 512x512 95 104 56 1.86, F12 2048x32 387 426 230 1.85, F13 2048x64 190 207 105 1.97,
F14 2048x128 91 100 53 1.89, F15 2048x256 44 48 26 1.85, F16 2048x512 21 23 13 1.77, F17 2048x1024 10 11 6 1.83,
F18 1024x256 93 102 54 1.89, F19 1024x512 45 49 27 1.81"""


def load(folder):
    """{stem: content} of the machines' files."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"), key=lambda path: path.stem)}


def save(folder, machines):
    for stem, content in machines.items():
        head = json.dumps({key: value for key, value in content.items() if key != "rows"}, ensure_ascii=False)[:-1]
        rows = ",\n".join(json.dumps({key: row[key] for key in KEYS if key in row}, ensure_ascii=False) for row in content["rows"])
        (folder / f"{stem}.json").write_text(f'{head}, "rows": [\n{rows}\n]}}\n')


def show(value, unit=""):
    if value is None:
        return NOT_HERE
    if isinstance(value, str):
        text = value
    elif value != 0 and abs(value) < 9.95e-3:
        text = f"{value:.2e}".replace("e-0", "e-")
    else:
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def between(bounds):
    return f"{show(bounds[0])} to {show(bounds[1])}"


def figure(row):
    """The value with its unit, without range and runs."""
    value, unit = row["value"], row.get("unit", "")
    if value is None and "range" in row:
        return f"{between(row['range'])} {unit}".strip()
    if isinstance(value, dict):
        return f"{', '.join(f'{name} {show(each)}' for name, each in value.items())} {unit}".strip()
    return show(" and ".join(show(each) for each in value) if isinstance(value, list) else value, unit if value is not None else "")


def measured(row, whole=True):
    """The value, whether it is what was asked, and, if `whole`, what it varied by."""
    met, bounds = row.get("met"), row.get("range") if whole else None
    text = f"**{figure(row)}**" if met is True else figure(row) + ", missed" * (met is False)
    spread = []
    if isinstance(bounds, dict):
        spread.append(", ".join(f"{name} {between(each)}" for name, each in bounds.items()))
    elif bounds and row["value"] is not None:
        spread.append(between(bounds))
    spread += ([row["runs"]] if whole and "runs" in row and not runs_of_all(row) else []) + ([met] if isinstance(met, str) else [])
    return text + (f" ({'; '.join(spread)})" if spread else "")


def runs_of_all(row):
    """The runs, where the caption tells them: no range stands beside them."""
    return row.get("runs", "") if "range" not in row and not isinstance(row.get("met"), str) else ""


def first_number(value):
    value = list(value.values())[0] if isinstance(value, dict) else value
    return value if isinstance(value, (int, float)) else None


def ratio(row):
    """How many times as fast as its peer the row is; None where that is not known."""
    peer = row.get("peer") or {}
    ours, theirs = first_number(row["value"]), first_number(peer.get("value"))
    if "ratio" in peer or not ours or not theirs:
        return peer.get("ratio")
    return ours / theirs if row.get("unit", "").endswith("/s") else theirs / ours


def peer_text(row):
    peer = row.get("peer")
    if not peer:
        return ""
    name = peer["name"] + (f" ({peer['options']})" if peer.get("options") else "")
    more = [show(peer["value"], row.get("unit", ""))] if peer.get("value") is not None else []
    more += [f"error {show(peer['error'])}"] if peer.get("error") is not None else []
    more += [f"{key} {show(value)}" for key, value in peer.get("also", {}).items()]
    return name + (": " + ", ".join(more) if more else "")


class Origins:
    """Letters for where rows come from, and the caption that says what they mean."""

    def __init__(self):
        self.known = {}

    def letter(self, machine, row):
        origin = (machine["machine"], row.get("commit", ""), row.get("date", ""), row.get("command", ""), runs_of_all(row))
        self.known.setdefault(origin, chr(ord("a") + len(self.known) % 26) * (1 + len(self.known) // 26))
        return self.known[origin]

    def caption(self):
        """Where the letters' rows come from, by machine."""
        told = {}
        for (machine, *origin), letter in self.known.items():
            commit, date, command, runs = origin
            where = ", ".join(filter(None, (commit, date, command and f"`{command}`", runs)))
            told.setdefault(machine, []).append(where if len(self.known) == 1 else f"{letter}: {where}")
        if len(self.known) == 1:
            return f"*{machine}, {where}.*" if where else f"*{machine}.*"
        machines = [f"{machine} ({'; '.join(each)})" for machine, each in told.items()]
        return f"*{'; '.join(machines)}.*"


def lines_of(head, rows, caption):
    """A table of Markdown without its empty columns."""
    kept = [i for i, name in enumerate(head) if i == 0 or any(row[i] for row in rows)]
    lines = ["|" + "|".join(row[i] for i in kept) + "|" for row in [head, *rows]]
    return [lines[0], "|" + "---|" * len(kept), *lines[1:], *(["", caption] if caption else [])]


def rows_of(machines, table):
    return [(machine, row) for machine in machines.values() for row in machine["rows"] if row["table"] == table]


def plain_table(machines, name):
    found, origins = rows_of(machines, name), Origins()
    keys = list(dict.fromkeys(key for _, row in found for key in row.get("also", {})))
    own = keys if len(keys) <= MOST_COLUMNS else []
    rows = []
    for machine, row in found:
        also = row.get("also", {})
        besides = "" if own else ", ".join(f"{key} {show(value)}" for key, value in also.items())
        rows.append([row["what"], row.get("asked", ""), measured(row), "" if row.get("error") is None else show(row["error"]),
                     *(show(also[key]) if key in also else "" for key in own), besides, peer_text(row),
                     "" if ratio(row) is None else f"{ratio(row):.2g}" if ratio(row) < 10 else f"{ratio(row):.0f}",
                     origins.letter(machine, row)])  # fmt: skip
    if len(origins.known) == 1:
        rows = [[*row[:-1], ""] for row in rows]
    return lines_of(["what", "asked", "measured", "error", *own, "besides", "peer", "times the peer", "from"], rows, origins.caption())


def newest(machines, task):
    found = [(row.get("date", ""), stem) for stem, machine in machines.items() for row in machine["rows"] if row["task"] == task]
    if not found:
        return None
    stem = max(found)[1]
    return machines[stem], next(row for row in machines[stem]["rows"] if row["task"] == task)


def summary(machines, wanted, short=False):
    """The newest row of each task on either place; `short`: without spreads, options and what was asked."""
    rows, origins = [], Origins()
    for label, *tasks in wanted:
        places = [newest(machines, task) for task in tasks]
        if not any(places):
            continue
        cells = [(figure if short else measured)(place[1]) if place else "" for place in places]
        there = [place for place in places if place]
        asked = [place[1].get("asked", "") if place else "" for place in places]
        asked = asked[0] or asked[1] if len(set(filter(None, asked))) < 2 else f"CPU {asked[0]}; GPU {asked[1]}"
        errors = [show(row["error"]) for _, row in there if row.get("error") is not None]
        peers = [(row["peer"]["name"] if short else peer_text(row)) + (f" ({ratio(row):.2g} times)" if ratio(row) else "") for _, row in there if row.get("peer")]
        plain = [{key: value for key, value in row.items() if key != "command"} for _, row in there]
        letters = [origins.letter(machine, row) for (machine, _), row in zip(there, plain)]
        rows.append([label, *cells, "; ".join(peers), "; ".join(errors), "" if short else asked, ", ".join(letters)])
    peer = "best peer" if short else "best peer (its options)"
    return lines_of(["task", "CPU", "GPU", peer, "error", "asked", "from"], rows, origins.caption())


def gaps(machines):
    """Every row that misses what was asked, or whose limit is told. What the summary's rows varied by stands there."""
    rows, origins, above = [], Origins(), {task for _, *tasks in SUMMARY for task in tasks}
    for machine in machines.values():
        for row in machine["rows"]:
            if "limits" in row:
                plain = {key: value for key, value in row.items() if key != "command"}
                rows.append([row.get("gap", row["what"]), row.get("asked", ""), measured(row, row["task"] not in above),
                             row["limits"], origins.letter(machine, plain)])  # fmt: skip
    return lines_of(["what", "asked", "measured", "what limits", "from"], rows, origins.caption())


def seeds_fft(machines):
    """Rows F10 to F19 of seeds.md. The heads of the columns name their numbers."""
    rows, origins, named = [], Origins(), {}
    for name, size, alone, both, fftw, gain in (each.split() for each in SIZES.replace("\n", " ").split(", ")):
        cells = []
        for task in (f"fft/{size}/cpu", f"fft/{size}/cuda"):
            place = newest(machines, task)
            if not place:
                cells.append("")
                continue
            machine, row = place
            also, peer = row.get("also", {}), row["peer"]
            origins.letter(machine, row)
            names = "; ".join([peer["name"], "fft", *also, f"fft over {peer['name']}"])
            if named.setdefault(len(cells), names) != names:
                raise ValueError(f"{task} has other numbers than the sizes before it")
            numbers = [show(each) for each in (peer["value"], row["value"], *also.values())]
            cells.append("; ".join([*numbers, f"{row['value'] / peer['value']:.2f}"]))
        rows.append([name, size, "; ".join([alone, both, fftw, gain]), *cells, "`fft`"])
    head = ["row", "what", "document: GPU; both; FFTW; gain", f"ours: {named.get(0, '')}", f"ours, H200: {named.get(1, '')}", "run"]
    return lines_of(head, rows, origins.caption())


def machine_list(machines):
    return lines_of(["name", "what it is", "rows"], [[m["machine"], m["is"], f"[{stem}.json]({stem}.json)"] for stem, m in machines.items()], "")


def table(machines, name):
    """The lines of a table; None where there is no such table."""
    special = {"summary": lambda: summary(machines, SUMMARY), "readme": lambda: summary(machines, README, short=True), "gaps": lambda: gaps(machines),
               "fft": lambda: seeds_fft(machines), "machines": lambda: machine_list(machines)}  # fmt: skip
    if name in special:
        return special[name]()
    return plain_table(machines, name) if rows_of(machines, name) else None


def names(machines):
    return sorted({row["table"] for machine in machines.values() for row in machine["rows"]} | set(MADE_TABLES))


def inline(machines, match):
    stem, task, key, said = match.groups()
    row = next((row for row in machines.get(stem, {"rows": []})["rows"] if row["task"] == task), None)
    if row is None:
        return f"{match[0]} (no such row)"
    if key == "ratio":
        told = f"{ratio(row):.2g}" if ratio(row) < 10 else f"{ratio(row):.0f}"
    elif key == "date":
        told = row["date"]
    elif key == "peer":
        told = show(row["peer"]["value"], row.get("unit", ""))
    elif key:
        told = show(row["error"] if key == "error" else row["also"][key])
    else:
        told = figure(row)
    return match[0].replace(f"-->{said}<!--", f"-->{told}<!--")


def filled(text, machines):
    """The page with its tables and figures as the machines' files have them."""

    def replace(match):
        lines = table(machines, match[1])
        return match[0] if lines is None else f"<!--table {match[1]}-->\n" + "\n".join(lines) + "\n<!--end-->"

    return INLINE.sub(lambda match: inline(machines, match), MARKED.sub(replace, text))


def chart(machines):
    """An SVG: of each row of the summary that has a peer, how many times as fast as the peer it is."""
    bars = []
    for label, *tasks in SUMMARY:
        for place, task in zip(("CPU", "GPU"), tasks):
            found = newest(machines, task)
            if found and ratio(found[1]):
                bars.append((re.sub(r"`| \([^)]*\)", "", label), place, found[1]["peer"]["name"].replace("`", ""), ratio(found[1])))
    left, width, step, low, high = 390, 900, 22, 0.1, 200
    scale = (width - left - 170) / math.log(high / low)

    def x(value):
        return round(left + scale * math.log(value / low), 1)

    bottom = 40 + step * len(bars)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 10}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{bottom + 10}" fill="#fff"/>',
             f'<text x="{left}" y="16" fill="#333">times as fast as the best peer (blue: CPU, green: GPU)</text>']  # fmt: skip
    for tick in (0.1, 1, 10, 100):
        line, colour = x(tick), "#333" if tick == 1 else "#ccc"
        lines.append(f'<line x1="{line}" y1="32" x2="{line}" y2="{bottom}" stroke="{colour}"/>')
        lines.append(f'<text x="{line}" y="29" text-anchor="middle" font-size="10" fill="#666">{tick:g}</text>')
    for i, (label, place, peer, times) in enumerate(bars):
        y, begin, end = 38 + step * i, min(x(times), x(1)), max(x(times), x(1))
        short = label if len(label) < 62 else label[:59] + "..."
        colour = "#3b6fb6" if place == "CPU" else "#4a9d5b"
        lines.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end" fill="#333">{html.escape(short)}</text>')
        lines.append(f'<rect x="{begin}" y="{y}" width="{round(end - begin, 1)}" height="15" fill="{colour}"/>')
        lines.append(f'<text x="{end + 5}" y="{y + 12}" fill="#333">{times:.2g} x {html.escape(peer)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def pages(root):
    return [path for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))] if path.exists()]


def write(root):
    """All pages and the chart anew; returns the names of those that changed."""
    machines, changed = load(root / "docs" / "measurements"), []
    for path in pages(root):
        text = path.read_text()
        if (new := filled(text, machines)) != text:
            path.write_text(new)
            changed.append(path.name)
    (root / "docs" / "performance.svg").write_text(chart(machines))
    return changed


def wrong_rows(machines):
    for stem, machine in machines.items():
        seen = set()
        for row in machine["rows"]:
            name = f"docs/measurements/{stem}.json: {row.get('table')}: {row.get('task')}"
            if missing := [key for key in NEEDED if key not in row]:
                yield f"{name} lacks {', '.join(missing)}"
            if unknown := set(row) - set(KEYS):
                yield f"{name} has {', '.join(sorted(unknown))}, which nothing reads"
            if row.get("task") in seen:
                yield f"{name} is there twice"
            if row.get("met") is False and "limits" not in row:
                yield f"{name} misses what was asked, and no `limits` says why"
            if not row.get("date") and not row.get("commit"):
                yield f"{name} has neither date nor commit"
            seen.add(row.get("task"))


def problems(root):
    """Where pages and measurements differ, and rows that are not whole."""
    machines = load(root / "docs" / "measurements")
    yield from wrong_rows(machines)
    seen = []
    for path in pages(root):
        text, name = path.read_text(), path.relative_to(root)
        seen += [found for found, _ in MARKED.findall(text)]
        for found, _ in MARKED.findall(text):
            if table(machines, found) is None:
                yield f"{name}: table {found}: no measurement has such rows"
        for said, wanted in zip(text.splitlines(), filled(text, machines).splitlines()):
            if said != wanted:
                yield f"{name}: the page has '{said}' where the measurements have '{wanted}': ./run bench --tables --pages"
                break
        else:
            if filled(text, machines) != text:
                yield f"{name}: the measurements have more or fewer rows: ./run bench --tables --pages"
    for found in sorted({*MADE_TABLES, *seen}):
        if seen.count(found) != 1:
            yield f"table {found}: {seen.count(found)} times in the pages"
    drawn = root / "docs" / "performance.svg"
    if not drawn.exists() or drawn.read_text() != chart(machines):
        yield "docs/performance.svg is not what the measurements give: ./run bench --tables --pages"
