"""Arrays of other programs become scans that the shipped pipelines reconstruct, beside what BART makes of them."""

import shutil
import subprocess

import numpy as np
import pytest

import reference
import scans
from programs import run_client
from python_client import echotrain

from echotrain.__main__ import main

N, COILS = 64, 8


def bart(folder, *arguments):
    if shutil.which("bart") is None:
        pytest.skip("needs bart (apt install bart)")
    done = subprocess.run(["bart", *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def reconstructed(folder, source, pipeline, *options):
    """`python -m echotrain convert`, then `echotrain recon`: pixels [image, channel, z, y, x]."""
    assert main(["convert", str(source), str(folder / "scan.h5"), *options]) == 0
    done = run_client("recon", folder / "scan.h5", "-c", pipeline, "-o", folder / "images.h5")
    assert done.returncode == 0, done.stderr
    return scans.read_images(folder / "images.h5")[1], done


def error_of(image, truth):
    image, truth = np.abs(image), np.abs(truth)
    return reference.nrmse(image * reference.real_scale(image, truth), truth)


def phantom(folder, *options):
    bart(folder, "phantom", "-k", f"-s{COILS}", f"-x{N}", *options, "kspace")


def picture(folder, axes=3):
    """BART's own: [z, y, x] or [y, x]."""
    bart(folder, "fft", "-i", axes, "kspace", "coils")
    bart(folder, "rss", 8, "coils", "image")
    return np.abs(echotrain.read_cfl(folder / "image")).T


@pytest.mark.parametrize("form", ["cfl", "npy", "mat", "nii"])
def test_lines_of_barts_phantom(form, tmp_path):
    phantom(tmp_path)
    kspace = np.array(echotrain.read_cfl(tmp_path / "kspace"))  # x, y, z, coil
    options = [] if form == "cfl" else ["--axes", "sample line partition coil"]
    path = tmp_path / f"kspace.{form}"
    if form == "npy":
        np.save(path, kspace)
    elif form == "mat":
        pytest.importorskip("scipy.io").savemat(path, {"kspace": kspace})
    elif form == "nii":
        nibabel = pytest.importorskip("nibabel")
        nibabel.save(nibabel.Nifti1Image(kspace, np.eye(4)), path)
    pixels, _ = reconstructed(tmp_path, path, "cartesian_plain", *options)
    assert error_of(pixels[0, 0, 0], picture(tmp_path)) <= 1e-5  # float32 transforms


def test_a_volume_and_repetitions(tmp_path):
    phantom(tmp_path, "-3", "-x24")
    pixels, _ = reconstructed(tmp_path, tmp_path / "kspace.cfl", "cartesian_plain")
    assert pixels.shape == (1, 1, 24, 24, 24)
    assert error_of(pixels[0, 0], picture(tmp_path, axes=7)) <= 1e-5
    volume = np.array(echotrain.read_cfl(tmp_path / "kspace"))
    np.save(tmp_path / "frames.npy", volume.transpose(2, 3, 1, 0))  # its partitions as frames
    frames, _ = reconstructed(tmp_path, tmp_path / "frames.npy", "cartesian_plain")
    bart(tmp_path, "fft", "-i", 3, "kspace", "coils")
    bart(tmp_path, "rss", 8, "coils", "image")
    assert frames.shape == (24, 1, 1, 24, 24)
    assert error_of(frames[:, 0, 0], np.array(echotrain.read_cfl(tmp_path / "image")).T) <= 1e-5


def test_lines_of_zeros_are_left_to_grappa(tmp_path):
    phantom(tmp_path)
    kspace, full = np.array(echotrain.read_cfl(tmp_path / "kspace")), picture(tmp_path)
    whole, _ = reconstructed(tmp_path, tmp_path / "kspace.cfl", "cartesian_2d")
    kept = np.zeros(N, bool)
    kept[::2] = kept[20:44] = True
    kspace[:, ~kept] = 0
    echotrain.write_cfl(tmp_path / "kspace", kspace)
    folded = error_of(picture(tmp_path), full)
    pixels, done = reconstructed(tmp_path, tmp_path / "kspace.cfl", "cartesian_2d")
    assert f"{kept.sum()} readouts" in done.stdout
    assert error_of(pixels[0, 0, 0], whole[0, 0, 0]) < folded / 4, folded


def test_spokes_of_barts_phantom(tmp_path):
    bart(tmp_path, "traj", "-r", "-x", 2 * N, "-y", 101, "k2")
    bart(tmp_path, "scale", 0.5, "k2", "k")
    bart(tmp_path, "phantom", "-k", f"-s{COILS}", "-t", "k", "kspace")
    bart(tmp_path, "nufft", "-i", "-d", f"{N}:{N}:1", "k", "kspace", "coils")
    bart(tmp_path, "rss", 8, "coils", "image")
    truth = np.abs(echotrain.read_cfl(tmp_path / "image")).T
    pixels, _ = reconstructed(tmp_path, tmp_path / "kspace.cfl", "fhd_pcg_2d", "--trajectory", str(tmp_path / "k.cfl"),
                              "--matrix", str(N), "--fov", "200")  # fmt: skip
    # Both solve the same least squares, BART with a small l2 and few steps.
    assert error_of(pixels[0, 0, 0], truth) <= 0.05
