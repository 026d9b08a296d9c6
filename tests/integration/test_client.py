"""The commands of `echotrain`: exit codes (0 done, 1 failed, 2 wrong command line), files and messages."""

import os
import pty
import re
import signal
import socket
import subprocess
import time

import h5py
import ismrmrd
import numpy as np
import pytest

import scans
from pictures import read_png
from programs import BIN, SHIPPED, run_client, simulated_scan, variant
from vitals import in_time

PIPELINES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    return simulated_scan(tmp_path_factory.mktemp("scan") / "scan.h5", "--trajectory", "golden_radial", "--matrix", 32,
                          "--coils", 2, "--readouts", 50, "--frames", 3, "--noise", 1)  # fmt: skip


@pytest.fixture(scope="module")
def images(scan):
    path = scan.parent / "images.h5"
    result = run_client("recon", scan, "-c", "radial_2d", "-o", path, "--backend", "cpu")
    assert result.returncode == 0, result.stderr
    return path


@pytest.mark.parametrize("command", ["", "send", "recon", "simulate", "compare", "export", "info"])
def test_help_has_examples(command):
    result = run_client(*command.split(), "--help")
    assert result.returncode == 0
    assert "Example" in result.stdout


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        ([], 2, "--help"),
        (["sned"], 2, "--help"),
        (["simulate", "--matrix", "32"], 2, "output"),
        (["simulate", "-o", "{tmp}/x.h5", "--trajectory", "rosette"], 2, "golden_radial"),
        (["simulate", "-o", "{tmp}/x.h5", "--phantom", "potato"], 2, "shepp_logan"),
        (["recon", "{tmp}/none.h5", "-c", "radial_2d", "-o", "{tmp}/o.h5"], 1, "none.h5"),
        (["recon", "{scan}", "-c", "radial_2d", "-o", "{scan}"], 2, "lost"),
        (["recon", "{scan}", "-c", "cartesian_plain", "-o", "{tmp}/o.h5"], 1, "radial_2d"),
        (["recon", "{scan}", "-c", "radial_2d", "-o", "{tmp}/o.h5", "--save-after", "gird", "{tmp}/g.h5"], 2, "gird"),
        (["info", "{tmp}/none.h5"], 1, "none.h5"),
        (["export", "{scan}", "--png", "{tmp}/png"], 1, "image"),
        (["compare", "{scan}", "{scan}"], 1, "image"),
        (["send", "{scan}", "-c", "radial_2d", "-o", "{tmp}/o.h5", "-p", "1", "--timeout", "2"], 1, "127.0.0.1"),
    ],
)
def test_mistakes_are_told(scan, tmp_path, arguments, code, message):
    result = run_client(*(a.format(tmp=tmp_path, scan=scan) for a in arguments))
    assert result.returncode == code, result.stdout + result.stderr
    assert message in result.stderr, result.stderr


def test_compare(images, tmp_path):
    same = run_client("compare", images, images, "--max-nrmse", 0)
    assert same.returncode == 0, same.stdout + same.stderr
    assert "NRMSE" in same.stdout and "PSNR" in same.stdout
    _, pixels = scans.read_images(images)
    a, b = (pixels[i].astype(np.float64) for i in (0, 1))
    for fit, scale in (("none", 1.0), ("real", np.vdot(a, b) / np.vdot(a, a))):
        truth = np.linalg.norm(scale * a - b) / np.linalg.norm(b)
        pair = ("compare", images, images, "--index-a", 0, "--index-b", 1, "--scale", fit, "--max-nrmse")
        assert run_client(*pair, truth * 1.001).returncode == 0
        assert run_client(*pair, truth * 0.999).returncode == 1


def test_export(images, tmp_path):
    _, pixels = scans.read_images(images)
    result = run_client("export", images, "--png", tmp_path / "png", "--window", 0, 2)
    assert result.returncode == 0, result.stderr
    pictures = sorted((tmp_path / "png").glob("*.png"))
    assert len(pictures) == len(pixels)
    for picture, image in zip(pictures, pixels):
        expected = np.clip(image[0, 0] / 2, 0, 1) * 255
        assert np.abs(read_png(picture) - expected).max() <= 1


def test_info(scan, images):
    told = run_client("info", scan)
    assert told.returncode == 0, told.stderr
    for fact in ("150", "golden", "32 x 32 x 1", "2 channels"):
        assert fact in told.stdout, told.stdout
    assert re.search(r"image_1\D+3", run_client("info", images).stdout)


def test_send_makes_pictures_and_a_summary(server, scan, tmp_path):
    result = server.send(scan, "radial_2d", tmp_path / "images.h5", "--png", tmp_path / "png", "--truth", "--summary",
                         tmp_path / "summary.txt", "--progress")  # fmt: skip
    assert result.returncode == 0, result.stderr
    pictures = {path.name: read_png(path).shape for path in (tmp_path / "png").iterdir()}
    assert [pictures.pop(f"image_{i:03}.png") for i in (1, 2, 3)] == [(32, 32)] * 3
    assert pictures == {"compare.png": (32, 3 * 32 + 8)}
    summary = (tmp_path / "summary.txt").read_text()
    assert summary in result.stdout
    for word in ("150", "latency", "NRMSE", "backend"):
        assert word in summary, summary


def test_send_takes_another_group(server, tmp_path):
    """The scan and its truth are both in it."""
    scan = tmp_path / "scan.h5"
    simulated_scan(scan, "-g", "second", "--matrix", 16, "--coils", 1)
    result = server.send(scan, "radial_2d", tmp_path / "images.h5", "-g", "second", "--truth")
    assert result.returncode == 0, result.stderr
    assert "NRMSE" in result.stdout


def test_send_tells_where_the_yaml_is_wrong(server, scan, tmp_path):
    """The server, recon and --check use the same words."""
    config = tmp_path / "mine.yaml"
    config.write_text(variant("radial_2d", ("kernel_width", "kernel_widht")))
    token = tmp_path / "token"
    token.write_text("secret\n")
    line, column = next(
        (number, text.index("kernel_widht") + 1)
        for number, text in enumerate(config.read_text().splitlines(), 1)
        if "kernel_widht" in text
    )
    commands = {
        "server": server.send(scan, config, tmp_path / "o.h5"),
        "token": server.send(scan, config, tmp_path / "o.h5", "--token-file", token),
        "recon": run_client("recon", scan, "-c", config, "-o", tmp_path / "o.h5"),
        "check": subprocess.run([BIN / "echotrain-server", "--check", config], capture_output=True, text=True),
    }
    for name, result in commands.items():
        assert result.returncode == 1, name
        assert f" {config}:{line}:{column}: " in " " + result.stderr, f"{name}: {result.stderr}"
        assert "kernel_widht" in result.stderr and "kernel_width'" in result.stderr, f"{name}: {result.stderr}"


def test_check_tells_all_mistakes_at_once(tmp_path):
    """Each with its place; what follows from one is not told as another."""
    config = tmp_path / "mine.yaml"
    config.write_text(
        "echotrain: 1\nname: My Pipeline\ndescription: x\nbakend: cpu\nframe: sometimes\npipeline:\n"
        "  - noise_adjust\n"
        "  - density_compensation: {method: rmap}\n"
        "  - griding: {kernel_width: 5}\n"
        "  - fft: {direction: backwards, oversamplign: 2}\n"
        "  - deapodization\n"
        "  - coil_combine: {method: rss}\n"
        "  - fft: {direction: inverse}\n"
        "  - image: {component: magnitude}\n"
    )
    done = subprocess.run([BIN / "echotrain-server", "--check", config], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    *lines, count = done.stderr.splitlines()
    places = [line.removeprefix(f"{config}:").split(":")[:2] for line in lines]
    assert places == [[*map(str, place)] for place in
                      ((2, 7), (4, 1), (5, 8), (8, 36), (9, 5), (10, 22), (10, 33), (13, 5))], done.stderr  # fmt: skip
    assert count == "8 mistakes"
    assert "did you mean 'gridding'?" in lines[4]


def test_ctrl_c_keeps_the_images_of_recon(tmp_path):
    """Sent when the first image is in its place; the whole takes seconds."""
    long = simulated_scan(tmp_path / "long.h5", "--trajectory", "cartesian", "--matrix", 64, "--coils", 4, "--frames", 200)
    output = tmp_path / "o.h5"
    command = [BIN / "echotrain", "recon", long, "-c", "nlinv_cartesian", "-o", output, "--backend", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(6000):
            if output.exists() or process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    images = int(re.search(r"interrupted; (\d+) images? before that: ", said)[1])
    heads, _ = scans.read_images(output)
    assert len(heads) == images and 1 <= images < 200


def test_progress(scan, images, tmp_path):
    """Off where stderr is no terminal, on as asked for. A line comes at most every two seconds, and the last one always."""
    recon = ("recon", scan, "-c", "radial_2d", "-o", tmp_path / "o.h5")
    assert "readouts" not in run_client(*recon).stderr
    assert "[" + 30 * "#" + "] 150/150 readouts, 3 images\n" in run_client(*recon, "--progress").stderr
    make = ("simulate", "-o", tmp_path / "s.h5", "--matrix", 8, "--progress")
    assert re.fullmatch(r"(\d+ readouts\n)+", run_client(*make).stderr)
    assert run_client(*make, "--no-progress").stderr == ""
    assert "images of image_1\n" in run_client("export", images, "--png", tmp_path / "png", "--progress").stderr


def test_progress_is_shown_on_a_terminal(scan, tmp_path):
    terminal, end = pty.openpty()
    command = [BIN / "echotrain", "recon", scan, "-c", "radial_2d", "-o", tmp_path / "o.h5"]
    done = subprocess.run(command, stderr=end, stdout=subprocess.PIPE)
    os.close(end)
    said = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.returncode == 0 and "150/150 readouts, 3 images\r\n" in said, said


def test_explain_suggests_a_name():
    for wrong, near in (("griding", "gridding"), ("radail_2d", "radial_2d")):
        done = subprocess.run([BIN / "echotrain-server", "--explain", wrong], capture_output=True, text=True)
        assert done.returncode == 1 and f"did you mean '{near}'?" in done.stderr, done.stderr


def test_unknown_pipeline_lists_the_known(server, scan, tmp_path):
    result = server.send(scan, "unheard_of", tmp_path / "o.h5")
    assert result.returncode == 1
    for name in (*PIPELINES, "coils_2d"):
        assert name in result.stderr
    assert "did you mean 'radial_2d'?" in server.send(scan, "radial_3d", tmp_path / "o.h5").stderr


def test_a_file_of_the_other_kind_is_refused(server, scan, images, tmp_path):
    output = tmp_path / "o.h5"
    output.write_bytes(b"earlier")
    for given, name in ((images, "radial_2d"), (scan, "images_denoise")):
        done = run_client("recon", given, "-c", name, "-o", output)
        assert done.returncode == 1 and f"{given.name}: pipeline '{name}'" in done.stderr, done.stderr
        assert output.read_bytes() == b"earlier"
    done = server.send(images, "radial_2d", output)
    assert done.returncode == 1 and done.stderr.count("and no readout") == 1, done.stderr


def test_a_name_that_ends_like_a_file_is_told_so(server, scan, tmp_path):
    done = server.send(scan, "nothere.yaml", tmp_path / "o.h5")
    assert done.returncode == 1 and "nor is there a file 'nothere.yaml'" in done.stderr, done.stderr


def test_no_server_leaves_an_earlier_output_alone(scan, images, tmp_path):
    output = tmp_path / "o.h5"
    output.write_bytes(images.read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # nobody listens on it once this is closed
    result = run_client("send", scan, "-c", "radial_2d", "-p", port, "-o", output)
    assert result.returncode == 1 and f"127.0.0.1:{port}" in result.stderr
    assert output.read_bytes() == images.read_bytes()


def test_wrong_pipeline_is_refused_at_the_header(server, scan, tmp_path):
    result = server.send(scan, "cartesian_plain", tmp_path / "o.h5")
    assert result.returncode == 1
    assert "goldenangle" in result.stderr and "radial_2d" in result.stderr


def test_rate_is_held(server, scan, tmp_path):
    """150 readouts at 200/s take 0.745 s from the first to the last."""
    begin = time.monotonic()
    assert server.send(scan, "radial_2d", tmp_path / "o.h5").returncode == 0
    fast = time.monotonic() - begin
    begin = time.monotonic()
    assert server.send(scan, "radial_2d", tmp_path / "o.h5", "--rate", 200).returncode == 0
    slow = time.monotonic() - begin
    assert slow >= 0.74
    in_time(slow, 0.75 + fast + 1.0)


def test_send_latency(server, tmp_path):
    """The histogram counts every image; the server's parts are in the images and add up to less than the client sees."""
    scan, output = tmp_path / "scan.h5", tmp_path / "images.h5"
    simulated_scan(scan, "--trajectory", "cartesian", "--matrix", 32, "--coils", 2, "--frames", 5, "--noise", 1)
    quiet = server.send(scan, "cartesian_plain", output)
    assert quiet.returncode == 0 and "p90" not in quiet.stdout
    result = server.send(scan, "cartesian_plain", output, "--rate", 400, "--latency")
    assert result.returncode == 0, result.stderr
    assert "latency of 5 images" in result.stdout, result.stdout
    assert sum(int(n) for n in re.findall(r"^ +\S+ - \S+ +ms +(\d+)", result.stdout, re.M)) == 5, result.stdout
    quantiles = re.search(r"p50 (\S+) ms, p90 (\S+) ms, p99 (\S+) ms, max (\S+) ms", result.stdout).groups()
    client = [float(ms) for ms in quantiles]
    assert 0 < client[0] <= client[1] <= client[2] <= client[3]
    line = r"^  (queue|compute|copy|until ready to send) +([\d.]+) +[\d.]+ +[\d.]+ +[\d.]+$"
    parts = {name: float(p50) for name, p50 in re.findall(line, result.stdout, re.M)}
    assert {"queue", "compute", "copy", "until ready to send"} == set(parts), result.stdout
    assert 0 < parts["until ready to send"] <= client[0], result.stdout
    with h5py.File(output) as file:
        for text in file["dataset/image_1/attributes"][:]:
            meta = ismrmrd.Meta.deserialize(text)
            parts = [float(meta[f"echotrain_{part}_ms"]) for part in ("queue", "compute", "copy")]
            assert min(parts) >= 0 and float(meta["echotrain_latency_ms"]) == pytest.approx(sum(parts), abs=0.003)
