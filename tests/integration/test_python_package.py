"""The Python package as a user gets it: installed by pip into a fresh environment, and its documentation's examples."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pictures import read_png
from programs import SOURCE
from python_client import PACKAGE, environment, simulate

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path, language):
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with the scan that the examples speak of."""
    folder = tmp_path_factory.mktemp("examples")
    simulate(folder / "scan.h5", "golden_radial", "--matrix", 64, "--coils", 4, "--frames", 2, "--readouts", 100)
    spokes = np.exp(1j * np.arange(96))[:, None] * (np.arange(128) - 64) / 128
    np.save(folder / "k.npy", spokes)
    np.save(folder / "kspace.npy", np.ones((4, 96, 128), complex))
    return folder


def run(python, arguments, folder, **options):
    return subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True, timeout=200, **options)


def test_every_example_of_the_documentation_runs(server, folder):
    """Examples run in order, in one process: later ones use the results of earlier ones."""
    code = "\n".join(blocks(SOURCE / "docs" / "python.md", "python")).replace("9002", str(server.port))
    assert code.count("import echotrain") == 1 and code.count("\n") > 60
    checks = """
assert sorted(n for n in os.listdir() if n.startswith("frame_")) == ["frame_1.png", "frame_2.png"]
assert os.path.getsize("scan.nii.gz") > 1000 and array.shape == cube[:, 0].shape == (2, 1, 1, 64, 64)
assert careful("no-such-host.invalid") is None
"""
    # Where an example names no port, the server's port replaces 9002.
    before = f"""import os, echotrain as e
plain = e.reconstruct
e.reconstruct = lambda *a, **k: plain(*a, **(k if "local" in k else {{"port": {server.port}, **k}}))
"""
    done = run(sys.executable, ["-c", before + code + checks], folder, env=environment())
    assert done.returncode == 0, done.stderr
    assert "<Image 1/1: magnitude float32, 128 x 96>" in done.stdout


def test_every_command_of_the_documentation_runs(server, folder):
    (text,) = blocks(SOURCE / "docs" / "python.md", "sh")
    commands = [shlex.split(line, comments=True) for line in text.splitlines() if line]
    assert len(commands) == 5
    for command in commands:
        assert command[:3] == ["python", "-m", "echotrain"]
        where = [] if command[3] == "convert" else ["--host", server.host, "--port", str(server.port)]
        arguments = [*command[1:], *where]
        if command[3] == "view":
            try:
                import matplotlib  # noqa: F401
            except ImportError:
                continue
            arguments += ["--snapshot", "view.png"]
        done = run(sys.executable, arguments, folder, env={**environment(), "MPLBACKEND": "Agg"})
        assert done.returncode == 0, done.stderr
    assert (folder / "images.h5").stat().st_size > 10000 and len(list((folder / "pictures").iterdir())) == 1


def test_the_first_example_of_the_readme_shows_the_object(server, tmp_path):
    """Spokes of a Gaussian off the centre, whose transform is known: the picture has its grey levels, voxel by voxel."""
    code = next(text for text in blocks(SOURCE / "README.md", "python") if "import echotrain" in text)
    code = code.replace('"host"', '"localhost"').replace("9002", str(server.port))
    before = """
import numpy as np
angles, along = np.pi * np.arange(201) / 201, (np.arange(256) - 128) / 256
trajectory = np.stack([np.outer(np.cos(angles), along), np.outer(np.sin(angles), along)], axis=2)
x, y, sigma = 20, -9, 6
values = 2 * np.pi * sigma**2 * np.exp(-2 * np.pi**2 * sigma**2 * (trajectory**2).sum(axis=2))
values = values * np.exp(-2j * np.pi * (trajectory @ [x, y]))
kspace = np.stack([0.6 * values, -0.8j * values])
"""
    done = run(sys.executable, ["-c", before + code], tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.glob("frame_*.png")
    seen = read_png(picture).astype(float)
    rows, columns = np.mgrid[:128, :128] - 64
    truth = np.exp(-((columns - 20) ** 2 + (rows + 9) ** 2) / (2 * 6**2))  # 0.6^2 + 0.8^2 = 1
    white = np.percentile(truth, 99.5)  # the default of Image.picture()
    # Half a level of rounding; gridding to a few 1e-4; weights that differ from the polar integral between spokes.
    assert np.abs(seen - 255 * np.clip(truth / white, 0, 1)).max() < 1.2


def test_the_notebook_runs(tmp_path):
    """Its cells, one after the other, as Jupyter runs them; each picture is asked for, as Jupyter does."""
    pytest.importorskip("matplotlib")
    text = (SOURCE / "docs" / "tutorials" / "radial_in_five_minutes.py").read_text()
    cells = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)[1:]
    code = [body for kind, body in zip(cells[::2], cells[1::2]) if "markdown" not in kind]
    assert len(code) == 9 and text.startswith("# ---\n# jupyter:")
    checks = """
# The ramp's sum differs from its integral at k = 0 by a part of the squared step: 2e-2 at half the samples, a quarter here.
assert error < 1e-2, error
assert image._repr_png_()[:4] == streaked._repr_png_()[:4] == b"\\x89PNG"
assert [frame.repetition for frame in frames] == [0, 1, 2] and frames[2].voxel_size[0] == 2
"""
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(code) + checks)
    done = run(sys.executable, ["-W", "always", script], tmp_path, env={**environment(), "MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert "a field of view of 0.256 mm: was it in metres?" in done.stderr
    assert "trajectory_unit='cycles_per_fov' makes it 0.5" in done.stderr
    assert "603/603 readouts, 3 images" in done.stdout and (tmp_path / "radial.nii.gz").stat().st_size > 1000


def test_pip_installs_it_into_a_fresh_environment(server, folder, tmp_path):
    """pip installs what the package needs, numpy and h5py, from the network."""
    made = run(sys.executable, ["-m", "venv", "fresh"], tmp_path)
    if made.returncode != 0:
        pytest.skip(f"no virtual environment can be made here: {made.stderr.strip()[-200:]}")
    python = tmp_path / "fresh" / "bin" / "python"
    source = shutil.copytree(
        PACKAGE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", str(source)]
    done = run(python, pip, tmp_path, env=plain)
    if done.returncode != 0:
        # Without a network nothing can be installed; a fault of the package itself shows without a network, too.
        signs = ("No matching distribution", "Could not find a version", "ConnectionError", "NewConnectionError",
                 "Temporary failure", "Name or service", "timed out")  # fmt: skip
        if not any(sign in done.stderr for sign in signs):
            pytest.fail(done.stderr)
        pytest.skip("pip cannot fetch numpy, h5py and setuptools (no network?)")
    code = f"""
import pathlib, sys
import echotrain
assert "fresh" in echotrain.__file__, echotrain.__file__
assert (pathlib.Path(echotrain.__file__).parent / "py.typed").exists()
with echotrain.Client("127.0.0.1", {server.port}) as c:
    for image in c.reconstruct("scan.h5", pipeline="radial_2d"):
        print(image)
images = echotrain.reconstruct("scan.h5", pipeline="radial_2d", port={server.port}, progress=True)
assert len(images) == 2
images[0].save_png("installed.png")
images[0].save_nifti("installed.nii")
"""
    done = run(python, ["-c", code], folder, env=plain)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<Image") == 2 and "200/200 readouts, 2 images" in done.stderr
    assert run(python, ["-m", "echotrain", "--version"], folder, env=plain).stdout.startswith("echotrain ")
    listed = run(python, ["-m", "pip", "list", "--format", "freeze"], folder, env=plain).stdout.lower()
    assert {line.partition("==")[0] for line in listed.split()} <= {
        "echotrain",
        "numpy",
        "h5py",
        "pip",
        "setuptools",
    }, listed
