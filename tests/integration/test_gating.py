"""Gating by time stamps and by breathing, through the server: real R waves drive a simulated heart.

The phantom's k-space is exact at each readout's moment; the truths are its float64 images at the middle of each phase,
at expiration. Beats are those of a measured ECG (Vol1 of mrirecon/SSA-FARY, where the data are) and made up here.
"""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import python_client
import reference
import scans
from echotrain.commands.physiology import convert
from programs import BIN, SOURCE, measured, plain_variant, simulated_scan

PHASES = 25  # so many that a phase is short beside what differs
MATRIX = 32
TR_MS = 5
READOUT_MS = 3.8  # of the measured scans
PUBLISHED = {"Vol1": (190, 1107), "Vol2": (290, 723), "Fig6": (199, 1053)}  # R waves, mean R-R [ms]
FREE = ("--trajectory", "cartesian", "--motion", "cardiac", "--gating", "free", "--matrix", MATRIX, "--tr-ms", TR_MS,
        "--phases", PHASES)  # fmt: skip


def write_beats(path, waves):
    path.write_text("".join(f"r {wave:.3f}\n" for wave in waves))
    return path


def read_beats(path):
    return np.array([float(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("r ")])


@pytest.fixture(scope="module", params=["made_up", "Vol1"])
def beats(request, tmp_path_factory):
    """A file of R waves whose intervals vary: of a measured ECG, or made up."""
    path = tmp_path_factory.mktemp("beats") / f"{request.param}.txt"
    if request.param == "made_up":
        # The respiratory rhythm of healthy hearts: faster and slower by 15 % with the breath, and by chance.
        random = np.random.default_rng(3)
        intervals = 1000 * (1 + 0.15 * np.sin(np.arange(80) / 1.5) + 0.03 * random.standard_normal(80))
        return write_beats(path, 300 + np.cumsum(intervals))
    convert(measured(f"pmu_ecg_resp/{request.param}_ticks.npy"), path, READOUT_MS)
    return path


def simulate(path, *options):
    return simulated_scan(path, *FREE, *options)


def config_of(path, **parameters):
    """cartesian_cine_ecg by stamps, with parameters of cardiac_binning changed or added."""
    text = plain_variant("cartesian_cine_ecg")
    for name, value in {"phases": PHASES, "beats": "stamps", **parameters}.items():
        text, known = re.subn(rf"(?m)^      {name}: \S+", f"      {name}: {value}", text)
        if not known:
            text = text.replace("  - cardiac_binning:\n", f"  - cardiac_binning:\n      {name}: {value}\n")
    path.write_text(text)
    return path


def errors(server, scan, folder, **parameters):
    """The NRMSE of each phase's image against the heart at that phase."""
    config = config_of(folder / "gated.yaml", **parameters)
    result = server.send(scan, config, folder / "images.h5")
    assert result.returncode == 0, result.stdout + result.stderr
    heads, images = scans.read_images(folder / "images.h5")
    assert sorted(int(phase) for phase in heads["phase"]) == list(range(PHASES))
    truth = [scans.read_array(scan, "truth" + (f"_{p}" if p else "")) for p in range(PHASES)]
    return np.array([reference.nrmse(image[0, 0], truth[head["phase"]]) for head, image in zip(heads, images)])


@pytest.mark.parametrize("name", PUBLISHED)
def test_measured_stamps_give_the_published_beats(name, tmp_path):
    count, interval = PUBLISHED[name]
    assert convert(measured(f"pmu_ecg_resp/{name}_ticks.npy"), tmp_path / "beats.txt", READOUT_MS) == count
    waves = read_beats(tmp_path / "beats.txt")
    assert len(waves) == count and abs(np.mean(np.diff(waves)) - interval) < 1


def test_phases_by_stamps_are_the_heart_and_systole_needs_its_own_rule(server, beats, tmp_path):
    """Each rule is the better one for the heart that obeys it: by a fifth in the mean, a seventh in the worst phase."""
    for heart, other in (("linear", "weissler"), ("weissler", "linear")):
        scan = simulate(tmp_path / f"{heart}.h5", "--coils", 1, "--physiology", beats, "--sweeps", 220,
                        "--systole", heart)  # fmt: skip
        _, heads, _, _ = scans.read_acquisitions(scan)
        waves, times = read_beats(beats), (np.arange(len(heads)) + 0.5) * TR_MS
        before = np.searchsorted(waves, times, side="right") - 1
        since = np.where(before < 0, 0, np.floor((times - waves[before]) / 2.5))
        assert np.array_equal(heads["physiology_time_stamp"][:, 0], since)  # ticks of 2.5 ms since the R wave
        right = errors(server, scan, tmp_path, systole=heart)
        wrong = errors(server, scan, tmp_path, systole=other)
        print(f"{heart}: {right.mean():.4f}, worst {right.max():.4f}; {other}: {wrong.mean():.4f}, {wrong.max():.4f}")
        assert right.max() < 0.03
        assert right.mean() < 0.8 * wrong.mean() and right.max() < 0.85 * wrong.max()


def test_premature_beats_and_their_pauses_are_better_left_out(server, beats, tmp_path):
    """Every sixth beat comes at half its time and is weak, and a pause follows it."""
    waves = read_beats(beats)
    early = np.arange(5, len(waves) - 1, 6)
    moved = waves.copy()
    moved[early] = (waves[early - 1] + waves[early]) / 2
    ectopic = write_beats(tmp_path / "ectopic.txt", moved)
    scan = simulate(tmp_path / "scan.h5", "--coils", 1, "--physiology", ectopic, "--sweeps", 220)
    every, regular = (errors(server, scan, tmp_path, reject=share) for share in (0, 0.25))
    print(f"all: {every.mean():.4f}, worst {every.max():.4f}; regular: {regular.mean():.4f}, {regular.max():.4f}")
    assert regular.mean() < 0.75 * every.mean() and regular.max() < 0.75 * every.max()


def test_breathing_is_gated_by_the_centre_of_k_space_and_by_stamps(server, beats, tmp_path):
    """20 mm of breathing: the third of the readouts nearest to expiration is close to the held breath."""
    scan = simulate(tmp_path / "scan.h5", "--coils", 4, "--physiology", beats, "--sweeps", 220, "--centre-every", 8,
                    "--breathing-mm", 20, "--breathing-rate", 14, "--jitter", 0.1)  # fmt: skip
    shifts = scans.read_array(scan, "displacement_mm")
    assert 0 <= shifts.min() < 0.1 and 19 < shifts.max() <= 20
    free = errors(server, scan, tmp_path)
    navigated = errors(server, scan, tmp_path, respiratory="navigator", navigator_to=0.35)
    stamped = errors(server, scan, tmp_path, respiratory="stamp", respiratory_to_ms=900)
    inspired = errors(server, scan, tmp_path, respiratory="navigator", navigator_from=0.65, navigator_to=1)
    print(f"breathing freely {free.mean():.4f}, navigator {navigated.mean():.4f}, stamps {stamped.mean():.4f}, "
          f"at inspiration {inspired.mean():.4f}")  # fmt: skip
    assert navigated.mean() < 0.3 * free.mean() and navigated.max() < 0.5 * free.max()
    assert stamped.mean() < 0.3 * free.mean()
    assert inspired.mean() > 1.2 * free.mean()  # the other end of the breath


def test_stamps_that_cannot_be_are_refused_with_what_to_do(server, tmp_path):
    scan = simulate(tmp_path / "scan.h5", "--coils", 1, "--sweeps", 20)
    for parameters, said in (
        ({"stamp": 2}, "physiology_time_stamp[2] is 0 in all 640 readouts, which nobody wrote"),
        ({"stamp_tick_ms": 1}, "rises by 0.40 ms in each millisecond of acquisition_time_stamp"),
        ({"respiratory": "navigator"}, "spans less than the longest breath, 10 s"),
        ({"navigator_to": 2}, "'2' is out of range; allowed is 0 to 1"),
    ):
        result = server.send(scan, config_of(tmp_path / "bad.yaml", **parameters), tmp_path / "images.h5")
        assert result.returncode != 0 and said in result.stdout + result.stderr, result.stdout + result.stderr
    assert server.send(scan, config_of(tmp_path / "good.yaml"), tmp_path / "images.h5").returncode == 0


def test_every_command_of_the_document_runs(tmp_path):
    """In order; with fewer sweeps and frames, and with stamps made up in place of the measured ones."""
    text = (SOURCE / "docs" / "cine.md").read_text()
    (parameters,) = re.findall(r"where `breath.yaml` is `cartesian_cine_ecg` with `cardiac_binning: \{(.*?)\}`", text, re.DOTALL)
    config_of(tmp_path / "breath.yaml", **dict(re.findall(r"(\w+):\s+([\w.]+)", parameters)))
    waves, times = 200 + 950 * np.arange(60), np.arange(0, 50000, READOUT_MS)
    before = np.searchsorted(waves, times, side="right") - 1
    stamps = np.where(before < 0, 1000, np.floor((times - waves[before]) / 2.5))
    np.save(tmp_path / "Vol1_ticks.npy", stamps)
    commands = re.findall(r"^(?:echotrain|python) .*", text, re.MULTILINE)
    assert len(commands) == 3
    for line in commands:
        shorter = line.replace("--sweeps 220", "--sweeps 80").replace("--frames 24", "--frames 4")
        name, *arguments = shlex.split(shorter)
        command = [BIN / name if name == "echotrain" else sys.executable, *arguments]
        done = subprocess.run([str(part) for part in command], cwd=tmp_path, env=python_client.environment(),
                              capture_output=True, text=True, timeout=200)  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert len(read_beats(tmp_path / "beats.txt")) == 53
