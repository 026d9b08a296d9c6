"""R waves from stamps: where they were, and what is refused."""

import numpy as np
import pytest

import echotrain
from echotrain.__main__ import main
from echotrain.commands.physiology import in_order, physiology_text, r_waves

WAVES = np.array([310.2, 1204.9, 1651.0, 2890.3, 3805.5])


def stamps(readout_ms=3.8, tick_ms=2.5, until=4500.0):
    """Whole ticks since the R wave before each readout; 0 before the first, as nothing is known then."""
    times = np.arange(0, until, readout_ms)
    before = np.searchsorted(WAVES, times, side="right") - 1
    return np.where(before < 0, 0, np.floor((times - WAVES[before]) / tick_ms)).astype(np.uint16)


@pytest.mark.parametrize(("readout_ms", "tick_ms"), [(3.8, 2.5), (2.0, 2.5), (7.1, 1.0)])
def test_waves_are_found_to_a_fraction_of_a_tick(readout_ms, tick_ms):
    ticks = stamps(readout_ms, tick_ms)
    ticks[: int(WAVES[0] // readout_ms) + 1] = 1000  # from a beat before the scan
    found = r_waves(ticks, readout_ms, tick_ms)
    assert len(found) == len(WAVES)
    np.testing.assert_allclose(found, WAVES, atol=0.3 * tick_ms)


def test_a_stack_is_read_spoke_by_spoke_without_what_was_not_acquired():
    array = np.zeros((2, 3, 2), int)
    array[0, :2] = [[1, 3], [2, 4]]
    array[1, 1:] = [[5, 0], [6, 1]]  # a single 0 is an R wave in that tick
    assert list(in_order(array)) == [1, 2, 3, 4, 5, 6, 0, 1]


def test_text_has_a_line_for_each_wave():
    assert physiology_text([1.0, 2000.12345], "a.npy").splitlines()[1:] == ["r 1.000", "r 2000.123"]


@pytest.mark.parametrize(
    ("array", "options", "why"),
    [
        (np.full(1000, 17), {}, "fall 0 times"),
        (stamps(), {"tick_ms": 1.0}, "look at the tick"),
        (stamps(), {"readout_ms": 0.0}, "above 0"),
        (np.zeros((2, 2)), {}, "not an array of 2 axes"),
        (np.zeros(0), {}, "one readout or more"),
        (np.full(5, np.nan), {}, "finite"),
    ],
)
def test_what_cannot_be_stamps_is_refused(array, options, why):
    with pytest.raises(echotrain.EchotrainError, match=why):
        r_waves(array, **{"readout_ms": 3.8, **options})


def test_the_command(tmp_path, capsys):
    np.save(tmp_path / "ticks.npy", np.append([900], stamps()[int(WAVES[0] // 3.8) + 1 :]))
    output = tmp_path / "beats.txt"
    assert main(["physiology", str(tmp_path / "ticks.npy"), "--readout-ms", "3.8", "-o", str(output)]) == 0
    assert f"{len(WAVES)} R waves" in capsys.readouterr().out
    assert len(output.read_text().splitlines()) == 1 + len(WAVES)
    (tmp_path / "text.npy").write_text("no array")
    assert main(["physiology", str(tmp_path / "text.npy"), "--readout-ms", "3.8", "-o", str(output)]) == 1
    assert "not an .npy array" in capsys.readouterr().err
