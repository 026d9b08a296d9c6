"""`echotrain send --detach`, `scans` and `fetch` against a server that loses connections when it is told to."""

import re

import numpy as np
import pytest

import scans
from detached_server import FRAME, Cut, DetachedServer, images_of
from programs import run_client

READOUTS = 5 * FRAME + 3


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    scans.cartesian(scans.random_kspace((1, 2, READOUTS, 16), 1)).save(path)
    return path


def truth(scan):
    messages = images_of(scans.read_messages(scan)[1:])
    return [np.frombuffer(message[-8:], "<u4").tolist() for message in messages]


def values(path):
    return scans.read_images(path)[1].reshape(-1, 2).tolist()


def at(server):
    return ("-p", server.port, "--timeout", 3)


def send(server, scan, output, *options):
    return run_client("send", scan, "-c", "fake", "-o", output, *at(server), *options)


CUTS = {
    "none": [],
    "at once": [Cut(messages=0)],
    "early": [Cut(messages=3)],
    "three": [Cut(messages=9, how="end"), Cut(messages=8), Cut(messages=7, how="inside")],
    "answers": [Cut(answer=True), Cut(messages=20, how="end"), Cut(answer=True, how="end"), Cut(answer=True)],
    "images": [Cut(images=1), Cut(images=1, how="inside"), Cut(images=3, how="end")],
    "last image": [Cut(images=5, how="inside")],
    "shutdown": [Cut(messages=11, error="shutdown: the server is stopping")],
    "full disk": [Cut(messages=11, error="capture: no space left on device")],
    "silence": [Cut(messages=READOUTS + 1, how="silence")],
}


@pytest.mark.parametrize("acknowledge", [1, 5, 1000])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_every_image_once_whatever_is_cut(scan, tmp_path, cuts, acknowledge):
    with DetachedServer(acknowledge=acknowledge, cuts=cuts) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
    assert done.returncode == 0, done.stderr
    assert values(tmp_path / "out.h5") == truth(scan)
    assert f"images received   {len(truth(scan))}\n" in done.stdout and re.search(r"^scan +[0-9a-f]{32}$", done.stdout, re.M)
    quiet = cuts and cuts[0].how == "silence"  # nothing was lost but time
    losses = 0 if quiet else len([each for each in cuts if not each.answer]) or len(cuts)
    assert done.stderr.count("connection lost") >= losses, done.stderr


@pytest.mark.parametrize("cut", ["images", "last image", "silence"])
def test_a_scan_that_the_server_has_whole_is_only_listened_to(scan, tmp_path, cut):
    cuts = [Cut(images=0, how="silence")] if cut == "silence" else CUTS[cut]
    with DetachedServer(acknowledge=1000, cuts=cuts, computes=True) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
        assert done.returncode == 0 and values(tmp_path / "out.h5") == truth(scan), done.stderr
        assert server.connections == 1 + len(cuts)


def test_what_happened_is_told(scan, tmp_path):
    with DetachedServer(acknowledge=5, cuts=[Cut(messages=13, how="end")]) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach", "--rate", 100)
    assert done.returncode == 0, done.stderr
    told = re.search(r"^connection lost at readout (\d+); resumed at 10 after 0\.\d s \(.*\)$", done.stderr, re.M)
    assert told and int(told[1]) >= 13, done.stderr
    assert "connections       2\n" in done.stdout


def test_leaving_telling_fetching_cancelling(scan, tmp_path):
    with DetachedServer(acknowledge=4, cuts=[Cut(messages=20, how="inside")]) as server:
        left = run_client("send", scan, "-c", "fake", *at(server), "--detach", "--no-wait")
        assert left.returncode == 0, left.stderr
        name = re.search(r"^scan +(\S+)$", left.stdout, re.M)[1]
        assert f"echotrain fetch {name}" in left.stdout
        listed = run_client("scans", *at(server))
        assert listed.returncode == 0 and re.search(rf"^{name} +done +{READOUTS + 1} +{len(truth(scan))} ", listed.stdout, re.M)
        one = run_client("scans", name, *at(server))
        assert one.returncode == 0 and "state             done\n" in one.stdout and "pipeline          fake\n" in one.stdout
        server.cuts += [Cut(images=2, how="inside"), Cut(images=4)]
        got = run_client("fetch", name, "-o", tmp_path / "out.h5", *at(server))
        assert got.returncode == 0, got.stderr
        assert values(tmp_path / "out.h5") == truth(scan) and got.stderr.count("connection lost after") == 2
        assert run_client("scans", name, "--cancel", *at(server)).stdout == f"scan {name} is cancelled\n"
        for command in (("scans", name), ("scans", name, "--cancel"), ("fetch", name, "-o", tmp_path / "no.h5"),
                        ("send", scan, "--resume", name, "-o", tmp_path / "no.h5")):  # fmt: skip
            refused = run_client(*command, *at(server))
            assert refused.returncode == 1 and f"no scan {name} of this client" in refused.stderr, refused.stderr
        assert not (tmp_path / "no.h5").exists()
        assert run_client("scans", *at(server)).stdout == "no detached scan of this client\n"


def test_a_scan_that_is_not_whole_is_a_failure(scan, tmp_path):
    """Its connection is lost for good: the images that there are come, and the exit status says that others lack."""
    with DetachedServer(acknowledge=1, cuts=[Cut(messages=2 * FRAME, how="end")]) as server:
        left = send(server, scan, tmp_path / "out.h5", "--detach", "--resume-for", 0)
        (name,) = server.scans
        assert left.returncode == 1 and f"'echotrain send --resume {name} FILE' goes on" in left.stderr, left.stderr
        got = run_client("fetch", name, "-o", tmp_path / "out.h5", *at(server))
        assert got.returncode == 1 and "the scan is receiving; 2 images received" in got.stderr, got.stderr
        assert values(tmp_path / "out.h5") == truth(scan)[:2]
        server.cuts.append(Cut(answer=True))
        rest = run_client("send", scan, "--resume", name, "-o", tmp_path / "all.h5", *at(server))
        assert rest.returncode == 0, rest.stderr
        assert values(tmp_path / "all.h5") == truth(scan) and f"readouts sent     {READOUTS - 2 * FRAME} in" in rest.stdout


def test_the_token_goes_with_each_question(scan, tmp_path, monkeypatch):
    monkeypatch.setenv("ECHOTRAIN_TOKEN", "secret")
    with DetachedServer(acknowledge=1, cuts=[Cut(messages=9, how="end")]) as server:
        assert send(server, scan, tmp_path / "out.h5", "--detach").returncode == 0
        run_client("scans", *at(server))
        assert server.questions[0] == "echotrain::detach/new" and len(server.questions) == 3
        assert all(each.endswith("\ntoken: secret") for each in server.questions[1:])


@pytest.mark.parametrize("knows", ["unknown", "refused", "nothing"])
def test_servers_that_detach_nothing(scan, tmp_path, knows):
    """One line, and an ordinary scan; what would lose its images is refused."""
    with DetachedServer(knows) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
        assert done.returncode == 0 and values(tmp_path / "out.h5") == truth(scan), done.stderr
        assert done.stderr.count("the server does not detach this scan") == 1, done.stderr
        left = run_client("send", scan, "-c", "fake", *at(server), "--detach", "--no-wait")
        assert left.returncode == 1 and "with -o, it goes on as an ordinary one" in left.stderr, left.stderr
        server.cuts.append(Cut(messages=9))
        lost = send(server, scan, tmp_path / "out.h5", "--detach")
        assert lost.returncode == 1 and "connection" in lost.stderr, lost.stderr


def test_a_server_that_has_lost_what_it_acknowledged(scan, tmp_path):
    """The file has it still; the user learns that the server's disk is not to be trusted."""

    class Forgetful(DetachedServer):
        def accept(self):
            self.forget = True
            super().accept()

        def serve(self, client):
            if self.connections == 2:
                for each in self.scans.values():
                    del each.journal[4:]
            super().serve(client)

    with Forgetful(cuts=[Cut(messages=9, how="end")]) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
    assert done.returncode == 0 and values(tmp_path / "out.h5") == truth(scan), done.stderr
    assert "warning: the server had acknowledged 9 messages and has 4" in done.stderr, done.stderr


def test_a_server_that_answers_may_compute_in_silence(scan, tmp_path):
    silent = [Cut(messages=READOUTS, how="silence"), *[Cut(images=0, how="silence")] * 3]
    with DetachedServer(cuts=silent) as server:
        done = run_client("send", scan, "-c", "fake", "-o", tmp_path / "out.h5", "-p", server.port, "--timeout", 1,
                          "--detach", "--resume-for", 1.5)  # fmt: skip
        assert not server.cuts, done.stderr
    assert done.returncode == 0 and values(tmp_path / "out.h5") == truth(scan), done.stderr


@pytest.mark.parametrize("error", ["budget: no memory", "resources: no thread"])
def test_a_scan_goes_on_where_only_a_connection_has_failed(scan, tmp_path, error):
    with DetachedServer(cuts=[Cut(messages=9, error=error)]) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
    assert done.returncode == 0 and values(tmp_path / "out.h5") == truth(scan), done.stderr


def test_an_error_of_the_scan_is_final(scan, tmp_path):
    with DetachedServer(cuts=[Cut(messages=9, error="recon-failed: no such trick")]) as server:
        done = send(server, scan, tmp_path / "out.h5", "--detach")
        assert done.returncode == 1 and "no such trick" in done.stderr and server.connections == 1


def test_a_scan_that_failed_is_not_fetched_again(scan, tmp_path):
    with DetachedServer() as server:
        left = run_client("send", scan, "-c", "fake", *at(server), "--detach", "--no-wait")
        assert left.returncode == 0, left.stderr
        server.cuts.append(Cut(images=0, error="capture: no space left on device"))
        done = run_client("fetch", next(iter(server.scans)), "-o", tmp_path / "out.h5", *at(server))
    assert done.returncode == 1 and "no space left on device" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("send", "scan.h5", "-o", "out.h5"), "give a pipeline"), (("send", "scan.h5", "-c", "x"), "give a file for the images"),
     (("scans", "--cancel"), "give its ID"), (("fetch", "x"), "--output")],
)  # fmt: skip
def test_what_is_missing_is_named(scan, arguments, said):
    done = run_client(*(scan if each == "scan.h5" else each for each in arguments))
    assert done.returncode == 2 and said in done.stderr, done.stderr
