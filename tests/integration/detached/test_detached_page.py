"""What docs/long_reconstructions.md says, with a server: its commands, its options, its pipeline's key, its Python."""

import re
import subprocess

import numpy as np
import pytest

import scans
from programs import BIN, SOURCE, Server, ends_well, run_client, simulated_scan, variant
from python_client import echotrain

PAGE = (SOURCE / "docs" / "long_reconstructions.md").read_text()
YAML = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A server with the page's options, and a pipeline with its key."""
    folder = tmp_path_factory.mktemp("keeping")
    (options,) = (each for each in YAML if each.startswith("detached:"))
    (detach,) = (each for each in YAML if each.startswith("detach:"))
    assert options.count("/srv/detached") == 1
    (folder / "options.yaml").write_text(options.replace("/srv/detached", str(folder / "detached")))
    (folder / "pipelines").mkdir()
    own = variant("cartesian_plain", ("backend: auto", "backend: cpu"), ("name: cartesian_plain", "name: kept"))
    (folder / "pipelines" / "kept.yaml").write_text(own.replace("pipeline:\n", detach + "pipeline:\n", 1))
    server = Server(folder, "--options", folder / "options.yaml", "--pipelines", folder / "pipelines")
    server.folder = folder / "detached"
    yield from ends_well(server)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    return simulated_scan(path, "--trajectory", "cartesian", "--matrix", 32, "--coils", 2, "--frames", 3)


def command(name, *replacements):
    """The page's command that begins so, without its host."""
    found = re.search(rf"`?(echotrain {name}[^`|\n]*)", PAGE)
    text = found[1].replace(" -a recon.example", "").replace("nlinv_realtime", "cartesian_plain")
    for old, new in replacements:
        assert old in text, text
        text = text.replace(old, new)
    return text.split()[1:]


def test_its_commands(keeping, scan, tmp_path):
    def run(*words):
        words = [str(scan) if word == "scan.h5" else word for word in words]
        command = [BIN / "echotrain", *words, "-p", str(keeping.port)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    undisturbed = keeping.send(scan, "cartesian_plain", tmp_path / "truth.h5")
    assert undisturbed.returncode == 0, undisturbed.stderr
    truth = scans.read_images(tmp_path / "truth.h5")[1]
    first = run(*command("send scan.h5 -c nlinv_realtime -a"))
    assert first.returncode == 0 and first.stdout.startswith("scan  "), first.stderr
    np.testing.assert_array_equal(scans.read_images(tmp_path / "images.h5")[1], truth)
    left = run(*command(r"send scan.h5 -c nlinv_realtime --detach --no-wait"))
    assert left.returncode == 0, left.stderr
    name = re.search(r"^scan +(\S+)$", left.stdout, re.M)[1]
    (tmp_path / "images.h5").unlink()
    fetched = run(*command("fetch", ("ID", name)))
    assert fetched.returncode == 0, fetched.stderr
    np.testing.assert_array_equal(scans.read_images(tmp_path / "images.h5")[1], truth)
    resumed = run(*command("send scan.h5 --resume", ("ID", name)))
    assert resumed.returncode == 0 and "readouts sent     0 in" in resumed.stdout, resumed.stderr
    np.testing.assert_array_equal(scans.read_images(tmp_path / "images.h5")[1], truth)
    told = run(*command("scans ID`", ("ID`", name)))
    assert told.returncode == 0 and "state             done\n" in told.stdout and "images            3\n" in told.stdout
    listed = run("scans").stdout
    assert re.search(rf"^{name}  done +97 +3  20\d\d-\d\d-\d\d \d\d:\d\d  20\d\d-\d\d-\d\d \d\d:\d\d  ", listed, re.M), listed
    assert run(*command("scans ID --cancel", ("ID", name))).returncode == 0
    assert run("scans", name).returncode == 1


def test_its_files_are_the_servers_alone(keeping, scan, tmp_path):
    assert keeping.send(scan, "cartesian_plain", tmp_path / "out.h5", "--detach").returncode == 0
    assert keeping.folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in keeping.folder.rglob("*") if path.is_file()}
    assert modes and set(modes.values()) == {"0o600"}, modes


def test_its_pipeline_detaches_whoever_sends(keeping, scan, tmp_path):
    """The client does not ask, and sees nothing of it; the images are there for another one."""
    before = {line.split()[0] for line in run_client("scans", "-p", keeping.port).stdout.splitlines()}
    plain = keeping.send(scan, "kept", tmp_path / "out.h5")
    assert plain.returncode == 0 and "detach" not in plain.stdout + plain.stderr, plain.stderr
    after = {line.split()[0] for line in run_client("scans", "-p", keeping.port).stdout.splitlines()}
    (name,) = after - before
    assert run_client("fetch", name, "-o", tmp_path / "again.h5", "-p", keeping.port).returncode == 0
    first, again = (scans.read_images(tmp_path / each)[1] for each in ("out.h5", "again.h5"))
    np.testing.assert_array_equal(first, again)


def test_its_python(keeping, scan, tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    names = {}
    exec(code.replace("radial_2d", "cartesian_plain"), names)
    monkeypatch.chdir(scan.parent)
    with echotrain.Client("127.0.0.1", keeping.port) as client:
        images = names["detached"](client)
        plain = list(client.reconstruct(scan, pipeline="cartesian_plain", detach=True))
    assert capsys.readouterr().out.split()[0] in ("done", "running", "waiting", "receiving")
    np.testing.assert_array_equal([each.data for each in images], [each.data for each in plain])
    assert len(images) == 3
