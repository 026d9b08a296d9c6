"""Prometheus' text format 0.0.4, read strictly: prometheus.io/docs/instrumenting/exposition_formats."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*,?)\}})? (\S+)(?: (-?\d+))?")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Metrics:
    """`m["name", {"label": "value"}]` is the sum of the samples with at least these labels."""

    def __init__(self, text):
        assert text.endswith("\n")
        self.samples, self.types, self.helps = {}, {}, {}
        for line in text.splitlines():
            comment = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
            if comment:
                known = self.helps if comment[1] == "HELP" else self.types
                assert comment[2] not in known, f"twice: {line}"
                known[comment[2]] = comment[3]
                continue
            sample = SAMPLE.fullmatch(line)
            assert sample, f"not in the format: {line!r}"
            labels = re.findall(LABEL, sample[2] or "")
            assert len(dict(labels)) == len(labels), f"a label twice: {line}"
            key = (sample[1], frozenset(labels))
            assert key not in self.samples, f"a sample twice: {line}"
            self.samples[key] = float(sample[7])
        for name, kind in self.types.items():
            assert kind in TYPES and name in self.helps, name
        for name, _ in self.samples:
            assert self.family(name) in self.types, f"{name} has no type"
        self.check_histograms()

    def family(self, name):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        return base if self.types.get(base) == "histogram" else name

    def check_histograms(self):
        """Buckets add up, and the last one holds all."""
        series = {}
        for (name, labels), value in self.samples.items():
            if name.endswith("_bucket") and self.family(name) != name:
                bound = float(dict(labels)["le"])
                rest = frozenset(label for label in labels if label[0] != "le")
                series.setdefault((self.family(name), rest), []).append((bound, value))
        for (name, labels), buckets in series.items():
            counts = [count for _, count in sorted(buckets)]
            assert counts == sorted(counts), name
            assert max(buckets)[0] == float("inf") and counts[-1] == self.samples[(name + "_count", labels)], name

    def __getitem__(self, key):
        name, labels = key if isinstance(key, tuple) else (key, {})
        wanted = set(labels.items())
        return sum(value for (its, have), value in self.samples.items() if its == name and wanted <= have)

    def names(self):
        return {name for name, _ in self.samples}
