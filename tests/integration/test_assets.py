"""Files that pipelines name: coil maps from the server's assets folder, or sent by the client."""

import numpy as np
import pytest

import scans
import wire
from programs import Server, ends_well, run_client, variant

ismrmrd = pytest.importorskip("ismrmrd")

MATRIX, COILS = 32, 4


def pipeline(file=""):
    """cg_sense_2d with maps that are given."""
    lines = [line for line in variant("cg_sense_2d").splitlines() if "coil_maps" not in line]
    at = next(i for i, line in enumerate(lines) if "pcg" in line)
    lines.insert(at, f"  - coil_maps: {{method: given{', file: ' + file if file else ''}}}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def maps():
    x, y = np.meshgrid(*[np.linspace(-0.5, 0.5, MATRIX, endpoint=False)] * 2)
    angles = 2 * np.pi * np.arange(COILS) / COILS
    away = (x - 0.6 * np.cos(angles)[:, None, None]) ** 2 + (y - 0.6 * np.sin(angles)[:, None, None]) ** 2
    return (np.exp(-away / 0.5) * np.exp(1j * angles[:, None, None])).astype("c8")[:, None]


@pytest.fixture(scope="module")
def scan(tmp_path_factory, maps):
    """A radial scan of a Gaussian seen through the maps, by a direct sum in double precision."""
    y, x = np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2
    images = maps[:, 0].astype("c16") * np.exp(-(x**2 + y**2) / 40)
    trajectory, data = [], []
    for angle in np.pi * np.arange(51) / 51:
        k = np.linspace(-0.5, 0.5, 48, endpoint=False)[:, None] * [np.cos(angle), np.sin(angle)]
        phase = np.exp(-2j * np.pi * (k[:, 0, None, None] * x + k[:, 1, None, None] * y))
        trajectory.append(k)
        data.append(np.einsum("cyx,syx->cs", images, phase))
    return scans.non_cartesian("radial", (MATRIX, MATRIX, 1), np.array(trajectory), np.array(data))


@pytest.fixture(scope="module")
def assets(tmp_path_factory, maps):
    folder = tmp_path_factory.mktemp("assets")
    (folder / "notes.txt").write_text("no scan")
    (folder / "empty.grad").write_text("")
    (folder / "long.grad").write_text(65536 * "#")
    dataset = ismrmrd.Dataset(folder / "head.h5", "dataset", create_if_needed=True)
    dataset.append_image("maps", ismrmrd.Image.from_array(maps, transpose=False))
    dataset.close()
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory, assets):
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--assets", assets, "--backend", "cpu"))


def exchange(server, scan, text, *before):
    messages = scan.stream(wire.config_text(text))
    return wire.exchange(server.address, [*messages[:2], *before, *messages[2:]])


def test_maps_of_a_file_and_maps_that_are_sent_give_the_object(served, scan, maps):
    y, x = np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2
    truth = np.exp(-(x**2 + y**2) / 40)
    of_file = exchange(served, scan, pipeline("head.h5"))
    sent = exchange(served, scan, pipeline(), wire.image(maps, "coil_maps"))
    for reply in (of_file, sent):
        assert not reply.texts and len(reply.images) == 1, reply.texts
        image = np.abs(reply.images[0].pixels[0, 0])
        scale = np.vdot(image, truth) / np.vdot(image, image)
        # The corners of k-space are not sampled: this Gaussian has less than 1e-3 of its energy there.
        assert np.linalg.norm(scale * image - truth) / np.linalg.norm(truth) < 0.02
    # How readouts arrive decides in which order single precision sums them, and conjugate gradients make of that rounding
    # anything up to what they leave unsolved: 2 c t = 7e-3 at the very most (c = 1.03 / 0.03, t = 1e-4). Seen beside
    # eight such tests at once: less than 1e-5. Maps that differ by 0.3 % give more than 1e-4.
    sent, of_file = (reply.images[0].pixels.astype("f8") for reply in (sent, of_file))
    assert np.linalg.norm(sent - of_file) < 1e-4 * np.linalg.norm(of_file)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("absent.h5", "there is no file 'absent.h5' among the assets; the server's log says which there are"),
        ("notes.txt", "the asset 'notes.txt' cannot be used"),
        ("empty.grad", "the asset 'empty.grad' cannot be used: it is empty"),
        ("long.grad", "the asset 'long.grad' cannot be used: it has more than 65535 bytes"),
        ("../head.h5", "not a path"),
        ("/etc/passwd", "not a path"),
        ("", "send an IMAGE whose meta attribute role is coil_maps"),
    ],
)
def test_what_is_not_there_is_told_and_no_path_leaves_the_server(served, assets, scan, file, expected):
    reply = exchange(served, scan, pipeline(file))
    assert len(reply.errors()) == 1 and expected in reply.errors()[0], reply.texts
    assert not reply.images
    assert file == "notes.txt" or "notes.txt" not in "".join(reply.texts), "what else is there is the operator's"
    assert str(assets) not in "".join(reply.texts)


def test_recon_reads_assets_too(tmp_path, assets, scan):
    scan.save(tmp_path / "scan.h5")
    (tmp_path / "given.yaml").write_text(pipeline("head.h5"))
    arguments = ["recon", tmp_path / "scan.h5", "-c", tmp_path / "given.yaml", "-o", tmp_path / "images.h5"]
    assert run_client(*arguments, "--assets", assets).returncode == 0
    refused = run_client(*arguments)
    assert refused.returncode != 0 and "option assets" in refused.stderr
