"""1,000 cuts at random moments: clients killed, connections cut, kill -9 of the server, full disks.

ECHOTRAIN_CUTS (1000) sets their number, ECHOTRAIN_SEED (1) which ones: several runs of fewer, each with a seed of its own,
can share a machine of many cores.
"""

import os

from cutting import Cutting

CUTS = int(os.environ.get("ECHOTRAIN_CUTS") or "1000")


def test_a_thousand_cuts_lose_nothing(tmp_path):
    cutting = Cutting(tmp_path, seed=int(os.environ.get("ECHOTRAIN_SEED") or "1"))
    for done in range(0, CUTS, 50):
        print(done, cutting.run(min(50, CUTS - done)), flush=True)
    print(CUTS, cutting.counts)
    cutting.stop()
