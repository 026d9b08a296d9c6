"""The server as an operator meets it: metrics, health, logs, options, signals, and the files of docs/operations."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import scans
import wire
from exposition import Metrics
from programs import BIN, SHIPPED, SOURCE, Server, run_client, simulated_scan

OPERATIONS = SOURCE / "docs" / "operations"


def get(server, path):
    connection = http.client.HTTPConnection(*server.admin, timeout=20)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def metrics(server):
    status, text = get(server, "/metrics")
    assert status == 200
    return Metrics(text)


def wait_until(condition, timeout_s=20):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def ended(server):
    return metrics(server)["echotrain_sessions_total"]


@pytest.fixture
def own_server(tmp_path):
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--backend", "cpu", "--log-format", "json", "--shutdown-timeout-s", "20")
    yield server
    server.stop()


def cartesian(frames):
    """The messages of a small Cartesian scan: 8 x 8, 2 coils."""
    random = np.random.default_rng(1)
    xml = scans.header_xml("cartesian", (8, 8, 1), readouts=8, repetitions=frames)
    messages = [wire.config_file("cartesian_plain"), wire.header(xml)]
    for repetition in range(frames):
        for line in range(8):
            data = random.standard_normal((2, 8)) + 1j * random.standard_normal((2, 8))
            flags = wire.LAST_IN_SLICE if line == 7 else 0
            messages.append(wire.acquisition(data, flags=flags, step1=line, repetition=repetition))
    return messages


def exchange(server, messages):
    """Sends the bytes and returns how many were sent and received."""
    data = b"".join(messages)
    received = b""
    with socket.create_connection(server.address, timeout=20) as client:
        client.sendall(data)
        while True:
            part = client.recv(1 << 16)
            if not part:
                break
            received += part
    return len(data), len(received)


def test_metrics_agree_with_what_was_sent(own_server, tmp_path):
    sent = received = 0
    for messages in (
        cartesian(5) + [wire.close()],
        cartesian(2) + [wire.close()],
        [wire.config_file("unheard_of"), wire.header(scans.header_xml("cartesian", (8, 8, 1))), wire.close()],
        cartesian(1) + [wire.acquisition(np.zeros((2, 4))), wire.close()],  # 4 samples among readouts of 8
    ):
        there, back = exchange(own_server, messages)
        sent, received = sent + there, received + back
    wait_until(lambda: ended(own_server) == 4)
    # The last image may still be copied for the live page.
    wait_until(lambda: metrics(own_server)["echotrain_memory_bytes"] == 0)
    found = metrics(own_server)
    assert found["echotrain_sessions_total", {"outcome": "complete"}] == 3
    assert found["echotrain_sessions_total", {"outcome": "error"}] == 1
    assert found["echotrain_errors_total"] == found["echotrain_errors_total", {"code": "unknown-config"}] == 1
    of_pipeline = {"pipeline": "cartesian_plain"}
    assert found["echotrain_scans_total"] == 3
    assert found["echotrain_scans_total", of_pipeline | {"backend": "cpu", "outcome": "complete"}] == 3
    assert found["echotrain_readouts_total", of_pipeline] == found["echotrain_readouts_total"] == 8 * 8 + 1
    assert found["echotrain_skipped_total"] == 1
    assert found["echotrain_images_total", of_pipeline] == 8
    assert found["echotrain_image_latency_seconds_count", of_pipeline] == 8
    assert found["echotrain_image_latency_seconds_bucket", of_pipeline | {"le": "10"}] == 8
    assert found["echotrain_received_bytes_total"] == sent
    assert found["echotrain_sent_bytes_total"] == received
    for now in ("echotrain_sessions", "echotrain_queue_bytes", "echotrain_memory_bytes"):
        assert found[now] == 0
    # The log's summaries say the same.
    lines = [json.loads(line) for line in own_server.text().splitlines() if line.startswith("{")]
    summaries = [line for line in lines if line.get("event") == "summary"]
    assert sum(line["readouts"] for line in summaries) == 65
    assert sum(line["images"] for line in summaries) == 8
    assert sum(sum(line["skipped"].values()) for line in summaries) == 1


def test_the_client_asks_for_health(own_server):
    host, port = own_server.admin
    asked = run_client("health", "-a", host, "-p", port)
    assert (asked.returncode, asked.stdout) == (0, "ready\n"), asked.stderr
    assert run_client("health", "-p", port, "--path", "/metrics").stdout.count("# HELP") > 10
    assert run_client("health", "-p", port, "--path", "/nothing").returncode == 1
    assert run_client("health", "-p", port, "--wait", 30).stdout == "ready\n"
    early = run_client("health", "-p", port, "--path", "/nothing", "--wait", 0.3)
    assert early.returncode == 1 and "not ready within 0.3 s" in early.stderr
    # A port where another program listens, and one where none does.
    other = run_client("health", "-p", own_server.port, "--timeout", 5)
    assert other.returncode == 1 and "admin port" in other.stderr
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        late = run_client("health", "-p", silent.getsockname()[1], "--timeout", 0.2)
        assert late.returncode == 1 and "in time" in late.stderr
    with socket.create_connection(own_server.address) as client:
        client.sendall(b"".join(cartesian(1)[:3]))
        wait_until(lambda: json.loads(get(own_server, "/sessions")[1])["sessions"])
        own_server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: run_client("health", "-p", port).stdout.startswith("draining: "))
        assert run_client("health", "-p", port).returncode == 1


def test_no_patient_is_seen_anywhere(own_server):
    secrets = ("Mueller-Luedenscheidt", "PID-4711", "1950-12-31")
    xml = scans.header_xml("cartesian", (8, 8, 1), readouts=8).replace(
        "<acquisitionSystemInformation>",
        "<subjectInformation>"
        f"<patientName>{secrets[0]}</patientName><patientID>{secrets[1]}</patientID>"
        f"<patientBirthdate>{secrets[2]}</patientBirthdate></subjectInformation><acquisitionSystemInformation>",
    )
    assert all(secret in xml for secret in secrets)
    messages = cartesian(1)
    messages[1] = wire.header(xml)
    exchange(own_server, messages + [wire.close()])
    wait_until(lambda: ended(own_server) == 1)
    everything = own_server.text() + get(own_server, "/metrics")[1] + get(own_server, "/sessions")[1]
    assert metrics(own_server)["echotrain_images_total"] == 1
    for secret in (*secrets, "Mueller"):
        assert secret not in everything


def test_json_log_is_one_object_per_line(own_server):
    hostile = 'a "quoted" \\ line\nwith {"level": "error"} and \x1b[31m and \xe9'
    exchange(own_server, cartesian(1) + [wire.text(hostile), wire.close()])
    exchange(own_server, [wire.config_file("x\ny"), wire.header("<"), wire.close()])
    wait_until(lambda: own_server.text().count("fatal") >= 1)
    assert own_server.stop() == 0
    lines = own_server.text().splitlines()
    assert len(lines) >= 6
    entries = [json.loads(line) for line in lines]
    for line, entry in zip(lines, entries):
        assert {"time", "level", "message"} <= entry.keys(), line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", entry["time"])
        assert entry["level"] in ("debug", "info", "warning", "error")
        assert "\x1b" not in line
    assert not any("quoted" in line for line in lines), "texts of clients are for debug"
    first, last = entries[0], entries[-1]
    assert (first["event"], last["event"]) == ("start", "stop")
    assert {"version", "commit", "options", "memory_mib", "threads", "cpu", "gpus"} <= first.keys()
    assert (last["reason"], last["status"]) == ("asked", 0) and last["uptime_s"] > 0
    assert {entry["on"] for entry in entries if entry.get("event") == "listening"} == {"listening", "admin"}
    lost = [entry["level"] for entry in entries if entry["message"].startswith("fatal")]
    assert lost and set(lost) == {"error"}


def test_a_start_that_fails_is_told_as_json():
    done = ask("--log-format", "json", "--bind", "0.0.0.0", "--port", "0")
    assert done.returncode == 2 and done.stdout == ""
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert entries[-1]["level"] == "error" and "--allow 10.1.0.0/16" in entries[-1]["message"]


@pytest.mark.parametrize("given", [True, False])
def test_a_trace_joins_log_and_images(own_server, given):
    """W3C Trace Context: the header's trace ID, or a new one."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parameter = f"<userParameterString><name>traceparent</name><value>00-{trace}-00f067aa0ba902b7-01</value></userParameterString>"
    messages = cartesian(2)
    if given:
        xml = scans.header_xml("cartesian", (8, 8, 1), readouts=8, repetitions=2)
        messages[1] = wire.header(xml.replace("</ismrmrdHeader>", f"<userParameters>{parameter}</userParameters></ismrmrdHeader>"))
    reply = wire.exchange(own_server.address, [*messages, wire.close()])
    found = set(re.findall("<name>echotrain_trace</name><value>([0-9a-f]{32})</value>", "".join(i.attributes for i in reply.images)))
    wait_until(lambda: '"summary"' in own_server.text())
    (summary,) = [entry for entry in map(json.loads, own_server.text().splitlines()) if entry.get("event") == "summary"]
    assert len(reply.images) == 2 and found == ({trace} if given else set())  # without one, equal scans have equal images
    assert re.fullmatch("[0-9a-f]{32}", summary["trace"]) and (summary["trace"] == trace) == given


def start_slow_client(server, folder, rate):
    """Five frames of 64 readouts."""
    options = ("--trajectory", "cartesian", "--matrix", 64, "--coils", 2, "--frames", 5)
    simulated_scan(folder / "scan.h5", *options)
    command = [BIN / "echotrain", "send", folder / "scan.h5", "-c", "cartesian_plain", "-p", server.port]
    command += ["-o", folder / "images.h5", "--rate", rate]
    client = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: metrics(server)["echotrain_images_total"] >= 1)
    return client


def test_draining_server_is_not_ready_but_finishes(own_server, tmp_path):
    assert get(own_server, "/readyz") == (200, "ready\n")
    client = start_slow_client(own_server, tmp_path, rate=150)
    own_server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: get(own_server, "/readyz")[0] == 503)
    assert get(own_server, "/readyz")[1].startswith("draining: ")
    assert get(own_server, "/livez")[0] == 200
    session = json.loads(get(own_server, "/sessions")[1])["sessions"][0]
    assert session["state"] == "scanning" and session["pipeline"] == "cartesian_plain" and session["bytes_in"] > 10000
    with pytest.raises(OSError):  # nobody listens any more
        exchange(own_server, [wire.close()])
    output, _ = client.communicate(timeout=30)
    assert client.returncode == 0, output
    assert len(scans.read_images(tmp_path / "images.h5")[1]) == 5
    assert own_server.process.wait(20) == 0


def test_second_signal_ends_at_once(own_server, tmp_path):
    client = start_slow_client(own_server, tmp_path, rate=30)
    own_server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: get(own_server, "/readyz")[0] == 503)
    own_server.process.send_signal(signal.SIGTERM)
    assert own_server.process.wait(10) == 1
    client.communicate(timeout=30)
    assert client.returncode == 1


def test_hangup_does_not_end_the_server(own_server):
    own_server.process.send_signal(signal.SIGHUP)
    exchange(own_server, cartesian(1) + [wire.close()])
    wait_until(lambda: ended(own_server) == 1)
    assert get(own_server, "/readyz")[0] == 200


def start_with_default_admin_port(folder):
    folder.mkdir()
    log = open(folder / "server.log", "wb")
    process = subprocess.Popen([BIN / "echotrain-server", "--port", "0"], stdout=log, stderr=subprocess.STDOUT)
    return process, lambda: (folder / "server.log").read_text()


def test_two_servers_start_with_the_defaults(tmp_path):
    """Only one server gets the admin port; the other one says so and serves all the same."""
    servers = []
    try:
        for name in ("one", "two"):
            process, text = start_with_default_admin_port(tmp_path / name)
            servers.append(process)
            wait_until(lambda: "listening on" in text() or process.poll() is not None)
            assert process.poll() is None, text()
        assert "no admin port: " in text() and "--admin-port" in text()
        assert "admin on" not in text()
    finally:
        for process in servers:
            process.terminate()
    assert [process.wait(20) for process in servers] == [0, 0]


def test_admin_port_that_was_asked_for_must_be_free(own_server):
    command = [BIN / "echotrain-server", "--port", "0", "--admin-port", str(own_server.admin[1])]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1
    assert str(own_server.admin[1]) in result.stderr and "--admin-enabled false" in result.stderr


def test_admin_port_can_be_off(tmp_path):
    server = Server(tmp_path, "--admin-enabled", "false")
    exchange(server, cartesian(1) + [wire.close()])
    assert server.admin is None
    assert server.stop() == 0


def test_printed_options_are_an_options_file(tmp_path):
    command = [BIN / "echotrain-server", "--print-options"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    helped = subprocess.run([BIN / "echotrain-server", "--help"], capture_output=True, text=True, timeout=20).stdout
    names, group = [], ""
    for line in printed.splitlines():
        found = re.match(r"#(  )?(\w+):( ?)", line)
        if not found:
            continue
        if not found[3]:
            group = found[2]
        else:
            names.append(f"{group}-{found[2]}" if found[1] else found[2])
    flags = {"--" + name.replace("_", "-") for name in names}
    assert len(flags) == len(names) > 20
    assert flags <= set(re.findall(r"^  (--[a-z][a-z-]*)", helped, re.M))
    (tmp_path / "all.yaml").write_text(re.sub(r"(?m)^#(?=\S|  )", "", printed))
    server = Server(tmp_path, "--options", tmp_path / "all.yaml")
    assert server.stop() == 0, server.text()


def test_example_options_file_starts_a_server(tmp_path):
    server = Server(tmp_path, "--options", OPERATIONS / "echotrain.yaml")
    exchange(server, cartesian(1) + [wire.close()])
    server.wait_for('"event":"summary"')
    assert server.stop() == 0


def used_metrics(text):
    names = set(re.findall(r"\b(?:echotrain|process)_[a-z_]+\b", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) if "seconds_" in name else name for name in names}


def test_dashboard_and_docs_name_metrics_that_exist(own_server):
    # A scan that grids, so that caches and histograms have something to show; an error; a readout left out.
    radial = [wire.config_file("radial_2d"), wire.header(scans.header_xml("radial", (16, 16, 1), readouts=8))]
    for spoke in range(8):
        k = (np.arange(16) - 8) / 16
        trajectory = np.stack([k * np.cos(np.pi * spoke / 8), k * np.sin(np.pi * spoke / 8)], axis=1)
        radial.append(wire.acquisition(np.ones((1, 16)), trajectory=trajectory, step1=spoke))
    exchange(own_server, radial + [wire.close()])
    exchange(own_server, cartesian(1) + [wire.acquisition(np.zeros((2, 4))), wire.close()])
    exchange(own_server, [wire.config_file("unheard_of"), wire.header("<x/>"), wire.close()])
    wait_until(lambda: ended(own_server) == 3)
    found = metrics(own_server)
    exist = {found.family(name) for name in found.names()}
    # Figures that only a GPU, a DICOM peer or detached scans have are looked up in the source.
    source = (SOURCE / "server" / "console" / "admin" / "metrics_present.cc").read_text()
    exist |= set(re.findall(r'"(echotrain_(?:gpu|dicom|detached)_[a-z_]+)"', source))

    dashboard = json.loads((OPERATIONS / "grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 20
    expressions += re.findall(r"expr: ((?:.|\n {10})*)", (OPERATIONS / "alerts.yaml").read_text())
    assert len(expressions) >= 29
    used = used_metrics("\n".join(expressions))
    assert used and used <= exist, used - exist
    labels = {label for _, have in found.samples for label, _ in have} | {"device", "instance"}  # what Prometheus adds
    for expression in expressions:
        for by in re.findall(r"by \(([a-z, ]+)\)", expression):
            assert set(by.split(", ")) <= labels, expression
        assert expression.count("(") == expression.count(")") and expression.count("{") == expression.count("}")
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])

    documented = used_metrics((SOURCE / "docs" / "observe.md").read_text())
    assert documented <= exist, documented - exist
    assert {name for name in exist if name.startswith("echotrain_")} <= documented, exist - documented


def test_unit_file_is_valid(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (OPERATIONS / "echotrain-server.service").read_text()
    assert "/usr/local/bin/echotrain-server" in text
    unit = tmp_path / "echotrain-server.service"
    unit.write_text(text.replace("/usr/local/bin/echotrain-server", str(BIN / "echotrain-server")))
    result = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "echotrain" not in result.stderr, result.stderr


def ask(*arguments, **variables):
    command = [str(BIN / "echotrain-server"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, env={**os.environ, **variables})


def names_of(listed):
    return [line.split()[0] for line in listed.splitlines() if line]


def test_list_has_every_pipeline_and_gadget():
    result = ask("--list")
    assert result.returncode == 0, result.stderr
    gadgets = names_of(ask("--list-gadgets").stdout)
    pipelines = names_of(ask("--list-pipelines").stdout)
    assert sorted(pipelines) == sorted(file.stem for file in SHIPPED.glob("*.yaml"))
    assert len(gadgets) >= 26
    assert names_of(result.stdout) == ["Pipelines", *pipelines, "Gadgets", *gadgets]


def test_explain_without_a_name_explains_everything():
    result = ask("--explain")
    assert result.returncode == 0, result.stderr
    for name in names_of(ask("--list-gadgets").stdout):
        assert ask("--explain", name).stdout in result.stdout
    for file in SHIPPED.glob("*.yaml"):
        assert f"\n{file.stem}\n  " in result.stdout
    assert "  gridding: Samples -> Grid\n" in result.stdout
    unknown = ask("--explain", "griding")
    assert unknown.returncode == 1
    assert "did you mean 'gridding'?" in unknown.stderr


def test_explain_takes_a_file(tmp_path):
    file = SHIPPED / "radial_2d.yaml"
    # Names of other servers are the library's, not the file's.
    by_name = re.sub(r"(?m)^  also .*\n", "", ask("--explain", "radial_2d").stdout)
    assert ask("--explain", str(file)).stdout == by_name != ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("gridding", "griding"))
    for named, says in ((wrong, "did you mean 'gridding'?"), (tmp_path / "none.yaml", "none.yaml")):
        result = ask("--explain", str(named))
        assert result.returncode != 0 and str(named) in result.stderr and says in result.stderr, result.stderr


def test_the_page_of_gadgets_is_what_the_server_writes():
    assert ask("--explain", "--markdown").stdout == (SOURCE / "docs" / "gadgets.md").read_text()


def test_help_lists_the_variables():
    text = ask("--help").stdout
    for variable in ("THREADS", "CACHE_DIR", "PLAN_CACHE_MIB", "OPERATOR_CACHE_MIB", "DISK_CACHE_MIB",
                     "TRAJECTORY_CACHE_MIB", "HOPPER", "GRAPHS"):
        assert f"ECHOTRAIN_{variable}" in text


@pytest.mark.parametrize("variable, value", [("THREADS", "many"), ("HOPPER", "perhaps"), ("DISK_CACHE_MIB", "-1")])
def test_a_wrong_variable_is_named(variable, value):
    result = ask("--list", **{f"ECHOTRAIN_{variable}": value})
    assert result.returncode == 2
    assert f"ECHOTRAIN_{variable}: " in result.stderr and f"'{value}'" in result.stderr


def test_watch_shows_scans_in_the_terminal(own_server):
    port = own_server.admin[1]
    looked = run_client("watch", "-p", port, "--once")
    assert looked.returncode == 0, looked.stderr
    assert looked.stdout.splitlines()[2:] == ["no scan runs"]
    exchange(own_server, cartesian(1) + [wire.close()])
    wait_until(lambda: "the last one: complete" in run_client("watch", "-p", port, "--once").stdout)
    lines = run_client("watch", "localhost", "-p", port, "--once").stdout.splitlines()
    assert "cartesian_plain" in lines[4] and "8/8 lines  1 images" in lines[4]
    assert "series 1" in lines[5] and "8 x 8" in lines[5]
    assert len(lines) == 6 + 8 and any(line.strip() for line in lines[6:])  # the picture
    wrong = run_client("watch", "-p", own_server.port, "--once", "--timeout", 2)
    assert wrong.returncode == 1 and "is no admin port" in wrong.stderr
