"""Each --json document against its schema, and against what the same command says to people."""

import json
import re

import pytest

from programs import SOURCE, run_client, simulated_scan

jsonschema = pytest.importorskip("jsonschema", reason="needs the Python package jsonschema")

SCHEMAS = SOURCE / "clients" / "cpp" / "schemas"


def document(name, *arguments, code=0):
    done = run_client(*arguments, "--json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(found, schema)
    return found


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    return simulated_scan(tmp_path_factory.mktemp("json") / "scan.h5", "--trajectory", "golden_radial", "--matrix", 32,
                          "--coils", 2, "--readouts", 50, "--frames", 3, "--noise", 1, "--noise-scan")  # fmt: skip


@pytest.fixture(scope="module")
def images(scan):
    path = scan.parent / "images.h5"
    assert run_client("recon", scan, "-c", "radial_2d", "-o", path, "--backend", "cpu").returncode == 0
    return path


def test_every_schema_has_a_test_and_refuses_another_document():
    names = {path.stem for path in SCHEMAS.glob("*.json")}
    assert names == set(re.findall(r'document\("(\w+)"', open(__file__).read()))
    for name in names:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"format": f"echotrain.{name}"}, json.loads((SCHEMAS / f"{name}.json").read_text()))


def test_info(scan, images):
    (found,) = document("info", "info", scan)["scans"]
    said = run_client("info", scan).stdout
    assert found["name"] == "dataset" and f"try: -c {found['pipeline']}" in said
    readouts = found["readouts"]
    assert f"readouts: {readouts['count']}" in said
    assert {kind: each["count"] for kind, each in readouts["kinds"].items()} == {"imaging": 150, "noise": 32}
    assert found["header"]["encodings"][0]["recon"]["matrix"] == [32, 32, 1]
    (found,) = document("info", "info", images)["scans"]
    assert [(each["series"], each["count"], each["matrix"]) for each in found["images"]] == [("image_1", 3, [32, 32, 1])]
    assert found["pipeline"] is None


def test_send(server, scan, tmp_path):
    given = ("send", scan, "-p", server.port, "-o", tmp_path / "o.h5")
    found = document("send", *given, "-c", "radial_2d", "--truth")
    assert found["images"] == 3 and found["readouts"] == 182 and found["error"] is None and found["nrmse"] > 0
    found = document("send", *given, "-c", "radial_3d", code=1)
    assert found["images"] == 0 and "unknown-config" in found["error"] and found["latency_ms"] is None


def test_compare(images):
    found = document("compare", "compare", images, images, "--max-nrmse", 1e-9)
    assert found["passed"] and found["overall"]["psnr_db"] is None and len(found["pairs"]) == 3
    found = document("compare", "compare", images, images, "--index-a", 0, "--index-b", 1, "--max-nrmse", 1e-9, code=1)
    assert not found["passed"] and found["pairs"][0]["b"] == {"series": "image_1", "index": 1}
    said = run_client("compare", images, images, "--index-a", 0, "--index-b", 1).stdout
    assert f"NRMSE {found['overall']['nrmse']:.3e}  PSNR {found['overall']['psnr_db']:.2f} dB" in said


def test_export(images, tmp_path):
    found = document("export", "export", images, "--png", tmp_path / "png", "--nifti", tmp_path / "nifti")
    assert found["written"]["png"] == {"files": len(list((tmp_path / "png").iterdir())), "folder": str(tmp_path / "png")}
    assert found["written"]["nifti"]["files"] == 1 and set(found["written"]) == {"png", "nifti"}
    assert found["series"][0]["images"] == 3 and len(found["series"][0]["window"]) == 2
    assert document("export", "export", images, "--nifti", tmp_path / "nifti")["series"][0]["window"] is None


def test_noise(scan):
    (found,) = document("noise", "noise", scan)["noise"]
    lines = run_client("noise", scan).stdout.splitlines()
    assert lines[:2] == [found["of"], f"  {found['about']}"]
    assert [f"{coil['deviation']:.5g}" for coil in found["coils"]] == [line.split()[1] for line in lines[3:5]]
    (found,) = document("noise", "noise", scan, "--correlation", 0)["noise"]
    assert [pair["coils"] for pair in found["correlated"]] == [[0, 1]]


def test_verify(scan):
    (found,) = document("verify", "verify", scan, code=2)["files"]
    assert found["state"] == "unchecked" and found["file"] == str(scan)


def test_health(server):
    found = document("health", "health", "-p", server.admin[1])
    assert found["ready"] is True and found["path"] == "/readyz"
    assert isinstance(document("health", "health", "-p", server.admin[1], "--path", "/sessions")["answer"], (dict, list))
