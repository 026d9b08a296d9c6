"""The alert rules of docs/operations, by Prometheus' own programs (Debian's `prometheus`)."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

import scans
import wire
from programs import SOURCE, Server, ends_well, free_ports

RULES = SOURCE / "docs" / "operations" / "alerts.yaml"

# Each rule: series that fire it, and how they look when all is well; values are a minute apart.
CASES = {
    "EchotrainDown": ('up{job="echotrain", instance="a"}', "0x20", "1x20"),
    "EchotrainNotReady": ('echotrain_ready{instance="a"}', "0x20", "1x20"),
    "EchotrainScanHangs": ('echotrain_step_seconds{instance="a", backend="cpu"}', "0+60x20", "3x20"),
    "EchotrainScansCutOff": ('echotrain_sessions_total{instance="a", outcome="peer_gone"}', "0+1x20", "5x20"),
    "EchotrainErrors": ('echotrain_errors_total{instance="a", code="busy"}', "_x8 1x12", "5x20"),
    "EchotrainOddImages": ('echotrain_odd_images_total{instance="a", kind="not_finite"}', "0+1x20", "5x20"),
    "EchotrainMemory": ('echotrain_memory_bytes{instance="a"}', "95x20", "85x20"),
    "EchotrainSlowImages": ('echotrain_image_latency_seconds_bucket{instance="a", pipeline="radial_2d", le="0.5"}', "0x20", "0+60x20"),
    "EchotrainPeerUnreachable": ('echotrain_dicom_reachable{instance="a", peer="pacs"}', "0x20", "1x20"),
}
BESIDE = {
    "EchotrainMemory": [('echotrain_memory_bound_bytes{instance="a"}', "100x20")],
    "EchotrainSlowImages": [(f'echotrain_image_latency_seconds_bucket{{instance="a", pipeline="radial_2d", le="{le}"}}', "0+60x20")
                            for le in ("2", "+Inf")],
}  # fmt: skip


def program(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian's package prometheus)")
    return found


def test_each_rule_fires_when_it_should_and_only_then(tmp_path):
    def case(name, series, values, fires):
        inputs = [(series, values), *BESIDE.get(name, [])]
        expected = f"groups: echotrain {name}: {fires}"
        query = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
        return {"name": expected, "interval": "1m", "input_series": [{"series": s, "values": v} for s, v in inputs],
                "promql_expr_test": [{"expr": query, "eval_time": "15m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}]}  # fmt: skip

    text = RULES.read_text()
    assert sorted(CASES) == sorted(line.split(": ")[1] for line in text.splitlines() if "- alert: " in line)
    tests = [case(name, series, values, fires) for name, (series, bad, well) in CASES.items() for values, fires in ((bad, True), (well, False))]
    (tmp_path / "test.yaml").write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([program("promtool"), "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def own_server(tmp_path):
    (tmp_path / "server").mkdir()
    yield from ends_well(Server(tmp_path / "server", "--backend", "cpu"))


def test_prometheus_reads_a_server(own_server, tmp_path):
    """A real Prometheus scrapes a server: the first error that a client was told fires its rule."""
    (port,) = free_ports(1)
    (tmp_path / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}, "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "echotrain", "static_configs": [{"targets": ["{}:{}".format(*own_server.admin)]}]}]}))  # fmt: skip
    command = [program("prometheus"), f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
               f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip

    def asked(query):
        address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []  # not there yet

    def wait_for(query):
        until = time.monotonic() + 60
        while not (result := asked(query)):
            assert time.monotonic() < until, (query, (tmp_path / "log").read_text()[-2000:])
            time.sleep(0.1)
        return result

    with (tmp_path / "log").open("w") as log:
        prometheus = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for("echotrain_ready == 1")

        header = wire.header(scans.header_xml("radial", (16, 16, 1)))
        wire.exchange(own_server.address, [wire.config_file("unheard_of"), header, wire.close()])
        fired = wait_for('ALERTS{alertname="EchotrainErrors", alertstate="firing"}')
        assert fired[0]["metric"]["code"] == "unknown-config"
    finally:
        prometheus.terminate()
        prometheus.wait(30)
