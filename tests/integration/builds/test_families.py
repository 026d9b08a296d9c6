"""Builds that leave out families of gadgets: what ./run demo leaves out, and that it has what its pipeline needs."""

import re
import subprocess
import sys

from programs import SOURCE

FAMILIES = re.search(r"-DECHOTRAIN_FAMILIES=([\w;]+)'", (SOURCE / "run").read_text())[1].split(";")


def leave_out(*families):
    return subprocess.run([sys.executable, SOURCE / ".ci" / "families.py", *families], capture_output=True, text=True)


def family_of(gadget):
    """The family whose source names the gadget."""
    named = f'kName = "{gadget}"'
    for header in (SOURCE / "gadgets").rglob("*.h"):
        if named in header.read_text() and not {"numerics", "api"} & set(header.parts):
            return header.relative_to(SOURCE / "gadgets").parts[0]
    raise AssertionError(f"no gadget is called {gadget}")


def test_the_demo_has_the_gadgets_of_its_pipeline():
    text = (SOURCE / "config/pipelines/radial_2d.yaml").read_text()
    gadgets = re.findall(r"(?m)^  - (\w+)", text)
    assert gadgets[0] == "noise_adjust" and len(gadgets) == 7
    # fft and its like have forms in several families.
    needed = {family_of(gadget) for gadget in gadgets if gadget != "fft"}
    assert needed == set(FAMILIES)


def test_what_only_other_families_need_is_left_out():
    result = leave_out(*FAMILIES)
    assert result.returncode == 0, result.stderr
    left = set(result.stdout.split())
    assert {"gadgets/least_squares", "gadgets/builtin/least_squares.cc", "gadgets/numerics/solver"} <= left
    kept = {f"gadgets/{family}" for family in FAMILIES} | {"gadgets/numerics/nufft", "gadgets/numerics/cuda", "gadgets/shared"}
    assert not left & kept
    for folder in left:
        assert (SOURCE / folder).exists(), folder
    everything = {path.stem for path in (SOURCE / "gadgets/builtin").glob("*.cc")} - {"builtin"}
    assert leave_out(*everything).stdout.strip() == ""


def test_families_that_are_not_there_or_need_others_are_refused():
    assert "no family of gadgets 'griding'; there are: cartesian" in leave_out("griding").stderr
    refused = leave_out("encoding")
    assert refused.returncode != 0
    assert "need the family" in refused.stderr and "too" in refused.stderr
