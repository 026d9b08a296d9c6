"""Steps of a scan that comes through pipes: `echotrain-server --stdio`."""

import subprocess
import sys
import tempfile

import numpy as np
import pytest
import steps
import wire
from programs import BIN

COMMAND = [BIN / "echotrain-server", "--stdio", "--backend", "cpu", "--python", sys.executable, "--python-modules",
           steps.MODULES, "--client-pipelines", "all", "--python-write", tempfile.gettempdir()]  # fmt: skip


def run(*messages):
    done = subprocess.run(COMMAND, input=b"".join(messages), capture_output=True, timeout=60)
    return done, wire.parse(done.stdout)


@pytest.mark.parametrize("module", ["pass_on", "invert"])
def test_images_go_through_a_module(module):
    pixels = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    done, reply = run(steps.pipeline(steps.python(module)), steps.header(), steps.image(pixels), wire.close())
    assert done.returncode == 0, done.stderr.decode()
    np.testing.assert_array_equal(reply.images[0].pixels, pixels if module == "pass_on" else pixels.max() - pixels)


def test_what_a_module_prints_is_no_part_of_the_images():
    config = steps.pipeline(steps.python("misbehave", config="early"))
    lines = steps.readouts(steps.random_kspace())
    done, reply = run(config, steps.header(), *lines, wire.close())
    assert done.returncode == 0 and len(reply.images) == 1 and not reply.errors(), (done.stderr, reply)


def test_a_module_that_goes_wrong_ends_the_program_and_says_why():
    config = steps.pipeline(steps.python("misbehave", config="exit"))
    done, reply = run(config, steps.header(), *steps.readouts(steps.random_kspace()), wire.close())
    assert done.returncode == 1 and "has ended with exit code 7" in reply.errors()[0], (done.stderr, reply)


@pytest.mark.parametrize("module", ["family", "daemon"])
@pytest.mark.parametrize("how", ["killed", "left"])
def test_no_module_outlives_the_program(tmp_path, how, module):
    file = tmp_path / "family"
    config = f"'{{\"how\": \"{module}\", \"file\": \"{file}\"}}'"
    program = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = steps.readouts(steps.random_kspace())[0]
    program.stdin.write(steps.pipeline(steps.python("misbehave", config=config)) + steps.header() + line)
    program.stdin.flush()
    steps.wait_until(file.exists, "the module has a child")
    family = [*steps.family(program.pid)[1:], int(file.read_text())]
    if how == "killed":
        program.kill()
    else:  # who writes the scan is gone, before its end
        program.stdin.close()
    try:
        steps.wait_until(lambda: not any(steps.lives(each) for each in family), "all have ended")
    finally:
        for each in family:
            if steps.lives(each):
                steps.kill(each)
    program.stdin.close()
    program.stdout.close()
    assert program.wait(60) != 0
