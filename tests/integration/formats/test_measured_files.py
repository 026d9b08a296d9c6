"""Each file of the measured data that holds a scan: `info` reads it, and one command makes the image."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import scans
import sequences
from programs import BIN, DATA, SOURCE, measured, run_client
from python_client import echotrain, environment

# File -> pipeline, number of images.
EPI = {f"epi_pulseq_pe_polarity/{scan}_{way}.h5": ("epi_2d", 1) for scan in ("ro1200", "ro240", "ramp96")
       for way in ("forward", "reversed")}  # fmt: skip
SCANS = {
    "twix/gre.dat": ("cartesian_2d", 1),
    "twix/epi.dat": ("epi_2d", 1),
    "twix/se_pulseq.dat": ("cartesian_2d", 1),
    "cartesian_gre_phantom2/gre2.h5": ("cartesian_2d", 1),
    "cartesian_se_phantom32/se32.h5": ("cartesian_2d", 1),
    "cartesian_flash_phantom/headcoil16.h5": ("cartesian_2d", 1),
    "cartesian_flash_phantom/bodycoil2.h5": ("cartesian_2d", 1),
    "mchiew/brain16.h5": ("cartesian_2d", 1),
    "marcsous_parallel/half_echoes.h5": ("cartesian_2d", 2),
    "grappa_trufi_siemens/scan.h5": ("cartesian_grappa", 1),
    "grappa_trufi_siemens/trufi.h5": ("cartesian_grappa", 1),
    "radial_rt_scgrog/perfusion3.h5": ("radial_2d", 7),
    "sms_radial16/kMB1_top_SP29.h5": ("radial_2d", 1),
    "sms_radial16/kMB1_top_SP69.h5": ("radial_2d", 1),
    "spiral_phantom8/spiral_phantom8.h5": ("spiral_2d", 1),
    "spiral_b0_octopus/spiral20.h5": ("spiral_2d", 1),
    **EPI,
}
# Arrays, which Python makes scans of.
ARRAYS = {
    "espirit_examples/und2x2.cfl": ("cartesian_grappa", 1),
    "cartesian_brain_poisson8/cartesian_ksp.npy": ("cartesian_compressed_sensing", 1),
}
# No image: noise, navigators; two slices at once, which take half a minute (cg_sense_sms, nlinv_sms).
ONLY_INFO = [
    "grappa_trufi_siemens/noise.h5",
    *(f"epi_pulseq_pe_polarity/{scan}_navigator.h5" for scan in ("ro1200", "ro240", "ramp96")),
    *(f"sms_radial16/kMB2_{turn}_SP29.h5" for turn in ("aligned", "turn")),
]


def run_ok(*arguments):
    done = run_client(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def run_in(folder, *command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(), cwd=folder)


def require_images(scan, pipeline, count, tmp_path):
    run_ok("recon", scan, "-c", pipeline, "-o", tmp_path / "images.h5")
    pixels = scans.read_images(tmp_path / "images.h5")[1][:, 0]
    assert len(pixels) == count
    for plane in np.abs(pixels).squeeze(axis=tuple(axis for axis in (1, 2, 3) if pixels.shape[axis] == 1)):
        assert plane.ndim == 2 and np.isfinite(plane).all()
        # Neighbours are independent in noise, and alike in an object.
        assert np.corrcoef(plane[:, 1:].ravel(), plane[:, :-1].ravel())[0, 1] > 0.7


@pytest.mark.parametrize("name", SCANS)
def test_one_command_makes_the_image(name, tmp_path):
    path, (pipeline, count) = measured(name), SCANS[name]
    told = run_ok("info", path).stdout
    assert re.search(r"    imaging: \d+", told) and "    other: " not in told, told
    require_images(path, pipeline, count, tmp_path)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_become_scans(name, tmp_path):
    path, (pipeline, count) = measured(name), ARRAYS[name]
    refused = run_client("info", path)
    assert refused.returncode == 1 and "python -m echotrain convert" in refused.stderr
    done = run_in(tmp_path, sys.executable, "-m", "echotrain", "convert", path, "scan.h5")
    assert done.returncode == 0, done.stderr
    require_images(tmp_path / "scan.h5", pipeline, count, tmp_path)


@pytest.mark.parametrize("name", ONLY_INFO)
def test_files_without_an_image_are_told(name):
    assert re.search(r"  readouts: \d+", run_ok("info", measured(name)).stdout)


def test_no_scan_is_left_out():
    """A scan that is new in the folder is one of the above."""
    if not DATA.exists():
        pytest.skip(f"measured data not found: {DATA} (set ECHOTRAIN_DATA)")
    found = {path.relative_to(DATA).as_posix() for path in [*DATA.rglob("*.h5"), *DATA.rglob("*.dat")]}
    without = {name for name in found - {*SCANS, *ONLY_INFO} if "ISMRMRD data" in run_ok("info", DATA / name).stdout}
    assert found - without == {*SCANS, *ONLY_INFO}


def boxes(language):
    page = (SOURCE / "docs" / "scanner_files.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_commands_of_the_page(server, tmp_path):
    """In order, with a measured file and sequences of the page's names."""
    pytest.importorskip("pypulseq", reason="needs pypulseq (pip install pypulseq)")
    (tmp_path / "meas.dat").symlink_to(measured("twix/se_pulseq.dat"))
    (tmp_path / "epi.seq").symlink_to(measured("twix/se_pulseq.seq"))  # the one that was measured
    seq = sequences.radial()
    seq.write(str(tmp_path / "radial.seq"))
    k = seq.calculate_kspace()[0][:2] * sequences.FOV
    np.save(tmp_path / "kspace.npy", sequences.signal(*k).reshape(1, -1, 2 * sequences.N))
    echotrain.write_scan(tmp_path / "raw.h5", echotrain.from_array(np.load(tmp_path / "kspace.npy")))  # spokes as mere lines
    commands = [shlex.split(line, comments=True) for box in boxes("") for line in box.splitlines()]
    assert len(commands) == 6
    for program, command, *arguments in commands:
        assert program == "echotrain"
        where = ["--address", server.host, "--port", str(server.port)] if command == "send" else []
        done = run_in(tmp_path, BIN / program, command, *arguments, *where)
        assert done.returncode == 0, (command, done.stderr)
    (code,) = boxes("python")
    code = "import numpy as np\nkspace = np.load('kspace.npy')\n" + code.replace("9002", str(server.port))
    code += "assert len(images) == 1 and images[0].data.shape == (1, 1, 64, 64)"
    done = run_in(tmp_path, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
