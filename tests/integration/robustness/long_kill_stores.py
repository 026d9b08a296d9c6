"""kill -9 at 1,000 moments of servers that keep noise and send to a DICOM peer.

ECHOTRAIN_KILLS (1000) sets the number of moments, ECHOTRAIN_SEED (1) which ones.
"""

import os

import numpy as np

from killed import Stores

KILLS = int(os.environ.get("ECHOTRAIN_KILLS") or "1000")


def test_nothing_kept_is_lost_at_a_thousand_moments(tmp_path):
    stores = Stores(tmp_path, np.random.default_rng(int(os.environ.get("ECHOTRAIN_SEED", "1"))))
    for number in range(1, KILLS + 1):
        stores.kill_once()
        if number % 50 == 0:
            print(f"{number} kills: {len(stores.kept)} scans with noise, {len(os.listdir(stores.seen))} images in the spool")
    found = stores.check_all()
    print(found)
    assert found["kept"] > KILLS / 2 and found["seen"] > KILLS / 2, found
