"""What the process of a Python step may not do."""

import json
import os
import re
import sys

import numpy as np
import pytest
import steps
import wire
from programs import Server, ends_well

TOKEN = "0123456789abcdef0123456789abcdef"
IMAGE = [steps.image(np.ones((1, 1, 2, 2)))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "tokens").write_text(TOKEN + "\n")
    (folder / "capture.mrd").write_bytes(bytes(100))
    return folder


def sandboxed(folder, *arguments):
    (folder / "server").mkdir(exist_ok=True)
    server = Server(folder / "server", "--python", sys.executable, "--python-modules", steps.MODULES, "--backend", "cpu",
                    "--client-pipelines", "all", "--python-warm", 0, *arguments)  # fmt: skip
    if "python steps run in a sandbox: Landlock" not in server.text() and "off" not in arguments:
        server.stop()
        pytest.skip("this machine has no Landlock or no seccomp")
    return server


@pytest.fixture(scope="module")
def server(folder):
    yield from ends_well(sandboxed(folder, "--python-tasks", 100, "--python-file-mib", 2))


def attempt(server, how, **more):
    config = json.dumps({"how": how, "server": server.process.pid, **more})
    pipeline = steps.pipeline(steps.python("trespass", config=f"'{config}'"))
    return wire.exchange(server.address, [pipeline, steps.header(), *IMAGE, wire.close()])


def goes_on(server):
    reply = wire.exchange(server.address, [steps.pipeline(steps.python("pass_on")), steps.header(), *IMAGE, wire.close()])
    assert not reply.errors() and len(reply.images) == 1, reply


def fails(reply, line):
    assert "python module 'trespass' has ended with exit code 1" in reply.errors()[0], reply
    assert any(re.search(line, text) for text in reply.texts), reply


HINT = r"a step reads Python's folders and its own, writes to its temporary folder, and has no network"


DENIED, NOT_PERMITTED = "Permission denied", "Operation not permitted"


def attempts(server, expected, **more):
    """What a step hears when it tries each of these."""
    reply = attempt(server, "each", attempts=list(expected), **more)
    assert not reply.errors(), reply
    said = dict(text.removeprefix("INFO     ").split(": ") for text in reply.said("INFO"))
    assert {name: said[name] for name in expected} == expected


@pytest.mark.parametrize("place", ["tokens", "capture.mrd"])
def test_a_step_reaches_no_file_of_others(folder, server, place):
    file = folder / place
    file.chmod(0o600)
    before = file.read_bytes()
    expected = dict.fromkeys(("read", "write", "truncate", "empty"), DENIED)
    attempts(server, {**expected, "link": "Invalid cross-device link", "chmod": "possible"}, place=str(file))
    assert file.read_bytes() == before
    assert file.stat().st_mode & 0o777 == 0o600  # chmod did as if
    attempts(server, {"list": DENIED}, place=str(folder))


def test_a_step_reaches_no_other_process(server):
    attempts(server, {"memory": DENIED, "environment": DENIED, "output": DENIED})
    refused = ("signal", "everybody", "ptrace", "attach", "limits", "namespace", "network", "unix")
    attempts(server, dict.fromkeys(refused, NOT_PERMITTED), port=server.address[1])
    attempts(server, {"long": "File too large"})
    goes_on(server)


def test_a_failed_step_says_what_steps_may(folder, server):
    fails(attempt(server, "read", place=str(folder / "tokens")), r"PermissionError: \[Errno 13\] Permission denied")
    reply = attempt(server, "network", port=server.address[1])
    fails(reply, r"PermissionError: \[Errno 1\] Operation not permitted")
    fails(reply, r"a step reads Python's folders and its own, writes to its temporary folder, and has no network")


@pytest.mark.parametrize("how", ["forks", "threads"])
def test_a_step_that_multiplies_ends(server, how):
    reply = attempt(server, how)
    assert "python module 'trespass' was ended by signal 9 (Killed)" in reply.errors()[0], reply
    assert any("it runs more than 100 processes and threads (python_tasks)" in text for text in reply.texts), reply
    steps.wait_until(lambda: not steps.children(server.process.pid), "the step's processes are gone")
    goes_on(server)


def test_what_steps_do_works_and_leaves_nothing(server):
    reply = attempt(server, "work")
    assert not reply.errors() and reply.said("INFO") == ["INFO     work was possible"], reply
    steps.wait_until(lambda: not steps.children(server.process.pid), "the step's processes are gone")
    own = [name for name in os.listdir("/tmp") if name.startswith("echotrain-step-")]
    assert not [name for name in own if os.path.exists(f"/tmp/{name}/debug")]


def test_options_give_a_step_more(folder):
    server = sandboxed(folder, "--python-network", "--python-read", folder / "capture.mrd", "--python-write",
                       folder / "server", "--python-threads", 2, "--python-timeout-s", 30)  # fmt: skip
    for how, more in (("network", {"port": server.address[1]}), ("read", {"place": str(folder / "capture.mrd")}),
                      ("write", {"place": str(folder / "server" / "new")})):  # fmt: skip
        reply = attempt(server, how, **more)
        assert not reply.errors(), reply
    fails(attempt(server, "read", place=str(folder / "tokens")), "PermissionError")
    greedy = steps.pipeline(steps.python("pass_on", threads=3, timeout_s=31))
    reply = wire.exchange(server.address, [greedy, steps.header(), *IMAGE, wire.close()])
    assert len(reply.images) == 1
    said = "\n".join(reply.said("WARNING"))
    assert "threads: 2 here, not 3 (python_threads)" in said
    assert "timeout_s: 30 s here, not 31 (python_timeout_s)" in said
    assert server.stop() == 0


def test_without_a_sandbox_a_step_may_what_the_server_may(folder):
    server = sandboxed(folder, "--python-sandbox", "off")
    assert "python steps run without a sandbox (python_sandbox: off)" in server.text()
    assert not attempt(server, "read", place=str(folder / "tokens")).errors()
    assert server.stop() == 0
