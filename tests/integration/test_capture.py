"""Raw captures: what is in them, and what `replay`, `convert` and `recon -` make of them."""

import io
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import reference
import scans
import wire
from programs import BIN, Server, ends_well, run_client
from vitals import in_time, wait_until

FRAMES, COILS, MATRIX = 5, 4, 64


@pytest.fixture(scope="module")
def kspace():
    return scans.random_kspace((FRAMES, COILS, MATRIX, MATRIX), seed=21)


@pytest.fixture(scope="module")
def scan(tmp_path_factory, kspace):
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    scans.cartesian(kspace).save(path)
    return path


@pytest.fixture(scope="module")
def truth(kspace):
    return [reference.rss(reference.centred_fft(one, MATRIX)) for one in kspace]


@pytest.fixture(scope="module")
def stream(kspace):
    return b"".join(scans.cartesian(kspace).stream(wire.config_file("cartesian_plain")))


def capturing(folder, *arguments):
    (folder / "log").mkdir(exist_ok=True)
    return Server(folder / "log", "--backend", "cpu", "--capture-directory", folder / "captures", *arguments)


@pytest.fixture
def server_with_captures(tmp_path):
    server = capturing(tmp_path)
    yield from ends_well(server)


def captures(folder):
    return sorted((folder / "captures").glob("*.mrd"), key=lambda path: path.stat().st_mtime)


def run_ok(*arguments):
    done = run_client(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def check(path, truth):
    _, pixels = scans.read_images(path)
    assert len(pixels) == len(truth)
    for image, expected in zip(pixels, truth):
        assert reference.nrmse(image[0, 0], expected) <= 1e-5


def test_a_capture_holds_the_scan_and_replays_to_the_same_images(server_with_captures, tmp_path, scan, stream, truth):
    server = server_with_captures
    assert server.send(scan, "cartesian_plain", tmp_path / "first.h5").returncode == 0
    name = server.wait_for(r"capture=(\S+)")[1]
    (capture,) = captures(tmp_path)
    assert capture.name == name
    assert capture.read_bytes() == stream
    run_ok("replay", capture, "-p", server.port, "-o", tmp_path / "again.h5")
    check(tmp_path / "again.h5", truth)
    np.testing.assert_array_equal(*(scans.read_images(tmp_path / f"{which}.h5")[1] for which in ("first", "again")))
    assert captures(tmp_path)[1].read_bytes() == stream, "a replay is captured as what it replays"


def test_verify_convert_and_replay_notice_a_flipped_bit(server_with_captures, tmp_path, scan, stream, truth):
    server = server_with_captures
    assert server.send(scan, "cartesian_plain", tmp_path / "first.h5").returncode == 0
    (capture,) = captures(tmp_path)
    checksums = capture.with_name(capture.name + ".crc32c")
    done = run_ok("verify", capture)
    assert done.stdout == f"{capture}: right: all {len(stream)} bytes, by 1 checksums\n" and not done.stderr
    # The format is told in docs/capture.md, so that others can read it.
    first, block, end = checksums.read_text().splitlines()
    assert first == "echotrain crc32c 1" and block.startswith(f"{0:016x} {len(stream):08x} ")
    assert end.startswith(f"end {len(stream):016x} ")
    assert "warning" not in run_ok("convert", capture, tmp_path / "right.h5").stderr

    damaged = bytearray(stream)
    damaged[-1000] ^= 1  # in the last readout's samples
    capture.write_bytes(damaged)
    done = run_client("verify", capture)
    assert done.returncode == 1 and "Take another copy" in done.stderr
    assert done.stdout == f"{capture}: damaged: MiB 0 of 1 (the first is 0) has changed since it was written\n"
    warning = f"warning: {capture}: damaged: MiB 0 of 1"
    assert warning in run_ok("convert", capture, tmp_path / "damaged.h5").stderr
    assert warning in run_ok("replay", capture, "-p", server.port, "-o", tmp_path / "damaged_images.h5").stderr

    capture.write_bytes(stream[:-100])
    done = run_client("verify", capture)
    assert done.returncode == 1
    assert f"damaged: the file ends at byte {len(stream) - 100} and had {len(stream)}" in done.stdout
    capture.write_bytes(stream)
    lines = bytearray(checksums.read_bytes())
    lines[30] ^= 2
    checksums.write_bytes(lines)
    done = run_client("verify", capture)
    assert done.returncode == 1 and "damaged: 1 of its lines of checksums has changed" in done.stdout
    checksums.unlink()
    done = run_client("verify", capture)
    assert done.returncode == 2 and f"no checksums: {checksums.name} is not beside it" in done.stdout
    assert "warning" not in run_ok("convert", capture, tmp_path / "old.h5").stderr
    done = run_client("verify", capture, tmp_path / "not_there.mrd")
    assert done.returncode == 2 and "cannot be checked: cannot open" in done.stdout
    check(tmp_path / "first.h5", truth)


def test_a_server_that_stops_finishes_the_capture_of_the_scan_that_it_ends(tmp_path, stream):
    server = capturing(tmp_path, "--shutdown-timeout-s", 0.3)
    sent = stream[: len(stream) // 2]
    with socket.create_connection(server.address, timeout=20) as client:
        client.sendall(sent)
        wait_until(lambda: [path.stat().st_size for path in captures(tmp_path)] == [len(sent)], what="its bytes")
        assert server.stop() == 0
    (capture,) = captures(tmp_path)
    assert capture.read_bytes() == sent
    assert f"right: all {len(sent)} bytes" in run_ok("verify", capture).stdout


def test_another_pipeline_and_queries(server, tmp_path, scan, kspace, stream):
    """-c replaces the stream's pipeline, also in FIRE's text after the header; queries are not repeated."""
    query = b"\x06\x00" + bytes(16) + (1).to_bytes(8, "little") + b"a"
    note = wire.text('{"parameters": {"config": "cartesian_plain"}}')
    head = len(wire.config_file("x")) + len(wire.header(scans.cartesian(kspace).xml))
    capture = tmp_path / "capture.mrd"
    capture.write_bytes(query + stream[:head] + note + query + stream[head:])
    run_ok("replay", capture, "-p", server.port, "-o", tmp_path / "images.h5")
    run_ok("replay", capture, "-c", "coils_2d", "-p", server.port, "-o", tmp_path / "coils.h5")
    assert scans.read_images(tmp_path / "images.h5")[1].shape[1] == 1
    _, pixels = scans.read_images(tmp_path / "coils.h5")
    assert pixels.shape[1] == COILS
    for one, image in zip(kspace, pixels, strict=True):
        assert reference.nrmse(image[:, 0], reference.centred_fft(one, MATRIX)) <= 1e-5


def test_convert_gives_a_file_that_others_read(tmp_path, scan, kspace, stream):
    ismrmrd = pytest.importorskip("ismrmrd")
    (tmp_path / "capture.mrd").write_bytes(stream)
    done = run_ok("convert", tmp_path / "capture.mrd", tmp_path / "made.h5")
    assert "320 readouts" in done.stdout and "1 configuration" in done.stdout
    dataset = ismrmrd.Dataset(str(tmp_path / "made.h5"), "dataset", False)
    assert dataset.read_xml_header().decode() == scans.cartesian(kspace).xml
    assert dataset.number_of_acquisitions() == FRAMES * MATRIX
    lines = [dataset.read_acquisition(i) for i in range(FRAMES * MATRIX)]
    np.testing.assert_array_equal([line.data for line in lines], kspace.transpose(0, 2, 1, 3).reshape(-1, COILS, MATRIX))
    dataset.close()
    _, heads, _, _ = scans.read_acquisitions(tmp_path / "made.h5")
    np.testing.assert_array_equal(heads, scans.read_acquisitions(scan)[1])
    run_ok("convert", tmp_path / "made.h5", tmp_path / "back.mrd", "-c", "cartesian_plain")
    assert (tmp_path / "back.mrd").read_bytes() == stream


def test_convert_between_debians_tools(tmp_path, server):
    """libismrmrd's programs make a file; they read and reconstruct the file that is made from its stream."""
    made, again = tmp_path / "phantom.h5", tmp_path / "again.h5"
    command = ["ismrmrd_generate_cartesian_shepp_logan", "-m", "64", "-c", "4", "-o", made]
    try:
        subprocess.run([str(c) for c in command], check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("needs ismrmrd-tools")
    run_ok("convert", made, tmp_path / "phantom.mrd")
    run_ok("convert", tmp_path / "phantom.mrd", again)
    for path in (made, again):
        done = subprocess.run(["ismrmrd_recon_cartesian_2d", str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    run_ok("info", again)
    images = [scans.read_images(path, "cpp")[1] for path in (made, again)]
    np.testing.assert_array_equal(*images)
    assert np.abs(images[0]).max() > 0


def test_waveforms_and_images_survive(tmp_path, kspace):
    """Through HDF5 and back, waveforms keep their place among the readouts by their time stamps."""
    ismrmrd = pytest.importorskip("ismrmrd")
    rng = np.random.default_rng(3)
    waveforms = [rng.integers(0, 1 << 32, (2, 7), dtype=np.uint32) for _ in range(3)]
    messages = list(scans.cartesian(kspace[:1]).messages[:6])
    for i in range(6):
        messages[i] = wire.changed(messages[i], acquisition_time_stamp=10 * i)
    for i, samples in reversed(list(enumerate(waveforms))):
        head = np.zeros(40, np.uint8)
        head[0], head[16], head[28], head[30] = 1, 1, 7, 2
        head[24:28] = np.frombuffer(np.uint32(20 * i + 5).tobytes(), np.uint8)
        messages.insert(2 * i + 1, (1026).to_bytes(2, "little") + head.tobytes() + samples.tobytes())
    pixels = rng.standard_normal((1, 1, 6, 5)).astype(np.float32)
    messages.append(wire.image(pixels, "map", image_series_index=3))
    data = wire.header(scans.cartesian(kspace).xml) + b"".join(messages) + wire.close()
    (tmp_path / "a.mrd").write_bytes(data)
    run_ok("convert", tmp_path / "a.mrd", tmp_path / "a.h5")
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", False)
    assert dataset.number_of_waveforms() == 3
    for i, samples in enumerate(waveforms):
        np.testing.assert_array_equal(dataset.read_waveform(i).data, samples)
    image = dataset.read_image("image_3", 0)
    np.testing.assert_array_equal(image.data, pixels)
    assert image.meta["role"] == "map"
    dataset.close()
    run_ok("convert", tmp_path / "a.h5", tmp_path / "b.mrd")
    assert (tmp_path / "b.mrd").read_bytes() == data


@pytest.mark.parametrize("cut", [1, 300, 5000])
def test_a_partial_last_message_is_told_and_all_before_is_kept(server, tmp_path, stream, truth, cut):
    readout = 342 + 8 * COILS * MATRIX
    whole = FRAMES * MATRIX - 1 - (cut + 1) // readout  # CLOSE and part of the last ones are missing
    (tmp_path / "cut.mrd").write_bytes(stream[: -cut - 2])
    done = run_ok("convert", tmp_path / "cut.mrd", tmp_path / "cut.h5")
    assert f"{whole} readouts" in done.stdout
    assert "into message 1008 (ACQUISITION); everything before is in" in done.stderr
    done = run_ok("replay", tmp_path / "cut.mrd", "-p", server.port, "-o", tmp_path / "images.h5")
    assert "it ends inside a message" in done.stderr
    assert "incomplete" in done.stderr, "the server hears that the scan was not over"
    check(tmp_path / "images.h5", truth[: whole // MATRIX])


def test_what_is_no_stream_is_refused_and_harms_no_output(server, tmp_path, stream):
    output = tmp_path / "output.h5"
    output.write_bytes(b"precious")
    for content in (b"\xff\xfe no stream", b"", wire.config_file("cartesian_plain")):
        (tmp_path / "no.mrd").write_bytes(content)
        assert run_client("replay", tmp_path / "no.mrd", "-p", server.port, "-o", output).returncode == 1
        assert output.read_bytes() == b"precious"
    (tmp_path / "no.mrd").write_bytes(b"\xff\xfe no stream")
    done = run_client("convert", tmp_path / "no.mrd", output)
    assert done.returncode == 2 and "neither an HDF5 file nor a stream" in done.stderr
    assert output.read_bytes() == b"precious"
    # Damage in the middle: messages before it are kept, and the exit code tells.
    (tmp_path / "no.mrd").write_bytes(stream[: -5000 - 2] + b"\xff" * 5000)
    assert run_client("convert", tmp_path / "no.mrd", output).returncode == 1
    assert len(scans.read_acquisitions(output)[1]) > 300


def recon(data, *arguments):
    return subprocess.run([BIN / "echotrain", "recon", "-", *arguments], input=data, capture_output=True, timeout=60)


def test_recon_answers_a_stream_with_a_stream(stream, kspace, truth):
    for data, arguments in ((stream, []), (stream[len(wire.config_file("x")) :], ["-c", "cartesian_plain"])):
        done = recon(data, "--backend", "cpu", *arguments)
        assert done.returncode == 0, done.stderr.decode()
        header = wire.header(scans.cartesian(kspace).xml)
        assert done.stdout.startswith(header)
        reply = wire.parse(done.stdout[len(header) :])  # checks that CLOSE ends it
        assert not reply.texts
        for image, expected in zip(reply.images, truth, strict=True):
            assert reference.nrmse(image.pixels[0, 0], expected) <= 1e-5


def test_the_ismrmrd_package_at_both_ends(kspace, truth):
    ismrmrd = pytest.importorskip("ismrmrd")
    serialization = pytest.importorskip("ismrmrd.serialization", reason="needs ismrmrd >= 1.14.2 from PyPI")
    stream = io.BytesIO()
    with serialization.ProtocolSerializer(stream) as writer:
        writer.serialize(ismrmrd.xsd.CreateFromDocument(scans.cartesian(kspace).xml.encode()))
        for repetition in range(FRAMES):
            for y in range(MATRIX):
                line = ismrmrd.Acquisition.from_array(kspace[repetition, :, y], center_sample=MATRIX // 2)
                line.idx.kspace_encode_step_1, line.idx.repetition = y, repetition
                writer.serialize(line)
    done = recon(stream.getvalue(), "-c", "cartesian_plain", "--backend", "cpu")
    assert done.returncode == 0, done.stderr.decode()
    reply = io.BytesIO(done.stdout)
    items = list(serialization.ProtocolDeserializer(reply).deserialize())
    assert reply.read() == b""
    assert isinstance(items[0], ismrmrd.xsd.ismrmrdHeader)
    images = [item for item in items if isinstance(item, ismrmrd.Image)]
    assert len(images) == len(items) - 1
    for image, expected in zip(images, truth, strict=True):
        assert reference.nrmse(image.data[0, 0], expected) <= 1e-5


def test_debians_phantom_through_pipes(tmp_path, server):
    phantom = tmp_path / "phantom.h5"
    command = ["ismrmrd_generate_cartesian_shepp_logan", "-m", "64", "-c", "4", "-r", "2", "-o", str(phantom)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("needs ismrmrd-tools")
    program = str(BIN / "echotrain")
    chain = f"'{program}' convert '{phantom}' - | '{program}' recon - -c cartesian_plain --backend cpu | '{program}' convert - '{tmp_path}/images.h5'"  # fmt: skip
    subprocess.run(["bash", "-o", "pipefail", "-c", chain], check=True, capture_output=True, timeout=60)
    assert server.send(phantom, "cartesian_plain", tmp_path / "served.h5").returncode == 0
    images, served = (scans.read_images(tmp_path / f"{which}.h5")[1] for which in ("images", "served"))
    assert len(images) == 2
    np.testing.assert_array_equal(images, served)


def test_recon_shows_images_before_the_stream_ends(stream, truth):
    """An image comes out when its last readout is in, not when the pipe is closed."""
    head = len(stream) - 2 - FRAMES * MATRIX * (342 + 8 * COILS * MATRIX)
    frame = MATRIX * (342 + 8 * COILS * MATRIX)
    with subprocess.Popen([BIN / "echotrain", "recon", "-", "--backend", "cpu"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # fmt: skip
        process.stdin.write(stream[: head + frame])
        process.stdin.flush()
        received = b""
        while len(received) < 4 * MATRIX * MATRIX:  # at least the pixels
            chunk = process.stdout.read1(1 << 16)
            assert chunk, "the reply ended"
            received += chunk
        process.stdin.write(stream[head + frame :])
        process.stdin.close()
        received += process.stdout.read()
        assert process.wait(30) == 0
    xml_bytes = int.from_bytes(received[2:6], "little")
    assert len(wire.parse(received[6 + xml_bytes :]).images) == FRAMES


@pytest.mark.parametrize("what", ["no close", "cut", "garbage", "unknown", "no config", "nothing"])
def test_recon_closes_its_reply_whatever_happens(stream, what):
    config = len(wire.config_file("x"))
    data = {"no close": stream[:-2], "cut": stream[:-1000], "garbage": stream[:-1000] + b"\xff" * 1000,
            "unknown": wire.config_file("nosuch") + stream[config:], "no config": stream[config:], "nothing": b""}[what]  # fmt: skip
    done = recon(data, "--backend", "cpu")
    assert done.returncode in (1, 2) and done.stderr
    reply = done.stdout
    if what in ("no close", "cut", "garbage"):
        reply = reply[6 + int.from_bytes(reply[2:6], "little") :]
    images = len(wire.parse(reply).images)
    assert images == {"no close": FRAMES, "cut": FRAMES - 1, "garbage": FRAMES - 1}.get(what, 0)


def test_killed_in_the_middle_of_a_scan(tmp_path, scan, kspace, stream, truth):
    """The capture holds everything received; the server is back in less than 2 s."""
    server = capturing(tmp_path, "--capture-sync-s", "0.05")
    command = [BIN / "echotrain", "send", scan, "-c", "cartesian_plain", "-p", server.port, "-o", tmp_path / "lost.h5",
               "--rate", 150]  # fmt: skip
    client = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    readout = 342 + 8 * COILS * MATRIX
    half = len(stream) - FRAMES * MATRIX * readout // 2
    end = time.monotonic() + 30
    while not captures(tmp_path) or captures(tmp_path)[0].stat().st_size < half:
        assert time.monotonic() < end and client.poll() is None, server.text()
        time.sleep(0.01)
    at_kill = captures(tmp_path)[0].stat().st_size
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(10)
    server.log.close()
    assert client.wait(30) == 1, "the client hears that the server is gone"

    began = time.monotonic()
    (tmp_path / "log" / "server.log").unlink()
    server = capturing(tmp_path)
    assert server.send(scan, "cartesian_plain", tmp_path / "after.h5").returncode == 0
    back_s = time.monotonic() - began
    print(f"killed with {at_kill} bytes captured; serving again, with a whole scan, after {back_s:.3f} s")
    try:
        in_time(back_s, 2)
        check(tmp_path / "after.h5", truth)
        capture = captures(tmp_path)[0]
        data = capture.read_bytes()
        assert len(data) >= at_kill and data == stream[: len(data)]
        head = len(stream) - 2 - FRAMES * MATRIX * readout
        whole = (len(data) - head) // readout
        assert FRAMES * MATRIX // 2 - 2 <= whole < FRAMES * MATRIX
        done = run_ok("convert", capture, tmp_path / "rescued.h5")
        assert f"{whole} readouts" in done.stdout
        _, _, _, lines = scans.read_acquisitions(tmp_path / "rescued.h5")
        np.testing.assert_array_equal(lines, kspace.transpose(0, 2, 1, 3).reshape(-1, COILS, MATRIX)[:whole])
        run_ok("replay", capture, "-p", server.port, "-o", tmp_path / "replayed.h5")
        check(tmp_path / "replayed.h5", truth[: whole // MATRIX])
    finally:
        assert server.stop() == 0
