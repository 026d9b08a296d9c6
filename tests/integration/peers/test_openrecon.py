"""A host as OpenRecon's: the label that tells it what a pipeline takes, the package, and the JSON that it sends."""

import base64
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import steps
import wire
from programs import BIN, SHIPPED, SOURCE, Server

PACKAGE = SOURCE / "docker" / "openrecon" / "package.py"
LABEL = "com.siemens-healthineers.magneticresonance.openrecon.metadata:1.1.0"
DUMMY = "Dummy XML header"
VOLUME = (np.arange(48, dtype=np.float32) ** 1.5).reshape(1, 1, 6, 8)


def label_of(*pipelines, folder=None):
    command = [BIN / "echotrain-server", *(f"--openrecon-label={name}" for name in pipelines)]
    if folder:
        command.append(f"--pipelines={folder}")
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def host(**parameters):
    return json.dumps({"version": "1.1.0", "parameters": parameters})


def image_message():
    return steps.image(VOLUME, field_of_view=(8, 6, 5))


def inverted(server, note=None, config=None):
    """The reply for one image, with the host's JSON after the header or as the configuration."""
    messages = [config or wire.config_file("images_invert"), wire.header(DUMMY)]
    messages += [wire.text(note + "\0")] if note else []
    return wire.exchange(server.address, [*messages, image_message(), wire.close()])


# --- what the host sends ----------------------------------------------------------------------------------------------


def test_without_values_the_pipeline_runs_as_it_is(server):
    for note in (None, host(), host(config="images_invert"), "no JSON"):
        reply = inverted(server, note)
        (image,) = reply.images
        np.testing.assert_array_equal(image.pixels, VOLUME.max() - VOLUME)
        assert steps.parameters_of(image) is None and not reply.texts, (note, reply.texts)


@pytest.mark.parametrize("maximum", [1000, 1000.0, "1000"], ids=["whole", "real", "text"])
def test_a_value_of_the_host_changes_the_images_and_they_say_so(server, maximum):
    reply = inverted(server, host(config="images_invert", maximum=maximum))
    (image,) = reply.images
    np.testing.assert_array_equal(image.pixels, 1000 - VOLUME)
    assert steps.parameters_of(image) == "maximum=1000" and not reply.texts, reply


def test_values_come_with_another_pipeline_or_in_the_configuration_too(server):
    note = host(config="images_invert", maximum=2000)
    for config, after in ((wire.config_file("passthrough"), note), (wire.config_text(note), None),
                          (wire.config_text("\n " + note), None)):  # fmt: skip
        reply = inverted(server, after, config)
        (image,) = reply.images
        np.testing.assert_array_equal(image.pixels, 2000 - VOLUME)
        assert steps.parameters_of(image) == "maximum=2000" and not reply.errors()


@pytest.mark.parametrize(
    "value, why",
    [
        (70000, r"'70000' is out of range; allowed is 0 to 65535"),
        (-1, r"'-1' is out of range; allowed is 0 to 65535"),
        ("bright", r"a finite number is expected, not 'bright'; allowed is 0 to 65535"),
        ([1], r"one value is expected, not a list; allowed is 0 to 65535"),
        (None, r"one value is expected, not null"),
    ],
)
def test_a_value_beyond_its_range_is_refused(server, value, why):
    note = host(maximum=value)
    whole = wire.config_text(host(config="images_invert", maximum=value))
    for reply in (inverted(server, note), inverted(server, config=whole)):
        (error,) = reply.errors()
        assert not reply.images and error.startswith("ERROR    bad-config: "), reply
        assert re.search(r"parameter 'maximum' \(Maximum, sets invert_contrast.maximum\): " + why, error), error
    (image,) = inverted(server).images  # nothing is lost
    np.testing.assert_array_equal(image.pixels, VOLUME.max() - VOLUME)


def test_what_is_not_exposed_is_warned_of_and_changes_nothing_else(server):
    reply = inverted(server, host(maximum=100000 // 100, brightness=3, Maximum=4))
    (warning,) = reply.texts
    assert warning.startswith("WARNING  additional config: pipeline 'images_invert' exposes no parameter"), warning
    assert "brightness" in warning and "Maximum" in warning and "it exposes maximum" in warning
    np.testing.assert_array_equal(reply.images[0].pixels, 1000 - VOLUME)
    reply = inverted(server, host(strength=2), wire.config_file("passthrough"))
    assert "it exposes none" in reply.texts[0] and len(reply.images) == 1


def test_values_that_come_after_data_are_too_late(server):
    messages = [wire.config_file("images_invert"), wire.header(DUMMY), image_message(), wire.text(host(maximum=9))]
    reply = wire.exchange(server.address, [*messages, image_message(), wire.close()])
    assert len(reply.images) == 2 and "came after data" in reply.texts[0], reply
    for image in reply.images:
        np.testing.assert_array_equal(image.pixels, VOLUME.max() - VOLUME)


def test_a_pipeline_of_the_client_exposes_too(server):
    text = (SHIPPED / "images_invert.yaml").read_text().replace("name: images_invert", "name: mine")
    reply = inverted(server, host(maximum=400.5), wire.config_text(text.replace("[0, 65535]", "[0, 500]")))
    np.testing.assert_array_equal(reply.images[0].pixels, np.float32(400.5) - VOLUME)
    assert inverted(server, host(maximum=501), wire.config_text(text.replace("[0, 65535]", "[0, 500]"))).errors()


def test_a_server_with_a_pipeline_that_exposes_wrongly_does_not_start(tmp_path):
    (tmp_path / "wrong.yaml").write_text(
        (SHIPPED / "images_invert.yaml").read_text().replace("images_invert", "wrong").replace("[0, 65535]", "[5, 9]"))
    command = [BIN / "echotrain-server", "--check", tmp_path / "wrong.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "'0' is out of range; allowed is 5 to 9" in done.stderr
    command = [*command[:1], "--port", "0", "--pipelines", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "wrong.yaml" in done.stderr
    command = [*command[:1], "--check", SHIPPED / "images_invert.yaml"]
    good = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "exposes maximum (invert_contrast.maximum): 0 to 65535, default 0" in good.stdout


def test_tokens_come_beside_the_parameters(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    tokens.chmod(0o600)
    server = Server(tmp_path, "--backend", "cpu", "--token-file", tokens)
    text = {"token": "0123456789abcdef", "parameters": {"config": "images_invert", "maximum": 1000}}
    reply = inverted(server, config=wire.config_text(json.dumps(text)))
    assert steps.parameters_of(reply.images[0]) == "maximum=1000"
    del text["token"]
    assert "unauthorized" in inverted(server, config=wire.config_text(json.dumps(text))).errors()[0]
    assert server.stop() == 0


# --- the label and the package ----------------------------------------------------------------------------------------


def check_text(value, *, pattern=".+", longest=10**6):
    assert isinstance(value, str) and re.fullmatch(pattern, value, re.S) and len(value) <= longest, value


def check_english(value, **more):
    assert set(value) == {"en"}
    check_text(value["en"], **more)


def check_parameter(each):
    """The facts of the public schema (OpenReconSchema_1.1.0.json of neurodesk/neurocontainers)."""
    check_text(each["id"], pattern="[A-Za-z0-9]+")
    check_english(each["label"])
    check_english(each["information"])
    numbers = {"minimum", "maximum", "default"}
    own = {"choice": {"default", "values"}, "int": numbers, "double": numbers}.get(each["type"], {"default"})
    assert set(each) - {"unit"} == {"id", "label", "information", "type"} | own
    if "unit" in each:
        check_english(each["unit"], longest=3)
    kind = {"boolean": bool, "string": str, "choice": str, "int": int, "double": (int, float)}[each["type"]]
    assert isinstance(each["default"], kind)
    if each["type"] in ("int", "double"):
        assert each["minimum"] <= each["default"] <= each["maximum"]
        assert each["type"] == "double" or all(-(2**31) <= each[name] < 2**31 for name in numbers)
        assert each["type"] == "int" or all((each[name] / 0.1).is_integer() for name in numbers)
    if each["type"] == "choice":
        assert each["default"] in [value["id"] for value in each["values"]]
        for value in each["values"]:
            assert set(value) == {"id", "name"}
            check_text(value["id"])
            check_english(value["name"])


def check_label(label):
    assert set(label) == {"general", "reconstruction", "parameters"}
    general, recon = label["general"], label["reconstruction"]
    assert set(general) == {"name", "version", "vendor", "information", "id", "regulatory_information"}
    check_english(general["name"])
    check_english(general["information"])
    check_text(general["vendor"])
    check_text(general["version"], pattern=r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-+].*)?")
    assert set(general["regulatory_information"]) == {
        "device_trade_name", "production_identifier", "manufacturer_address", "made_in", "manufacture_date",
        "material_number", "gtin", "udi", "safety_advices", "special_operating_instructions",
        "additional_relevant_information"}  # fmt: skip
    assert all(isinstance(value, str) for value in general["regulatory_information"].values())
    assert recon["transfer_protocol"] == {"protocol": "ISMRMRD", "version": "1.4.1"} and recon["port"] == 9002
    assert recon["emitter"] in ("raw", "image") and recon["injector"] in ("image", "compleximage")
    assert recon["content_qualification_type"] == "RESEARCH"
    for name in ("can_process_adjustment_data", "can_use_gpu"):
        assert isinstance(recon[name], bool)
    for name in ("min_count_required_gpus", "min_required_gpu_memory", "min_required_memory",
                 "min_count_required_cpu_cores"):  # fmt: skip
        assert isinstance(recon[name], int)
    assert len(recon) == 11
    ids = [each["id"] for each in label["parameters"]]
    assert ids[0] == "config" and len(set(ids)) == len(ids) <= 14
    for each in label["parameters"]:
        check_parameter(each)


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.glob("*.yaml")))
def test_every_shipped_pipeline_has_a_label(name):
    done = label_of(name)
    assert done.returncode == 0, done.stderr
    check_label(json.loads(done.stdout))


def test_the_ranges_of_a_label_are_those_that_the_server_checks(server):
    label = json.loads(label_of("images_invert").stdout)
    (maximum,) = label["parameters"][1:]
    for value in (maximum["minimum"], maximum["default"], maximum["maximum"]):
        assert len(inverted(server, host(maximum=value)).images) == 1
    for value in (maximum["minimum"] - 0.1, maximum["maximum"] + 0.1):
        assert inverted(server, host(maximum=value)).errors()


def test_labels_that_openrecon_would_refuse_are_not_made(tmp_path):
    assert "no pipeline is called 'nothing'" in label_of("nothing").stderr
    text = (SHIPPED / "images_denoise.yaml").read_text().replace("images_denoise", "fine")
    (tmp_path / "fine.yaml").write_text(text.replace("range: [0.1, 5]", "range: [0.05, 5]"))
    done = label_of("fine", folder=tmp_path)
    assert done.returncode != 0 and "fine.yaml:9:3" in done.stderr and "no multiple of 0.1" in done.stderr


def pack(*arguments):
    command = [sys.executable, "-B", PACKAGE, "--server", BIN / "echotrain-server", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)


def test_a_package_is_written_without_an_engine(tmp_path, server):
    own, context = tmp_path / "own", tmp_path / "context"
    own.mkdir()
    text = (SHIPPED / "images_invert.yaml").read_text().replace("name: images_invert", "name: mine")
    (own / "mine.yaml").write_text(text.replace("[0, 65535]", "[0, 500]"))
    changes = tmp_path / "changes.json"
    changes.write_text('{"general": {"vendor": "clinic", "regulatory_information": {"made_in": "here"}}}')
    options = ["--pipelines", own, "--context", context, "--version", "1.2.3", "--label", changes]
    done = pack("mine", "images_invert", *options)
    assert done.returncode != 0 and "'maximum' is another parameter" in done.stderr
    done = pack("mine", *options, "--gpu")
    assert done.returncode == 0, done.stderr
    label = json.loads((context / "label.json").read_text())
    check_label(label)
    general = label["general"]
    assert (general["vendor"], general["version"], general["name"]["en"]) == ("clinic", "1.2.3", "EchotrainMine")
    assert general["regulatory_information"]["made_in"] == "here"
    assert general["regulatory_information"]["material_number"] == "echotrainmine_1.2.3"
    assert label["reconstruction"]["can_use_gpu"] and label["reconstruction"]["emitter"] == "image"
    dockerfile = (context / "Dockerfile").read_text()
    assert dockerfile.startswith("FROM echotrain:cpu\n")
    encoded = re.search(rf'LABEL "{re.escape(LABEL)}"="([^"]*)"', dockerfile)[1]
    assert json.loads(base64.b64decode(encoded)) == label
    pdf = (context / "OpenRecon_clinic_EchotrainMine_V1.2.3.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-1.4") and b"0.0 to 500.0; 0.0 unless changed" in pdf

    # The server that the image would run: the host asks for `openrecon`, and names what the label offers.
    packed = Server(tmp_path, "--backend", "cpu", "--pipelines", context / "pipelines")
    choice = label["parameters"][0]["default"]
    for note in (host(maximum=400), host(config=choice, maximum=400)):
        reply = inverted(packed, note, wire.config_file("openrecon"))
        np.testing.assert_array_equal(reply.images[0].pixels, 400 - VOLUME)
        assert not reply.texts
    assert inverted(packed, host(config=choice, maximum=501), wire.config_file("openrecon")).errors()
    assert packed.stop() == 0


def test_the_default_package_is_for_raw_data(tmp_path):
    done = pack("--context", tmp_path)
    assert done.returncode == 0, done.stderr
    label = json.loads((tmp_path / "label.json").read_text())
    check_label(label)
    recon = label["reconstruction"]
    assert (recon["emitter"], recon["injector"], recon["can_process_adjustment_data"]) == ("raw", "image", True)
    assert "name: openrecon\n" in (tmp_path / "pipelines" / "openrecon.yaml").read_text()
