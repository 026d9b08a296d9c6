"""Tokens: a client without one is told what to do, and gets nothing."""

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
    server = Server(tmp_path, "--token-file", tokens, "--default-pipeline", "cartesian_2d", "--log-level", "trace")
    yield from ends_well(server)
    assert TOKEN not in server.text() and OTHER not in server.text()


def exchange(server, config):
    kspace = np.random.default_rng(5).standard_normal((1, 2, 16, 16, 2)).astype("<f4").view("<c8")[..., 0]
    return wire.exchange(server.address, [m for m in scans.cartesian(kspace).stream(config) if m])


def test_a_token_lets_in_with_every_kind_of_config(guarded):
    inline = variant("cartesian_2d", ("name: cartesian_2d", f"token: {TOKEN}\nname: mine"))
    for text in (f"token: {TOKEN}\nuse: cartesian_2d", f"use: cartesian_2d\ntoken: {TOKEN}\n", f"token: {TOKEN}", inline):
        reply = exchange(guarded, wire.config_text(text))
        assert not reply.texts and len(reply.images) == 1, reply.texts


def test_without_a_known_token_nothing_is_reconstructed(guarded):
    for config in (
        wire.config_file("cartesian_2d"),
        wire.config_file("no_such"),
        wire.config_text("use: cartesian_2d"),
        wire.config_text(f"token: {TOKEN[:-1]}\nuse: cartesian_2d"),
        wire.config_text(f"token: {TOKEN}0\nuse: cartesian_2d"),
        wire.config_text("token: ''\nuse: cartesian_2d"),
        wire.config_text("- nonsense"),
        b"",  # the default pipeline
    ):
        reply = exchange(guarded, config)
        assert not reply.images and len(reply.errors()) == 1
        assert "unauthorized" in reply.errors()[0] and "--token-file" in reply.errors()[0]
    # A Gadgetron client asks this before a scan, and fails on any text.
    assert not wire.exchange(guarded.address, [wire.config_file("cartesian_2d"), wire.close()]).texts


def test_who_is_let_in_hears_what_is_wrong_with_the_pipeline(guarded):
    for text, expected in (("use: no_such", "unknown-config"), ("name: mine", "bad-config"), ("use: [1]", "bad-config")):
        reply = exchange(guarded, wire.config_text(f"token: {TOKEN}\n{text}\n"))
        assert len(reply.errors()) == 1 and expected in reply.errors()[0], reply.texts


def test_tokens_are_replaced_without_a_restart(guarded, tokens):
    old, new = (wire.config_text(f"token: {t}\nuse: cartesian_2d") for t in (TOKEN, "a-new-token-of-this-test"))
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
    pipeline.write_text("---\n" + variant("cartesian_2d"))
    mine.write_text(OTHER + "\n")
    for config in ("cartesian_2d", pipeline):
        done = guarded.send(scan, config, tmp_path / "images.h5", "--token-file", mine)
        assert done.returncode == 0, done.stderr
    refused = guarded.send(scan, "cartesian_2d", tmp_path / "none.h5")
    assert refused.returncode == 1 and "unauthorized" in refused.stderr
    absent = guarded.send(scan, "cartesian_2d", tmp_path / "none.h5", "--token-file", tmp_path / "absent")
    assert absent.returncode != 0 and "cannot be read" in absent.stderr
    command = [BIN / "echotrain", "send", scan, "-c", "cartesian_2d", "-p", str(guarded.port), "-o", tmp_path / "e.h5"]
    done = subprocess.run(command, env={**os.environ, "ECHOTRAIN_TOKEN": TOKEN}, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_token_file_without_tokens_does_not_start(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("# none\n")
    for path in (empty, tmp_path / "absent"):
        done = subprocess.run([BIN / "echotrain-server", "--port", "0", "--token-file", path], capture_output=True,
                              text=True, timeout=20)  # fmt: skip
        assert done.returncode == 1 and "cannot be read or has no token" in done.stderr
