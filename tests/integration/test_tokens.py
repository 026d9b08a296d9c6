"""Tokens: a client without one is told what to do, and gets nothing."""

import hashlib
import http.client
import os
import signal
import subprocess

import numpy as np
import pytest

import scans
import wire
from programs import BIN, Server, ends_well, simulated_scan, variant

TOKEN, OTHER = "0123456789abcdef", "it's a: 'quoted' token"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who may use it\n\n{TOKEN}\n  {OTHER}  \n")
    return path


@pytest.fixture
def guarded(tmp_path, tokens):
    server = Server(tmp_path, "--token-file", tokens, "--default-pipeline", "cartesian_plain", "--log-level", "trace")
    yield from ends_well(server)
    assert TOKEN not in server.text() and OTHER not in server.text()


def exchange(server, config):
    kspace = np.random.default_rng(5).standard_normal((1, 2, 16, 16, 2)).astype("<f4").view("<c8")[..., 0]
    return wire.exchange(server.address, [m for m in scans.cartesian(kspace).stream(config) if m])


def test_a_token_lets_in_with_every_kind_of_config(guarded):
    inline = variant("cartesian_plain", ("name: cartesian_plain", f"token: {TOKEN}\nname: mine"))
    for text in (f"token: {TOKEN}\nuse: cartesian_plain", f"use: cartesian_plain\ntoken: {TOKEN}\n", f"token: {TOKEN}", inline):
        reply = exchange(guarded, wire.config_text(text))
        assert not reply.texts and len(reply.images) == 1, reply.texts


def test_without_a_known_token_nothing_is_reconstructed(guarded):
    for config in (
        wire.config_file("cartesian_plain"),
        wire.config_file("no_such"),
        wire.config_text("use: cartesian_plain"),
        wire.config_text(f"token: {TOKEN[:-1]}\nuse: cartesian_plain"),
        wire.config_text(f"token: {TOKEN}0\nuse: cartesian_plain"),
        wire.config_text("token: ''\nuse: cartesian_plain"),
        wire.config_text("- nonsense"),
        b"",  # the default pipeline
    ):
        reply = exchange(guarded, config)
        assert not reply.images and len(reply.errors()) == 1
        assert "unauthorized" in reply.errors()[0] and "--token-file" in reply.errors()[0]
    # A Gadgetron client asks this before a scan, and fails on any text.
    assert not wire.exchange(guarded.address, [wire.config_file("cartesian_plain"), wire.close()]).texts


def test_who_is_let_in_hears_what_is_wrong_with_the_pipeline(guarded):
    for text, expected in (("use: no_such", "unknown-config"), ("name: mine", "bad-config"), ("use: [1]", "bad-config")):
        reply = exchange(guarded, wire.config_text(f"token: {TOKEN}\n{text}\n"))
        assert len(reply.errors()) == 1 and expected in reply.errors()[0], reply.texts


def test_tokens_are_replaced_without_a_restart(guarded, tokens):
    old, new = (wire.config_text(f"token: {t}\nuse: cartesian_plain") for t in (TOKEN, "a-new-token-of-this-test"))
    assert exchange(guarded, new).errors()
    tokens.write_text("a-new-token-of-this-test\n")
    guarded.process.send_signal(signal.SIGHUP)
    guarded.wait_for("the tokens were read again")
    assert exchange(guarded, old).errors() and not exchange(guarded, new).errors()
    tokens.write_text("short\n")
    guarded.process.send_signal(signal.SIGHUP)
    guarded.wait_for("the tokens stay as they were: .*at least 16 characters")
    assert not exchange(guarded, new).errors()


def test_our_client_sends_its_token(guarded, tmp_path):
    scan, mine, pipeline = tmp_path / "scan.h5", tmp_path / "mine", tmp_path / "mine.yaml"
    simulated_scan(scan, "--trajectory", "cartesian", "--matrix", 16, "--coils", 1)
    pipeline.write_text("---\n" + variant("cartesian_plain"))
    mine.write_text(OTHER + "\n")
    for config in ("cartesian_plain", pipeline):
        done = guarded.send(scan, config, tmp_path / "images.h5", "--token-file", mine)
        assert done.returncode == 0, done.stderr
    refused = guarded.send(scan, "cartesian_plain", tmp_path / "none.h5")
    assert refused.returncode == 1 and "unauthorized" in refused.stderr
    absent = guarded.send(scan, "cartesian_plain", tmp_path / "none.h5", "--token-file", tmp_path / "absent")
    assert absent.returncode != 0 and "cannot be read" in absent.stderr
    command = [BIN / "echotrain", "send", scan, "-c", "cartesian_plain", "-p", str(guarded.port), "-o", tmp_path / "e.h5"]
    done = subprocess.run(command, env={**os.environ, "ECHOTRAIN_TOKEN": TOKEN}, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_token_file_without_tokens_does_not_start(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("# none\n")
    for path in (empty, tmp_path / "absent"):
        done = subprocess.run([BIN / "echotrain-server", "--port", "0", "--token-file", path], capture_output=True,
                              text=True, timeout=20)  # fmt: skip
        assert done.returncode == 1 and "cannot be read or has no token" in done.stderr


def test_a_made_token_scans_until_it_expires_and_is_nowhere_to_read(tmp_path):
    lines = {}
    for name, more in (("console", ()), ("old", ("--until", "2001-01-01")), ("viewer", ("--scope", "read"))):
        made = subprocess.run([BIN / "echotrain", "token", name, *more], capture_output=True, text=True, check=True)
        token, lines[name] = made.stdout.splitlines()
        assert lines[name].endswith(":" + hashlib.sha256(token.encode()).hexdigest())
        lines[name] = (token, lines[name])
    tokens, captures = tmp_path / "tokens", tmp_path / "captures"
    tokens.write_text("".join(line + "\n" for _, line in lines.values()))
    server = Server(tmp_path, "--token-file", tokens, "--capture-directory", captures, "--log-level", "trace")
    for name, let_in in (("console", True), ("old", False), ("viewer", False)):
        reply = exchange(server, wire.config_text(f"token: {lines[name][0]}\nuse: cartesian_plain"))
        assert len(reply.images) == let_in and bool(reply.errors()) != let_in, (name, reply.texts)
    server.wait_for("summary: complete peer=[^ ]* pipeline=.* client='token:console'")
    assert "the token 'old' has expired" in server.text() and "as they are" not in server.text()
    (capture,) = captures.glob("*.mrd")
    kept = capture.read_bytes()
    token = lines["console"][0].encode()
    assert token not in kept and b"token: " + len(token) * b"x" + b"\nuse: cartesian_plain" in kept
    assert server.stop() == 0


def test_versions_are_told_to_who_may_scan(guarded):
    ask = [wire.query(name, number) for number, name in enumerate(("echotrain::version", "gadgetron::info",
                                                                   "echotrain::pipelines", "ismrmrd::version"))]  # fmt: skip
    before = wire.exchange(guarded.address, [*ask, wire.close()])
    assert [response for _, response in before.responses] == 4 * ["unknown"], before
    after = wire.exchange(guarded.address, [wire.config_text(f"token: {TOKEN}\nuse: cartesian_plain"), *ask, wire.close()])
    assert len(after.responses) == 4 and "unknown" not in str(after.responses), after


def test_tokens_as_they_are_cause_a_line_at_the_start(guarded):
    assert "has 2 tokens as they are, with all rights" in guarded.text()


def test_a_token_that_may_look_changes_nothing(tmp_path):
    tokens, made = tmp_path / "tokens", {}
    for scope in ("scan", "read", "admin"):
        done = subprocess.run([BIN / "echotrain", "token", "me", "--scope", scope], capture_output=True, text=True, check=True)
        made[scope] = done.stdout.splitlines()
    tokens.write_text("".join(line + "\n" for _, line in made.values()))
    server = Server(tmp_path, "--admin-token-file", tokens, "--admin-page", "token", "--capture-directory", tmp_path / "kept")

    def ask(method, path, scope):
        connection = http.client.HTTPConnection(*server.admin, timeout=20)
        connection.request(method, path, headers={"Authorization": f"Bearer {made[scope][0]}"})
        status = connection.getresponse().status
        connection.close()
        return status

    for method, path, expected in (("GET", "/live/captures", {"scan": 401, "read": 200, "admin": 200}),
                                   ("POST", "/live/replay?pipeline=cartesian_plain&capture=x",
                                    {"scan": 401, "read": 403, "admin": 404}),
                                   ("POST", "/sessions/99/stop", {"scan": 401, "read": 401, "admin": 404})):  # fmt: skip
        assert {scope: ask(method, path, scope) for scope in made} == expected, path
    assert server.stop() == 0
