"""docs/seeds.md and the driver that measures its rows (tests/seeds/seeds.py) know the same rows, programs and tests."""

import re
import sys

from programs import SHIPPED, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "seeds"))
import seeds  # noqa: E402

PAGE = seeds.PAGE.read_text()


def test_every_measured_row_is_on_the_page_once():
    rows = re.findall(r"^\| ?([FGSKM]\d+) ?\|", PAGE, re.MULTILINE)
    assert len(rows) == len(set(rows)) and set(rows) == set(seeds.page_rows())
    measured = {row for row, _, _ in seeds.ROWS} | set(seeds.OTHER_ROWS)
    assert measured <= set(rows)
    assert {of for _, of, _ in seeds.ROWS} | set(seeds.OTHER_ROWS.values()) == set(seeds.RUNS)
    assert f"{len(measured)} of the {len(rows)} rows" in PAGE
    runs = {}
    for row, of in [*((row, of) for row, of, _ in seeds.ROWS), *seeds.OTHER_ROWS.items()]:
        runs.setdefault(row, set()).add(of)
    for line in re.findall(r"^\| ?[FGSKM]\d+ ?\|.*", PAGE, re.MULTILINE):
        told = set(re.findall(r"`(\w+)`", re.split(r"(?<!\\)\|", line)[-2]))
        assert told == runs.get(re.match(r"\W+(\w+)", line)[1], set()), line


def test_a_number_says_where_it_comes_from():
    """A number of ours is measured by `./run seeds`, held by a test that is named, of another row, or marked."""
    measured = {row for row, _, _ in seeds.ROWS} | set(seeds.OTHER_ROWS)
    for line in re.findall(r"^\| ?[FGSKM]\d+ ?\|.*", PAGE, re.MULTILINE):
        row = re.match(r"\W+(\w+)", line)[1]
        ours = re.sub(r"`[^`]*`", "", seeds.page_rows()[row][2])
        if row not in measured and re.search(r"\d", ours):
            of_another = re.search(r"rows? [FGSKM]\d|as [FGSKM]\d", ours)
            assert of_another or "†" in ours or "./run test -R" in line, line


def test_lines_of_a_table_have_the_same_columns():
    columns = 0
    for line in PAGE.splitlines():
        count = len(re.split(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (columns and count) or count == columns, line
        columns = count


def test_what_the_page_names_is_there():
    documents = SOURCE / "docs"
    for name in re.findall(r"\]\(([\w./-]+)", PAGE):
        assert (documents / name).exists(), name
    for name in re.findall(r"integration\.(\w+)", PAGE):
        assert list((SOURCE / "tests/integration").rglob(f"test_{name}.py")), name
    for name in re.findall(r"(?:tests|docs|config)/[\w./]+\.\w+", PAGE):
        assert (SOURCE / name).exists(), name
    of_readouts = {path.stem for path in SHIPPED.glob("*.yaml") if "input: images" not in path.read_text()}
    assert of_readouts - {"passthrough"} <= set(re.findall(r"`(\w+)`", PAGE))


def test_numbers_of_a_bench_go_into_a_row():
    """Results as Google Benchmark writes them: times with units, counters, medians where it repeats."""
    results = seeds.Results([
        {"name": "a/1/cpu", "run_type": "iteration", "real_time": 1500.0, "time_unit": "us", "error": 2.5e-4},
        {"name": "b/cpu", "run_name": "b/cpu", "run_type": "iteration", "real_time": 9.0, "time_unit": "ms"},
        {"name": "b/cpu_mean", "run_name": "b/cpu", "run_type": "aggregate", "aggregate_name": "mean", "real_time": 8.0,
         "time_unit": "ms"},
        {"name": "b/cpu_median", "run_name": "b/cpu", "run_type": "aggregate", "aggregate_name": "median",
         "real_time": 7.0, "time_unit": "ms", "rate": 123456.0},
    ])  # fmt: skip
    assert results.fill(r"<a/\d/cpu:ms> ms, error <a/1:error>") == "1.5 ms, error 2.5e-04"
    assert results.fill("<b/:ms> ms, <b/:rate> frames/s") == "7 ms, 123,456 frames/s"
    assert results.fill("<b/:ms> ms, <c/:ms> ms") is None


def test_an_unknown_name_is_told(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["seeds.py", "--programs", "fttf"])
    assert seeds.main() == 2 and "fft, stream" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["seeds.py", "--programs", "stream"])
    assert seeds.main() == 0 and capsys.readouterr().out.split() == ["bench_stream", "echotrain-server"]
