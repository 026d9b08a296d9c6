"""Impulse responses as an asset: read in both forms, written as one image, and what is refused."""

import h5py
import numpy as np
import pytest

import echotrain
from echotrain.__main__ import main
from echotrain.commands.girf import read_girf, write_girf
from echotrain.hdf5 import read_images

FREQUENCIES = np.linspace(-20, 20, 41)
RESPONSES = [np.exp(-2j * np.pi * FREQUENCIES * delay) * (1 - 1e-3 * FREQUENCIES**2) for delay in (2e-3, 4e-3, 5e-3)]


@pytest.fixture
def measured(tmp_path):
    with h5py.File(tmp_path / "measured.h5", "w") as file:
        file["frequency_khz"] = FREQUENCIES
        for name, values in zip("xyz", RESPONSES):
            file[f"girf_{name}"] = values
    return tmp_path / "measured.h5"


def test_both_forms_become_one_image(measured, tmp_path):
    text = tmp_path / "measured.txt"
    columns = [FREQUENCIES] + [part for values in RESPONSES for part in (values.real, values.imag)]
    np.savetxt(text, np.stack(columns, 1), header="kHz, then X, Y, Z")
    for source in (measured, text):
        assert main(["girf", str(source), "-o", str(tmp_path / "girf.h5")]) == 0
        (image,) = read_images(tmp_path / "girf.h5")
        assert image.data.shape == (4, 1, 1, 41) and image.meta["role"] == "girf"
        np.testing.assert_allclose(image.data[:, 0, 0], [FREQUENCIES, *RESPONSES], rtol=1e-12)
    assert main(["girf", str(measured), "-o", str(tmp_path / "girf.h5"), "--highest-khz", "10"]) == 0
    (image,) = read_images(tmp_path / "girf.h5")
    assert image.data.shape[-1] == 21 and abs(image.data[0, 0, 0, 0] + 10) < 1e-12


def test_what_does_not_fit_is_named(measured, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("0 1 0\n1 1 0\n")
    with pytest.raises(echotrain.EchotrainError, match="7 are expected"):
        read_girf(tmp_path / "short.txt")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["girf_x"] = RESPONSES[0]
    with pytest.raises(echotrain.EchotrainError, match="no array frequency_khz, girf_y, girf_z"):
        read_girf(tmp_path / "other.h5")
    table = read_girf(measured)
    table["frequency_khz"] = table["frequency_khz"][::-1]
    with pytest.raises(echotrain.EchotrainError, match="no two frequencies"):
        write_girf(tmp_path / "out.h5", table, 0.1)
    assert main(["girf", str(tmp_path / "none.h5"), "-o", str(tmp_path / "out.h5")]) == 1
    assert "none.h5" in capsys.readouterr().err
