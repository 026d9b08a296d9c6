"""Builds that leave out parts: what ./run demo leaves out, that it has what its pipeline needs, and what .ci/parts.py reads."""

import importlib.util
import re
import subprocess
import sys

from programs import SOURCE

DEMO = re.search(r"set\(demo_parts ([\w ]+)\)", (SOURCE / ".ci/folders.cmake").read_text())[1].split()

spec = importlib.util.spec_from_file_location("parts", SOURCE / ".ci" / "parts.py")
parts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parts)


def needed(*names):
    return subprocess.run([sys.executable, SOURCE / ".ci" / "parts.py", *names], capture_output=True, text=True)


def sources_of(*names):
    result = needed(*names)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def header_of(gadget):
    """The header that names the gadget."""
    named = f'kName = "{gadget}"'
    for header in (SOURCE / "gadgets").rglob("*.h"):
        if named in header.read_text() and not {"numerics", "api"} & set(header.parts):
            return header.relative_to(SOURCE).as_posix()
    raise AssertionError(f"no gadget is called {gadget}")


def test_the_demo_has_the_gadgets_of_its_pipeline():
    text = (SOURCE / "config/pipelines/radial_2d.yaml").read_text()
    gadgets = re.findall(r"(?m)^  - (\w+)", text)
    assert gadgets[0] == "noise_adjust" and len(gadgets) == 7
    listed = "".join((SOURCE / f"gadgets/builtin/{part}.cc").read_text() for part in DEMO
                     if (SOURCE / f"gadgets/builtin/{part}.cc").exists())
    for gadget in gadgets:
        if gadget != "fft":  # it has forms in several families
            assert header_of(gadget) in listed


def test_what_the_demo_does_not_need_is_left_out():
    sources = sources_of(*DEMO)
    for source in sources:
        assert (SOURCE / source).exists(), source
    has = {source.rsplit("/", 1)[0] for source in sources}
    assert {"gadgets/gridding", "gadgets/numerics/transforms/nufft", "gadgets/numerics/core/cuda", "server/session",
            "server/scan", "clients/cpp/simulate"} <= has
    # The demo's minutes stay what they are (docs/build.md): nothing that is added becomes a need of it.
    assert not any(folder.startswith("server/console") for folder in has)
    assert not has & {"gadgets/least_squares", "gadgets/numerics/inverse/solver", "gadgets/numerics/transforms/toeplitz",
                      "gadgets/numerics/mri/espirit", "server/dicom", "protocol/nifti",
                      "clients/cpp/recon", "clients/cpp/scans"}
    # What every header is read by, without DCMTK.
    assert {source for source in sources if source.startswith("protocol/dicom/")} == {"protocol/dicom/study.cc", "protocol/dicom/values.cc"}
    assert not sources & {"gadgets/builtin/images.cc", "gadgets/images/sobel_gadget.cc", "gadgets/readouts/k0_navigator.cc",
                          "server/parts/admin.cc", "server/scan/plugins.cc", "clients/cpp/commands/recon.cc"}


def test_all_parts_together_need_every_source():
    every = parts.list_parts(parts.read_includes(SOURCE))
    assert {"basics", "steps", "admin", "plugins", "send", "recon"} <= set(every)
    sources = sources_of(*every)
    there = {path.relative_to(SOURCE).as_posix() for room in parts.ROOMS for path in (SOURCE / room).rglob("*.cc")}
    # What only echotrain-ranks has, and what only tests use.
    only_ranks = {"clients/cpp/cli/recon_ranks_main.cc", "clients/cpp/cli/recon_ranks.cc"}
    left = there - sources - only_ranks
    assert len(left) <= 5, sorted(left)


def test_a_part_that_is_not_there_is_refused():
    refused = needed("griding")
    assert refused.returncode != 0
    assert "there is no part 'griding'; there are: admin" in refused.stderr


def test_a_source_without_a_header_of_its_own_belongs_to_the_nearest():
    files = {
        "server/main.cc": ["server/net/transport.h"],
        "server/net/transport.h": [],
        "server/net/allow.h": [],
        "server/net/transport.cc": ["server/net/transport.h"],
        "server/net/transport_tls.cc": ["server/net/allow.h", "server/net/transport.h"],
        "server/net/allow.cc": ["server/net/allow.h"],
        "server/net/other.cc": ["config/node.h"],
        "gadgets/builtin/grid.cc": ["gadgets/numerics/grid/grid.h"],
        "gadgets/numerics/grid/grid.h": [],
        "gadgets/numerics/grid/grid_cpu.cc": ["gadgets/numerics/grid/ops.h"],
        "gadgets/numerics/grid/ops.h": [],
    }
    served = {"server/main.cc", "server/net/transport.cc", "server/net/transport_tls.cc"}
    allow = {"server/net/allow.cc"}  # transport_tls.cc includes its header
    assert set(parts.needed(files, [])) == served | allow
    assert set(parts.needed(files, ["grid"])) == served | allow | {"gadgets/builtin/grid.cc", "gadgets/numerics/grid/grid_cpu.cc"}


def test_what_a_folder_includes_is_all_that_it_compiles():
    files = {
        "tests/bench/bench_fft.cc": ["gadgets/fft.h", "tests/support/scan.h"],
        "tests/support/scan.h": ["protocol/scan.h"],
        "gadgets/fft.h": ["gadgets/array.h", "gadgets/generated.h"],
        "gadgets/fft.cc": ["gadgets/fft.h", "gadgets/threads.h"],
        "gadgets/array.h": ["gadgets/fft.h"],
        "gadgets/threads.h": [],
        "protocol/scan.h": [],
    }
    compiled = set(files) - {"gadgets/fft.cc", "gadgets/threads.h"}
    assert set(parts.included(files, ["tests/bench"])) == compiled
    assert parts.included(files, ["tests/ben"]) == []
    assert parts.included(files, ["*_fft.cc"]) == sorted(compiled)
    here = subprocess.run([sys.executable, SOURCE / ".ci/parts.py", "--included", "tests/bench"], capture_output=True, text=True)
    listed = here.stdout.split()
    assert listed[0] == "tests/bench" and "gadgets/numerics/core/context.h" in listed
    assert all((SOURCE / name).exists() for name in listed)
