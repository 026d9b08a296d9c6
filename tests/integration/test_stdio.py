"""`echotrain-server --stdio`: one measurement through pipes and files."""

import io
import subprocess

import numpy as np
import pytest

import scans
import wire
from programs import BIN

COMMAND = [BIN / "echotrain-server", "--stdio", "--backend", "cpu"]


def stream(config=None, frames=2):
    kspace = np.random.default_rng(4).standard_normal((frames, 2, 32, 32, 2)).astype("<f4").view("<c8")[..., 0]
    messages = scans.cartesian(kspace).stream(config or wire.config_file("cartesian_plain"))
    return b"".join(messages[0 if config != b"" else 1 :])


def run(data, *arguments):
    return subprocess.run([*COMMAND, *arguments], input=data, capture_output=True, timeout=60)


def same_images(reply, expected):
    assert len(reply.images) == len(expected.images) > 0
    for got, want in zip(reply.images, expected.images, strict=True):
        np.testing.assert_array_equal(got.pixels, want.pixels)


def test_a_pipe_gives_what_the_socket_gives(server):
    expected = wire.exchange(server.address, [stream()])
    done = run(stream())
    assert done.returncode == 0, done.stderr.decode()
    same_images(wire.parse(done.stdout), expected)  # which checks that nothing follows CLOSE


def test_files_and_a_stream_without_config(server, tmp_path):
    scan, images = tmp_path / "scan.mrd", tmp_path / "images.mrd"
    scan.write_bytes(stream(config=b""))  # as libismrmrd's stream writers do
    with open(scan, "rb") as source, open(images, "wb") as target:
        done = subprocess.run([*COMMAND, "--default-pipeline", "cartesian_plain"], stdin=source, stdout=target,
                              stderr=subprocess.PIPE, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    same_images(wire.parse(images.read_bytes()), wire.exchange(server.address, [stream()]))


def test_the_ismrmrd_package_reads_the_answer():
    ismrmrd = pytest.importorskip("ismrmrd")
    serialization = pytest.importorskip("ismrmrd.serialization", reason="needs ismrmrd >= 1.14")
    done = run(stream())
    with serialization.ProtocolDeserializer(io.BytesIO(done.stdout)) as reader:
        items = list(reader.deserialize())
    assert [i.data.shape for i in items if isinstance(i, ismrmrd.Image)] == [(1, 1, 32, 32)] * 2


def test_an_end_before_close_is_incomplete():
    done = run(stream()[:-2])
    assert done.returncode == 1
    reply = wire.parse(done.stdout)
    assert len(reply.images) == 2 and any("incomplete" in t for t in reply.texts)


def test_an_error_is_told_and_ends_the_program_though_the_input_goes_on():
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(stream(wire.config_file("no_such"), frames=1))
    process.stdin.flush()  # and not closed
    reply = wire.parse(process.stdout.read())
    assert len(reply.errors()) == 1 and "unknown-config" in reply.errors()[0]
    assert process.wait(30) == 1
    process.stdin.close()
    process.stderr.close()


def test_a_reader_that_goes_away_ends_the_program():
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    _, log = process.communicate(stream(frames=8))
    assert process.returncode == 1, log.decode()
