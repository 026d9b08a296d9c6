"""kill -9 of servers that keep noise and send to a DICOM peer: 30 moments here, more in long_kill_stores.py."""

import numpy as np

from killed import Stores

KILLS = 30


def test_killed_at_many_moments(tmp_path):
    stores = Stores(tmp_path, np.random.default_rng(3))
    for _ in range(KILLS):
        stores.kill_once()
    found = stores.check_all()
    print(found)
    assert found["kept"] > KILLS / 2 and found["seen"] > KILLS / 2, found
