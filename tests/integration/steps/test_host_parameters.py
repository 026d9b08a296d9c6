"""What a host sends as JSON, handed to a module as its config and to another server as a text."""

import json
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import steps
import wire
from programs import BIN, Server, ends_well

PIXELS = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
SENT = steps.image(PIXELS, field_of_view=(8, 6, 5))
STEP = steps.python("tell_config", config="plain", host_parameters="true")
INVERT = "invert_contrast: {maximum: 50}"
EXPOSE = "input: images\nexpose:\n  maximum: {sets: invert_contrast.maximum}\n"
DUMMY = wire.header("Dummy XML header")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from ends_well(steps.start_server(tmp_path_factory.mktemp("host")))


def host(version="1.1.0", **parameters):
    return {"version": version, "parameters": parameters}


def text(note):
    return wire.text(json.dumps(note) + "\0")


def over_the_wire(server, messages):
    return wire.exchange(server.address, messages)


def through_pipes(server, messages):
    """The same by `echotrain recon -`, whose lines for people go to stderr."""
    command = [BIN / "echotrain", "recon", "-", "--backend", "cpu", "--python", sys.executable, "--python-modules",
               steps.MODULES]  # fmt: skip
    done = subprocess.run(command, input=b"".join(messages), capture_output=True, timeout=60)
    (first,) = struct.unpack_from("<H", done.stdout)  # a header, where the scan has one
    reply = wire.parse(done.stdout[6 + struct.unpack_from("<I", done.stdout, 2)[0] :] if first == 3 else done.stdout)
    reply.texts += [line.replace("warning: ", "WARNING  ").replace("info: ", "INFO     INFO     ")
                    .replace("error: ", "ERROR    ") for line in done.stderr.decode().splitlines()]  # fmt: skip
    return reply


def config_of(reply):
    """What the module has said that its config is."""
    (said,) = [line for line in reply.texts if line.startswith("INFO") and ("{" in line or '"plain"' in line)]
    return json.loads(re.sub(r"^(INFO\s+)+", "", said))


def warnings(reply):
    return [line for line in reply.texts if line.startswith("WARNING")]


@pytest.fixture(params=[over_the_wire, through_pipes], ids=["server", "recon"])
def scan(request, server):
    def run(*gadgets, head="", before=(), after=(), header=DUMMY, data=None):
        config = before or [steps.pipeline(*gadgets, head=head)]
        data = [SENT] if data is None else data
        return request.param(server, [*config, header, *after, *data, wire.close()])

    return run


def test_a_module_gets_what_the_host_sends(scan):
    note = host(config="other", threshold=0.5, rois=[1, 2], deep={"a": None}, name="Zoë", flag=True)
    note["parameters"].pop("config")
    reply = scan(STEP, after=[text(note)])
    assert config_of(reply) == note and not warnings(reply) and not reply.errors(), reply
    (image,) = reply.images
    np.testing.assert_array_equal(image.pixels, PIXELS)
    assert steps.parameters_of(image) == "deep=a map, flag=true, name=Zoë, rois=a list, threshold=0.5"


def test_without_a_host_the_module_gets_its_own_config(scan):
    for after in ((), [wire.text("no JSON\0")]):
        reply = scan(STEP, after=after)
        assert config_of(reply) == "plain" and steps.parameters_of(reply.images[0]) is None


def test_a_module_that_does_not_ask_gets_its_own_config(scan):
    reply = scan(steps.python("tell_config", config="plain"), after=[text(host(threshold=1))])
    assert config_of(reply) == "plain" and steps.parameters_of(reply.images[0]) is None
    (warning,) = warnings(reply)
    assert "exposes no parameter threshold" in warning


def test_gadgets_and_modules_get_their_values_from_one_text(scan):
    note = host(maximum=100, threshold=3)
    reply = scan(INVERT, "image", STEP, head=EXPOSE, after=[text(note)])
    assert config_of(reply) == note and not warnings(reply)
    np.testing.assert_array_equal(reply.images[0].pixels, 100 - PIXELS)
    assert steps.parameters_of(reply.images[0]) == "maximum=100, threshold=3"
    refused = scan(INVERT, "image", STEP, head=EXPOSE, after=[text(host(maximum=-1))])
    assert not refused.images and any("out of range" in line for line in refused.texts), refused


def test_json_beyond_what_a_step_takes_is_refused(scan):
    for note in (host(long="x" * 70000), host(deep=json.loads("[" * 80 + "]" * 80))):
        reply = scan(STEP, after=[text(note)])
        assert not reply.images and any("host's JSON" in line for line in reply.texts), reply


def test_readouts_and_several_steps(scan):
    note = host(threshold=3)
    first = steps.python("tell_config", host_parameters="true", gives="readouts")
    chain = (first, "cartesian_kspace", "fft: {direction: inverse}", "coil_combine: {method: rss}", "image")
    reply = scan(*chain, after=[text(note)], header=steps.header(), data=steps.readouts(steps.random_kspace()))
    assert config_of(reply) == note and len(reply.images) == 1


# --- pipelines that the server offers, which a host names ------------------------------------------------------------


def offering(folder, *arguments):
    (folder / "own").mkdir()
    text = f"echotrain: 1\nname: mine\ndescription: A test\n{EXPOSE}pipeline:\n  - {INVERT}\n  - image\n  - {STEP}\n"
    (folder / "own" / "mine.yaml").write_text(text)
    return steps.start_server(folder, "--pipelines", folder / "own", *arguments)


def test_what_the_configuration_and_a_text_say_is_joined_and_told_once(tmp_path):
    server = offering(tmp_path)
    first, second = host(config="mine", maximum=100, threshold=3), host(version="2", maximum=60, mode="soft")
    reply = wire.exchange(server.address, [wire.config_text(json.dumps(first)), DUMMY, text(second),
                                           SENT, wire.close()])  # fmt: skip
    joined = host(version="2", config="mine", maximum=60, threshold=3, mode="soft")
    assert config_of(reply) == joined and not warnings(reply), reply
    np.testing.assert_array_equal(reply.images[0].pixels, 60 - PIXELS)
    assert steps.parameters_of(reply.images[0]) == "maximum=60, threshold=3, mode=soft"
    stream = [wire.config_text(json.dumps(first)), DUMMY, text(second), SENT, wire.close()]
    command = [BIN / "echotrain", "recon", "-", "--backend", "cpu", "--python", sys.executable, "--python-modules",
               steps.MODULES, "--pipelines", tmp_path / "own"]  # fmt: skip
    done = subprocess.run(command, input=b"".join(stream), capture_output=True, timeout=60)
    (image,) = wire.parse(done.stdout).images
    np.testing.assert_array_equal(image.pixels, 60 - PIXELS)
    assert steps.parameters_of(image) == "maximum=60, threshold=3, mode=soft"
    assert server.stop() == 0


def test_a_token_stays_with_the_server(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    tokens.chmod(0o600)
    server = offering(tmp_path, "--token-file", tokens)
    note = host(config="mine", threshold=3)
    sent = wire.config_text(json.dumps({"token": "0123456789abcdef", **note}))
    reply = wire.exchange(server.address, [sent, DUMMY, SENT, wire.close()])
    assert config_of(reply) == note, reply
    assert server.stop() == 0


def test_another_server_gets_the_text_too(tmp_path, server):
    port = server.address[1]
    near = Server(tmp_path, "--backend", "cpu", "--mrd-servers", f"127.0.0.1:{port}",
                  "--client-pipelines", "all")  # fmt: skip
    for forwarded in ("true", "false"):
        step = f'mrd_server: {{address: "127.0.0.1:{port}", config: images_invert, host_parameters: {forwarded}}}'
        reply = wire.exchange(near.address, [steps.pipeline(step), DUMMY, text(host(maximum=1000)), SENT,
                                             wire.close()])  # fmt: skip
        (image,) = reply.images
        np.testing.assert_array_equal(image.pixels, (1000 if forwarded == "true" else PIXELS.max()) - PIXELS)
        assert bool(warnings(reply)) == (forwarded == "false"), reply
    assert near.stop() == 0
