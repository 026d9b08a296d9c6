"""The tutorials, docs/start.md and docs/secure.md, word for word: the boxes marked `bash` of each page, in one shell that stops at the first
failure. Boxes marked `sh`, or nothing, are what a reader does on other machines or over the network; what they leave
is put in its place here. Ports are free ones in the place of those of the pages."""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import scans
from pictures import brain, panel, read_png, require_picture, tiles
from programs import BIN, SOURCE, free_ports

PAGES = SOURCE / "docs" / "tutorials"
BUILD = BIN.parent
SECONDS = 400  # a page takes 2 to 20 s on a free machine, and a compiler eight times that beside others


def boxes(page):
    return re.findall(r"^```bash\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def free_tens(last_digits, count):
    """Beginnings of port numbers, `count` of them: the ports that `last_digits` make of each are free."""
    found = []
    for begin in random.Random(os.getpid()).sample(range(2000, 3200), 1200):  # below what systems give to clients
        try:
            for digit in last_digits:
                socket.create_server(("127.0.0.1", int(f"{begin}{digit}"))).close()
        except OSError:
            continue
        found.append(str(begin))
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def programs_with_free_ports():
    """Functions of the shell in the place of the programs, which add this test's ports where the page relies on the defaults."""
    port, admin = free_ports(2)
    return f"""
        run_it() {{ if [ $BASHPID = $$ ]; then command "$@"; else exec "$@"; fi; }}  # in the background: the job itself
        echotrain-server() {{
            case " $* " in
            *' --explain '* | *' --check '*) run_it echotrain-server "$@" ;;
            *) run_it echotrain-server "$@" --port {port} --admin-port {admin} ;;
            esac
        }}
        echotrain() {{
            case $1 in
            send) run_it echotrain "$@" -p {port} ;;
            health) run_it echotrain "$@" -p {admin} ;;
            *) run_it echotrain "$@" ;;
            esac
        }}
        """


def run_page(page, folder, ports=None, **environment):
    """Runs the page's boxes in `folder`, with numbers of ports replaced as `ports` says, where the page names them all; returns
    the process's standard output and error, both in one."""
    texts = boxes(page)
    assert texts, f"{page} has no commands"
    script = "set -eu -o pipefail -m\npids=\n" + ("" if ports else programs_with_free_ports()) + "\n".join(texts)
    for written, free in (ports or {}).items():
        script = re.sub(rf"\b{written}(?=\b|\d\b)", free, script)
    variables = {**os.environ, **environment, "PATH": f"{BIN}:{os.environ['PATH']}"}
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=variables, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
    try:
        said = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        said = None
    finally:
        end_all(folder)
    if said is None:
        process.kill()
        said = process.communicate()[0]
        pytest.fail(f"{page.name} did not end within {SECONDS} s:\n{said}\n{logs(folder)}")
    assert process.returncode == 0, f"{page.name}:\n{said}\n{logs(folder)}"
    return said


def logs(folder):
    return "\n".join(f"{each.name}: {each.read_text(errors='replace')}" for each in sorted(folder.glob("*.log")))


def end_all(folder):
    """Ends servers that the page left in this folder."""
    for each in os.listdir("/proc"):
        try:
            if each.isdigit() and os.readlink(f"/proc/{each}/cwd") == str(folder):
                os.kill(int(each), signal.SIGKILL)
        except OSError:
            pass


def images(path):
    return scans.read_images(path)[1]


def shown(path, number=-1):
    """A picture's panel of an image of the phantom."""
    return panel(brain(images(path)[number, 0, 0]))


def require_files(name, *paths):
    """Pictures that a page's commands have written are those that it shows."""
    require_picture(f"steps/{name}", *(read_png(path) / 255 for path in paths))


def nrmses(said):
    return [float(each) for each in re.findall(r"NRMSE[^\d]*([\d.e+-]+)", said)]


def test_every_tutorial_has_a_test_here():
    text = (SOURCE / "tests" / "integration" / "documents" / "test_tutorials.py").read_text()
    pages = [each.name for each in PAGES.glob("*.md") if each.name != "README.md"]
    assert pages and all(f'PAGES / "{name}"' in text for name in pages), pages


def test_start(tmp_path):
    said = run_page(SOURCE / "docs" / "start.md", tmp_path)
    assert "goldenangle" in said and "ready" in said
    assert images(tmp_path / "sent.h5").shape[0] == 2
    assert len(list((tmp_path / "pictures").glob("image_*.png"))) == 2
    require_files("start", tmp_path / "pictures" / "image_001.png")


def test_tls_in_five_commands(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    page = SOURCE / "docs" / "secure.md"
    assert len(boxes(page)) == 1 and len(boxes(page)[0].splitlines()) == 5
    made = ["simulate", "-o", "scan.h5", "--trajectory", "golden_radial", "--matrix", "64", "--coils", "2", "--readouts", "101"]
    subprocess.run([BIN / "echotrain", *made], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    tls, admin = free_ports(2)
    run_page(page, tmp_path, {"9003": str(tls), "9004": str(admin)})
    assert images(tmp_path / "images.h5").shape[0] == 1
    log = (tmp_path / "server.log").read_text()
    assert f"listening with TLS on 127.0.0.1:{tls}" in log and "listening on" not in log, "only TLS"
    assert (tmp_path / "tokens").stat().st_mode & 0o077 == 0
    require_picture("steps/secure", shown(tmp_path / "images.h5"))


def test_radial(tmp_path):
    said = run_page(PAGES / "radial.md", tmp_path)
    assert nrmses(said)[0] < 0.1  # gridding of 201 noisy spokes of 128 voxels: 0.053
    assert "density_compensation: Readouts -> Samples" in said
    assert (tmp_path / "samples.h5").exists()
    assert len(images(tmp_path / "images.h5")) == 3 and len(images(tmp_path / "mine.h5")) == 6
    require_files("radial", tmp_path / "pictures" / "compare.png")
    require_picture("steps/radial_mine", shown(tmp_path / "mine.h5", 0), shown(tmp_path / "images.h5", 0))


def test_cartesian(tmp_path):
    said = run_page(PAGES / "cartesian.md", tmp_path)
    for sentence in ("noise of 8 coils (4096 samples) is kept for scans that name measurement noise_1", "noise scan: noise_1",
                     "acceleration 3 x 1, calibration embedded", "takes its chain for accelerated scans",
                     "readouts are whitened by the noise of another scan, noise_1"):  # fmt: skip
        assert sentence in said, sentence
    # Unfolded: 0.167 and 0.138; with plain `fft` in the place of `grappa` the image has 0.278.
    assert len(nrmses(said)) >= 2 and max(nrmses(said)) < 0.2, nrmses(said)
    require_picture("steps/cartesian", *(shown(tmp_path / f"{name}.h5") for name in ("full_images", "grappa", "sense")))
    require_files("cartesian_g_factor", *(tmp_path / "gfactor" / f"image_00{i}.png" for i in (1, 2)))


def test_realtime(tmp_path):
    said = run_page(PAGES / "realtime.md", tmp_path)
    gridded, solved = nrmses(said)
    assert solved < 0.7 * gridded, "the page says that 21 spokes are too few for gridding"
    assert said.count("until ready to send") == 2
    assert (tmp_path / "pictures" / "image_1.gif").exists()
    assert len(images(tmp_path / "window.h5")) == 74 and len(images(tmp_path / "solved.h5")) == 20
    assert 1 <= len(images(tmp_path / "newest.h5")) <= 20
    require_picture("steps/realtime", panel(tiles(images(tmp_path / "window.h5")[:, 0, 0])))
    require_picture("steps/realtime_solved", *(panel(images(tmp_path / f"{name}.h5")[-1, 0, 0]) for name in ("gridded", "solved")))


def test_python_step(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    interpreter = tmp_path / "venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    said = run_page(PAGES / "python-step.md", tmp_path)
    assert "128 readouts were weighted" in said
    plain, windowed = images(tmp_path / "plain.h5"), images(tmp_path / "windowed.h5")
    assert 0.02 < np.linalg.norm(windowed - plain) / np.linalg.norm(plain) < 0.5
    require_picture("steps/python_step", shown(tmp_path / "windowed.h5"), shown(tmp_path / "plain.h5"))


def test_pytorch_step(tmp_path):
    python = os.environ.get("ECHOTRAIN_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch, h5py"], capture_output=True).returncode != 0:
        pytest.skip("PyTorch is not installed (an interpreter that has it: ECHOTRAIN_TORCH_PYTHON)")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    interpreter = tmp_path / "venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    interpreter.chmod(0o755)
    (tmp_path / "modules").mkdir()  # the package, as pip would install it for steps and for the training
    (tmp_path / "modules" / "echotrain").symlink_to(SOURCE / "clients" / "python" / "echotrain")
    said = run_page(PAGES / "pytorch-step.md", tmp_path)
    noisy, _, denoised = nrmses(said)[:3]
    assert denoised < 0.75 * noisy, said
    if os.environ.get("ECHOTRAIN_PICTURES"):  # training differs between machines, by more than rounding
        require_picture("steps/pytorch_step", *(shown(tmp_path / f"{name}.h5") for name in ("noisy", "denoised")))


def test_t1_map(tmp_path):
    run_page(PAGES / "t1-map.md", tmp_path)
    series = {number: scans.read_images(tmp_path / "maps.h5", f"image_{number}")[1] for number in (1, 7)}
    assert [len(each) for each in series.values()] == [1, 1]
    # Fits of three to seven images; a server that lags behind leaves some out.
    before = scans.series_of(tmp_path / "maps.h5").count("image_13")
    assert not before or 1 <= len(scans.read_images(tmp_path / "maps.h5", "image_13")[1]) <= 5
    t1, deviation = (np.asarray(series[number][0, 0, 0], float) for number in (1, 7))
    truth = np.asarray(scans.read_array(tmp_path / "scan.h5", "truth_t1"), float)  # 0 near the vials' edges
    inside = (truth > 0) & (deviation > 0)
    assert inside.sum() > 0.95 * (truth > 0).sum()
    # Eight complex images and five real parameters leave 11 degrees of freedom: the median of Student's |t| is 0.70.
    assert 0.6 < np.median(np.abs(t1 - truth)[inside] / deviation[inside]) < 0.8
    assert 2 <= len(list((tmp_path / "dicom").glob("*.dcm"))) <= 7
    require_picture("steps/t1_map", panel(t1, 0, 3000), panel(deviation, 0, 150))


def cuda_compiler():
    """That of this build, where it is not on the PATH."""
    found = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(/.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return {"CUDACXX": found[1]} if found else {}


def test_gadget(tmp_path):
    if shutil.which("cmake") is None or shutil.which("c++") is None:
        pytest.skip("CMake and a C++ compiler are needed")
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"{BUILD} is no build folder")
    if "ECHOTRAIN_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
        pytest.skip("a sanitized build is not installed")
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "build").symlink_to(BUILD)
    (clone / "docs").symlink_to(SOURCE / "docs")
    work = tmp_path / "work"
    work.mkdir()
    said = run_page(PAGES / "gadget.md", work, CLONE=str(clone), PREFIX=str(tmp_path / "prefix"), **cuda_compiler())
    assert "factor: number -1000000 .. 1000000" in said
    plain, twice = images(work / "plain.h5"), images(work / "twice.h5")
    assert np.array_equal(twice, 2 * plain) and plain.max() > 0
    kernel = b".nv_fatbin" in (work / "gain" / "build" / "gain.so").read_bytes()
    assert kernel or not cuda_compiler(), "there is a CUDA compiler, and gain.so has no kernel"
    require_picture("steps/gadget", shown(work / "twice.h5"))


def test_haproxy(tmp_path):
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed (./run setup test)")
    # The page makes the second server's ports of the first one's, by their first three digits; those of free ones are replaced.
    free = free_tens(("2", "4", "5"), 2)
    said = run_page(PAGES / "haproxy.md", tmp_path, {"9002": str(free_ports(1)[0]), "901": free[0], "902": free[1]})
    counts = re.findall(r"^(?:one|two)\.log:(\d+)$", said, re.MULTILINE)
    assert counts == ["2", "2"], said  # the first four scans: two for each
    assert re.findall(r"^(\d+)$", said, re.MULTILINE) == ["9"], said  # and five more, none of which was lost
    # The balancer asks each second, so that the first two may have gone to the server that goes.
    assert (tmp_path / "two.log").read_text().count("summary: complete") >= 5
    assert "enters drain state" in (tmp_path / "haproxy.log").read_text()
    for each in [f"images{i}" for i in range(1, 5)] + [f"after{i}" for i in range(1, 6)]:
        assert images(tmp_path / f"{each}.h5").shape[0] == 2
    require_picture("steps/haproxy", shown(tmp_path / "images1.h5"))
