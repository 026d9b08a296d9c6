"""Commands and pipelines of pages that are no tutorials, and the links between all pages."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import scans
from pictures import brain, panel, require_picture
from programs import BIN, SHIPPED, SOURCE
from python_client import environment

DOCS = SOURCE / "docs"


def boxes(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_links_lead_somewhere():
    checker = SOURCE / ".ci" / "check_links.py"
    tested = run(sys.executable, checker, "--self-test")
    assert tested.returncode == 0, tested.stderr
    done = run(sys.executable, checker, SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"links: (\d+)", done.stdout)[1]) > 500


def test_pages_have_the_measurements_that_there_are(tmp_path):
    """Whoever changes a figure on a page, or in a machine's file alone, is told."""
    check = [sys.executable, SOURCE / "tests/bench/tables.py", "--check", "--root", tmp_path]
    shutil.copytree(DOCS, tmp_path / "docs")
    done = run(*check)
    assert done.returncode == 0, done.stderr
    page, machine, drawn = (tmp_path / "docs" / name for name in ("performance.md", "measurements/h200.json", "performance.svg"))
    for path, old, new in ((page, "0.357 ms", "0.257 ms"), (machine, '"value": 0.357', '"value": 0.358'), (drawn, "x FINUFFT", "x BART"),
                           (tmp_path / "docs" / "seeds.md", "-->1,208 frames/s<!--", "-->1,209 frames/s<!--")):  # fmt: skip
        text = path.read_text()
        assert old in text, path
        path.write_text(text.replace(old, new, 1))
        done = run(*check)
        assert done.returncode == 1 and "--tables --pages" in done.stderr, f"{path.name}: {done.stderr}"
        path.write_text(text)
    rows = machine.read_text()
    machine.write_text(rows.replace(', "limits": "the Toeplitz steps"', "", 1))
    done = run(*check)
    assert done.returncode == 1 and "no `limits` says why" in done.stderr


def test_tables_that_no_page_has_are_printed_and_listed():
    tables = [sys.executable, SOURCE / "tests/bench/tables.py", "--print"]
    told = run(*tables, "fttf")
    assert told.returncode == 2 and "no table fttf" in told.stderr
    names = re.search(r"there are: (.*)", told.stderr)[1].split(", ")
    listed = (DOCS / "measurements" / "README.md").read_text()
    assert len(names) > 20 and [name for name in names if f"`{name}`" not in listed and f"table {name}-->" not in listed] == []
    done = run(*tables, names[0], "all")
    assert done.returncode == 0 and re.findall(r"^## (\w+)", done.stdout, re.MULTILINE) == names
    assert run(*tables, "grappa_times").stdout.startswith("## grappa_times\n\n|what|asked|measured|")


def test_every_page_is_in_both_lists():
    """The site is built strictly, and only where MkDocs is installed: a page without a place is found here, too."""
    pages = {each.name for each in DOCS.glob("*.md")}
    listed = set(re.findall(r"[ :]([\w-]+\.md)$", (SOURCE / ".ci" / "mkdocs.yml").read_text(), re.MULTILINE))
    assert pages - listed == set()
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (DOCS / "README.md").read_text()))
    assert pages - linked == {"README.md"}


def test_commands_by_trajectory(tmp_path):
    commands = boxes("by-trajectory.md", "bash")
    script = "set -eu\n" + "\n".join(commands)
    done = run("bash", "-c", script, cwd=tmp_path, env={**environment(), "PATH": f"{BIN}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    names = re.findall(r"-o (\w+_images\.h5)", script)
    assert len(names) == len(commands) + 1 == 9
    for name in names:
        images = scans.read_images(tmp_path / name)[1]
        assert len(images) >= 1 and np.isfinite(images).all() and images.std() > 0, name
        kind, plane = name.removesuffix("_images.h5"), images[-1, 0, images.shape[2] // 2]
        require_picture(f"steps/by_trajectory_{kind}", panel(plane if kind in ("ball", "stack", "waves") else brain(plane)))


def test_every_pipeline_is_in_the_table():
    shipped = {each.stem for each in SHIPPED.glob("*.yaml")}
    rows = re.findall(r"^\|\[`(\w+)`\]\(\.\./config/pipelines/\1\.yaml\)\|", (DOCS / "which-pipeline.md").read_text(), re.MULTILINE)
    assert len(rows) == len(shipped) and set(rows) == shipped
    shown = {page: set(re.findall(r"\((?:\.\./)?config/pipelines/(\w+)\.yaml\)", (SOURCE / page).read_text())) for page in
             ("README.md", "docs/gallery.md")}  # fmt: skip
    assert all(8 <= len(names) and names <= shipped for names in shown.values()), shown
    assert f"All {len(shipped)}, with what comes back" in (SOURCE / "README.md").read_text()


def test_every_pipeline_is_on_the_page_that_chooses():
    page = (DOCS / "which-pipeline.md").read_text().partition("## All pipelines")[0]
    left_out = {"passthrough", "cartesian_and_images", "cartesian_edges", "cartesian_magnitude_phase", "cartesian_grappa"}
    missing = {each.stem for each in SHIPPED.glob("*.yaml")} - set(re.findall(r"`(\w+)`", page))
    assert missing == left_out, "name it there, or here if it is a variant of another one"


def test_pages_whose_commands_make_images_show_one():
    making = re.compile(r"echotrain (?:send|recon) |\breconstruct\(|--png")
    none = {"troubleshooting.md", "measurements/README.md"}  # commands that fail, and those of benchmarks
    for page in DOCS.rglob("*.md"):
        text, name = page.read_text(), page.relative_to(DOCS).as_posix()
        if name not in none and making.search("".join(re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL))):
            assert re.search(r"!\[[^\]]+\]\([^)]+\.(?:png|gif)\)", text), f"{name} makes images and shows none"


def test_the_translated_configuration_is_right(tmp_path):
    (text,) = boxes("from-gadgetron.md", "yaml")
    (tmp_path / "my_grappa.yaml").write_text(text)
    done = run(BIN / "echotrain-server", "--check", tmp_path / "my_grappa.yaml")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["from-gadgetron.md", "from-fire-and-bart.md", "which-pipeline.md"])
def test_pages_name_what_there_is(page):
    """Whatever of our gadgets or pipelines stands in a table's last columns, or is a gadget with parameters, exists."""
    listed = run(BIN / "echotrain-server", "--list").stdout
    known = set(re.findall(r"^(\w+) ", listed, re.MULTILINE)) | {"branch"}
    text = (DOCS / page).read_text()
    named = set(re.findall(r"`(\w+): \{", text)) - {"frame", "image", "python"}
    named |= {each for each in re.findall(r"`([a-z]+_[a-z0-9_]+)`", text) if each.partition("_")[0] in
              {"cartesian", "radial", "spiral", "epi", "nlinv", "cg", "fhd", "grasp", "images", "ultrasound"}}  # fmt: skip
    assert named and named <= known, named - known


def test_files_of_bart_go_through_a_server(server, tmp_path):
    if shutil.which("bart") is None:
        pytest.skip("bart is not installed")
    made = boxes("from-fire-and-bart.md", "sh")[0].replace("echotrain-server &\n", "")
    (code,) = boxes("from-fire-and-bart.md", "python")
    reference = "bart nufft -i -m 10 k kspace coils && bart rss 8 coils reference"
    done = run("bash", "-e", "-c", f"{made}\n{reference}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before = f"import functools, echotrain as e\ne.reconstruct = functools.partial(e.reconstruct, port={server.port})\n"
    after = "import numpy\nnumpy.save('image.npy', image.data[0, 0])\n"
    done = run(sys.executable, "-c", before + code + after, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    image = np.load(tmp_path / "image.npy")
    theirs = np.abs(np.fromfile(tmp_path / "reference.cfl", np.complex64)).reshape(image.shape)  # [y, x]
    alike = {name: np.corrcoef(image.ravel(), each.ravel())[0, 1] for name, each in
             {"same": theirs, "y": theirs[::-1], "x": theirs[:, ::-1], "xy": theirs[::-1, ::-1], "T": theirs.T}.items()}  # fmt: skip
    # The same object in the same place: gridding against BART's least squares.
    assert alike["same"] > 0.9 and alike.pop("same") > 0.1 + max(alike.values()), alike
