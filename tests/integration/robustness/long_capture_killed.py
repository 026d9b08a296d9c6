"""kill -9 at 1,000 moments of captures with sync: before_close.

ECHOTRAIN_KILLS (1000) sets the number of moments, ECHOTRAIN_SEED (1) which ones: several runs of fewer, each with a seed
of its own, can share a machine of many cores.
"""

import os

import numpy as np

from killed import kill_once

KILLS = int(os.environ.get("ECHOTRAIN_KILLS") or "1000")


def test_nothing_acknowledged_is_lost_at_a_thousand_moments(tmp_path):
    rng = np.random.default_rng(int(os.environ.get("ECHOTRAIN_SEED", "1")))
    total = {"acknowledged": 0, "cut": 0}
    for number in range(1, KILLS + 1):
        for name, count in kill_once(tmp_path, rng).items():
            total[name] += count
        if number % 50 == 0:
            print(f"{number} kills: {total['acknowledged']} captures acknowledged and right, {total['cut']} cut and rescued")
    assert min(total.values()) > 0.3 * KILLS, total
