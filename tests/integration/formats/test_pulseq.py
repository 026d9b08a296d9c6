"""Pulseq sequences beside readouts that know nothing: places and labels are those of pypulseq, images those of the phantom."""

import importlib
import re
import sys

import h5py
import numpy as np
import pytest

import reference
import scans
import sequences
import wire
from programs import measured, run_client
from python_client import echotrain

importlib.import_module("echotrain.pulseq")
pypulseq = pytest.importorskip("pypulseq", reason="needs pypulseq (pip install pypulseq)")
pytestmark = pytest.mark.filterwarnings("ignore")  # it warns of older files

# Label -> counter of a readout's head.
COUNTERS = dict(LIN="kspace_encode_step_1", PAR="kspace_encode_step_2", SLC="slice", REP="repetition", SET="set",
                ECO="contrast", AVG="average", PHS="phase", SEG="segment")  # fmt: skip
REVERSED, PHASE_CORRECTION = 22, 24


def run_ok(*arguments):
    done = run_client(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def read_back(path):
    """(k-space [3, sample] in cycles/m, labels) as pypulseq reads a file."""
    seq = pypulseq.Sequence(sequences.Maker().system)
    seq.read(str(path), detect_rf_use=True)
    return seq.calculate_kspace()[0], seq.evaluate_labels(evolution="adc")


def raw_scan(path, samples, counts, xml=None):
    """A scan of one coil as a scanner sends it that has played the sequence: no counters, no trajectory."""
    messages = [wire.acquisition(part[None], counter=i) for i, part in enumerate(np.split(samples, np.cumsum(counts)[:-1]))]
    scans.Scan(xml or scans.header_xml("cartesian", (64, 64, 1)), messages).save(path)
    if xml == "":
        with h5py.File(path, "a") as file:
            del file["dataset"]["xml"]
    return path


class Played:
    """A sequence's files of both versions, its k-space, and the scan of the phantom that it gives."""

    def __init__(self, name, folder):
        seq = sequences.MAKERS[name]()
        self.files = {"1.5": folder / f"{name}.seq", "1.4": folder / f"{name}_14.seq"}
        seq.write(str(self.files["1.5"]))
        seq.write(str(self.files["1.4"]), v141_compat=True)
        blocks = [seq.get_block(i) for i in seq.block_events]
        self.counts = [int(block.adc.num_samples) for block in blocks if block.adc is not None]
        self.k, self.labels = read_back(self.files["1.5"])
        samples = sequences.signal(*(self.k[:2] * sequences.FOV))
        self.scan = raw_scan(folder / f"{name}.h5", samples, self.counts)


_played = {}


@pytest.fixture
def played(tmp_path_factory):
    def play(name):
        if name not in _played:
            _played[name] = Played(name, tmp_path_factory.mktemp(name))
        return _played[name]

    return play


def numbers(xml, *path):
    for element in path:
        xml = re.search(rf"<{element}>(.*?)</{element}>", xml, re.S)[1]
    return np.array([float(re.search(rf"<{axis}>(.*?)<", xml)[1]) for axis in "xyz"])


@pytest.mark.parametrize("version", ["1.5", "1.4"])
@pytest.mark.parametrize("name", ["radial", "epi", "epi_flat", "spiral", "stack"])
def test_places_are_those_of_pypulseq(played, name, version, tmp_path):
    scan = played(name)
    run_ok("convert", "--seq", scan.files[version], scan.scan, tmp_path / "out.h5")
    xml, heads, trajectories, data = scans.read_acquisitions(tmp_path / "out.h5")
    assert set(heads["trajectory_dimensions"]) == {2}
    matrix, fov = (numbers(xml, "encodedSpace", of) for of in ("matrixSize", "fieldOfView_mm"))
    ours = np.concatenate(trajectories).T * (matrix / fov * 1000)[:2, None]
    k, _ = read_back(scan.files[version])
    # float32 places, and times that pypulseq rounds to 1e-10 s: 1e-6 of what k-space reaches.
    assert np.abs(ours - k[:2]).max() <= 1e-6 * np.abs(k).max()
    before = scans.read_acquisitions(scan.scan)[3]
    assert all(np.array_equal(a, b) for a, b in zip(data, before))


@pytest.mark.parametrize("about", ["z", "any axis"])
def test_rotations_of_blocks(played, about, tmp_path):
    """The extension ROTATIONS, which pypulseq 1.5.0 does not write: each spoke's three blocks turn. About z they are
    those that pypulseq turns itself; about any axis, scipy turns pypulseq's places."""
    from scipy.spatial.transform import Rotation

    spokes = 101
    seq = sequences.spokes_along_x(spokes)
    seq.write(str(tmp_path / "along_x.seq"))
    k = read_back(tmp_path / "along_x.seq")[0].reshape(3, spokes, -1)
    turns = Rotation.random(spokes, random_state=3)
    if about == "z":
        turns = Rotation.from_rotvec(np.outer(np.pi * np.arange(spokes) / spokes, (0, 0, 1)))
    text = (tmp_path / "along_x.seq").read_text()
    blocks = re.search(r"\[BLOCKS\]\n(.*?)\n\n", text, re.S)[1]
    turned = [re.sub(r"\d+$", str(n // 3 + 1), line.rstrip()) for n, line in enumerate(blocks.split("\n"))]
    assert len(turned) == 3 * spokes
    quaternions = np.roll(turns.as_quat(), 1, axis=1)  # the real part first
    text = text.replace(blocks, "\n".join(turned))
    text += "\n[EXTENSIONS]\n" + "".join(f"{n} 3 {n} 0\n" for n in range(1, spokes + 1)) + "\nextension ROTATIONS 3\n"
    text += "".join(f"{n} {' '.join(f'{q:.9g}' for q in each)}\n" for n, each in enumerate(quaternions, start=1))
    (tmp_path / "turned.seq").write_text(text)
    scan = raw_scan(tmp_path / "scan.h5", np.ones(spokes * k.shape[2], complex), [k.shape[2]] * spokes)
    run_ok("convert", "--seq", tmp_path / "turned.seq", scan, tmp_path / "out.h5")
    xml, heads, trajectories, _ = scans.read_acquisitions(tmp_path / "out.h5")
    assert "<trajectory>radial<" in xml and set(heads["trajectory_dimensions"]) == {2 if about == "z" else 3}
    matrix, fov = (numbers(xml, "encodedSpace", of) for of in ("matrixSize", "fieldOfView_mm"))
    ours = np.stack(trajectories) * (matrix / fov * 1000)[: heads["trajectory_dimensions"][0]]
    truth = np.einsum("nij,jns->nsi", turns.as_matrix(), k)[..., : ours.shape[-1]]
    assert np.abs(ours - truth).max() <= 1e-6 * np.abs(k).max()  # float32
    if about == "z":  # amplitudes in a file of pypulseq have six digits
        explicit = played("radial").k[:2].T.reshape(ours.shape)
        assert np.abs(ours - explicit).max() <= 1e-5 * np.abs(k).max()


@pytest.mark.parametrize("version", ["1.5", "1.4"])
@pytest.mark.parametrize("name", ["cartesian", "radial", "epi", "stack"])
def test_labels_are_those_of_pypulseq(played, name, version, tmp_path):
    scan = played(name)
    run_ok("convert", "--seq", scan.files[version], scan.scan, tmp_path / "out.h5")
    _, heads, _, _ = scans.read_acquisitions(tmp_path / "out.h5")
    _, labels = read_back(scan.files[version])
    for label, counter in COUNTERS.items():
        wanted = labels.get(label, np.zeros(len(heads), int))
        assert np.array_equal(heads["idx"][counter], wanted), label
    for label, flag in (("REV", REVERSED), ("NAV", PHASE_CORRECTION)):
        wanted = labels.get(label, np.zeros(len(heads), int))
        assert np.array_equal(heads["flags"].astype(np.int64) >> (flag - 1) & 1, wanted), label


@pytest.mark.parametrize("version", ["1.5", "1.4"])
def test_lines_of_a_spin_echo_follow_from_its_places(played, version, tmp_path):
    scan = played("spin_echo")
    done = run_ok("convert", "--seq", scan.files[version], scan.scan, tmp_path / "out.h5")
    assert "counted by their place" in done.stderr
    xml, heads, _, _ = scans.read_acquisitions(tmp_path / "out.h5")
    middle = read_back(scan.files[version])[0].reshape(3, -1, 2 * sequences.N)[1, :, 0]
    assert np.array_equal(heads["idx"]["kspace_encode_step_1"], np.round(middle * sequences.FOV) + sequences.N // 2)
    assert list(numbers(xml, "encodedSpace", "matrixSize")) == [128, 64, 1]
    assert list(numbers(xml, "reconSpace", "matrixSize")) == [64, 64, 1]
    assert list(numbers(xml, "reconSpace", "fieldOfView_mm")) == [256, 256, 5]


def grid(n, step=1.0, reach=None):
    """The phantom's k-space on lines of n samples, which lie on both sides of k = 0."""
    x, y = (np.arange(n) - n / 2 + 0.5) * step, np.arange(sequences.N) - sequences.N // 2
    values = sequences.signal(x[None, :], y[:, None])
    return values if reach is None else np.where(np.hypot(x[None, :], y[:, None]) <= reach, values, 0)


def error_of(image, truth):
    image = np.abs(image)
    return reference.nrmse(image * reference.real_scale(image, truth), truth)


# Sequences round amplitudes to six digits, which moves samples by up to 2e-4 of a step: 1e-3 of the phantom.
@pytest.mark.parametrize("name", ["cartesian", "spin_echo"])
def test_one_command_makes_the_image_of_lines(played, name, tmp_path):
    scan = played(name)
    run_ok("recon", "--seq", scan.files["1.5"], scan.scan, "-c", "cartesian_plain", "-o", tmp_path / "images.h5")
    _, pixels = scans.read_images(tmp_path / "images.h5")
    truth = np.abs(reference.centred_fft(grid(128, step=0.5)[None], 64)[0])
    assert error_of(pixels[0, 0, 0], truth) <= 1e-3


# Regular lines begin half a step before the first sample, which no sample tells: 5e-3 and 8e-3. Lines that are not turned
# round make ghosts of more than 0.1.
@pytest.mark.parametrize("name, columns", [("epi_flat", 64), ("epi", 80)])
def test_one_command_makes_the_image_of_epi(played, name, columns, tmp_path):
    scan = played(name)
    run_ok("recon", "--seq", scan.files["1.5"], scan.scan, "-c", "epi_2d", "-o", tmp_path / "images.h5")
    _, pixels = scans.read_images(tmp_path / "images.h5")
    assert pixels.shape == (1, 1, 1, 64, columns)
    assert error_of(pixels[0, 0, 0], np.abs(reference.picture(grid(columns)))) <= 1e-2


# Against the picture of the disc that spokes and arms fill: what gridding by the analytic density, and by the solution
# of least squares, leave of the phantom's edges.
@pytest.mark.parametrize("name, pipeline", [("radial", "radial_2d"), ("spiral", "fhd_pcg_2d")])
def test_one_command_makes_the_image_of_spokes_and_arms(played, name, pipeline, server, tmp_path):
    scan = played(name)
    truth = np.abs(reference.picture(grid(64, reach=32)))
    done = run_ok("recon", "--seq", scan.files["1.5"], scan.scan, "-c", pipeline, "-o", tmp_path / "images.h5")
    assert f"{name}, {len(scan.counts)} ADC events, matrix 64 x 64 x 1" in done.stderr
    _, pixels = scans.read_images(tmp_path / "images.h5")
    assert error_of(pixels[0, 0, 0], truth) <= 0.05
    sent = server.send(scan.scan, pipeline, tmp_path / "sent.h5", "--seq", scan.files["1.4"])
    assert sent.returncode == 0, sent.stderr
    _, pixels = scans.read_images(tmp_path / "sent.h5")
    assert error_of(pixels[0, 0, 0], truth) <= 0.05


def read_options(xml):
    header = echotrain.Header.parse(xml)
    return (header.matrix, header.recon_matrix, header.trajectory, header.limits), (header.fov, header.recon_fov)


@pytest.mark.parametrize("name", list(sequences.MAKERS))
def test_the_python_module_says_what_the_program_says(played, name, tmp_path):
    scan = played(name)
    run_ok("convert", "--seq", scan.files["1.5"], scan.scan, tmp_path / "program.h5")
    echotrain.write_scan(tmp_path / "module.h5", echotrain.pulseq.attach(scan.files["1.5"], scan.scan))
    theirs, ours = (scans.read_acquisitions(tmp_path / f"{each}.h5") for each in ("program", "module"))
    (exact, lengths), (wanted, wanted_lengths) = read_options(ours[0]), read_options(theirs[0])
    assert exact == wanted
    np.testing.assert_allclose(lengths, wanted_lengths, rtol=1e-6)  # pypulseq rounds times
    for field in ("flags", "idx", "center_sample", "number_of_samples"):
        assert np.array_equal(ours[1][field], theirs[1][field]), field
    assert len(ours[2]) == len(theirs[2])
    for a, b in zip(ours[2], theirs[2]):
        np.testing.assert_allclose(a, b, atol=1e-6)  # of 0.5 cycles/pixel: float32, and rounded times


@pytest.mark.parametrize("name, pipeline", [("radial", "radial_2d"), ("epi_flat", "epi_2d")])
def test_the_python_module_reconstructs_arrays(played, name, pipeline, server):
    scan = played(name)
    data = np.split(sequences.signal(*(scan.k[:2] * sequences.FOV)), np.cumsum(scan.counts)[:-1])
    truth = np.abs(reference.picture(grid(64, reach=32 if name == "radial" else None)))
    with echotrain.Client(server.host, server.port) as client:
        twice = echotrain.pulseq.attach(sequences.MAKERS[name](), np.stack(data + data)[None])
        images = list(client.reconstruct(twice, pipeline=pipeline))
    assert [image.repetition for image in images] == [0, 1]
    for image in images:
        assert error_of(image.data[0, 0], truth) <= 0.05


def test_the_python_module_says_what_is_wrong(played, monkeypatch):
    scan = played("radial")
    with pytest.raises(echotrain.ScanError, match="has 101 ADC events, the scan 100 readouts"):
        echotrain.pulseq.attach(scan.files["1.5"], np.ones((1, 100, 128), complex))
    with pytest.raises(echotrain.ScanError, match="ADC event 0 has 128 samples, its readout 64"):
        echotrain.pulseq.attach(scan.files["1.5"], np.ones((1, 101, 64), complex))
    with pytest.raises(echotrain.ScanError, match="pypulseq cannot read it"):
        echotrain.pulseq.Sequence(scan.scan)
    monkeypatch.setitem(sys.modules, "pypulseq", None)
    with pytest.raises(echotrain.ScanError, match="needs pypulseq: pip install pypulseq"):
        echotrain.pulseq.Sequence(scan.files["1.5"])


def test_a_measured_spin_echo_keeps_its_picture(tmp_path):
    data, seq = measured("twix/se_pulseq.dat"), measured("twix/se_pulseq.seq")
    plain = run_ok("recon", data, "-c", "cartesian_plain", "-o", tmp_path / "plain.h5")
    assert plain.returncode == 0
    run_ok("recon", "--seq", seq, data, "-c", "cartesian_plain", "-o", tmp_path / "seq.h5")
    images = [scans.read_images(tmp_path / f"{name}.h5")[1][0] for name in ("plain", "seq")]
    # Its lines run from -31 to 32, which the scanner counts from 0: one line off is a phase, and no other magnitude.
    assert error_of(images[1], np.abs(images[0])) <= 1e-5  # float32


def test_what_does_not_fit_is_said(played, tmp_path):
    scan, other = played("cartesian"), played("radial")
    early = run_ok("convert", "--seq", other.files["1.5"], scan.scan, tmp_path / "out.h5")
    assert "the scan ends early, after 64 readouts" in early.stderr
    refused = run_client("convert", "--seq", scan.files["1.5"], other.scan, tmp_path / "out.h5")
    assert refused.returncode == 1 and "64 ADC events, but the scan has 101 readouts" in refused.stderr
    refused = run_client("convert", "--seq", played("spiral").files["1.5"], scan.scan, tmp_path / "spiral.h5")
    assert refused.returncode == 1 and "has 1600 samples, readout 0 has 128" in refused.stderr
    assert not (tmp_path / "spiral.h5").exists()
    stream = tmp_path / "scan.mrd"
    run_ok("convert", scan.scan, stream, "--to", "stream")
    refused = run_client("convert", "--seq", scan.files["1.5"], stream, tmp_path / "out.h5")
    assert refused.returncode == 2 and "--seq takes an ISMRMRD file" in refused.stderr
