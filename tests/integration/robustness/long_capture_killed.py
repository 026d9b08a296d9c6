"""kill -9 at 1,000 moments of captures with sync: before_close."""

import os

import numpy as np

from killed import kill_once


def test_nothing_acknowledged_is_lost_at_a_thousand_moments(tmp_path):
    rng = np.random.default_rng(int(os.environ.get("ECHOTRAIN_SEED", "1")))
    total = {"acknowledged": 0, "cut": 0}
    for number in range(1, 1001):
        for name, count in kill_once(tmp_path, rng).items():
            total[name] += count
        if number % 50 == 0:
            print(f"{number} kills: {total['acknowledged']} captures acknowledged and right, {total['cut']} cut and rescued")
    assert total["acknowledged"] > 300 and total["cut"] > 300, total
