"""30 cuts at random moments lose no acknowledged readout and no image; long_thousand_cuts.py makes 1,000."""

from cutting import Cutting


def test_thirty_cuts_lose_nothing(tmp_path):
    cutting = Cutting(tmp_path, seed=7)
    counts = cutting.run(30)
    cutting.stop()
    assert all(counts[kind] > 0 for kind in ("client", "proxy", "server", "disk")), counts
