"""What one client leaves is not found, changed or stopped by another: by address, token and device.

docs/secure.md ("Whose data are whose") says what an identity is. Two clients of one machine have two addresses:
127.0.0.1 and 127.0.0.2.
"""

import json
import re
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

import chains
import reference
import scans
import stopping
import wire
from programs import Server, ends_well, simulated_scan
from steps import wait_until

A, B = "127.0.0.1", "127.0.0.2"
COILS, N = 4, 32
TOKEN_A, TOKEN_B = "a-token-of-a-host-0001", "a-token-of-a-host-0002"
SESSION = wire.config_file("cartesian_plain")  # gives one, which long answers need


@pytest.fixture
def server(tmp_path):
    made = start(tmp_path)
    yield from ends_well(made)


def start(folder, *arguments):
    return Server(folder, *arguments, "--backend", "cpu",
                  environment={"ECHOTRAIN_CACHE_DIR": str(folder / "cache")})  # fmt: skip


def whitening(token="", mine="test", **keys):
    text = "".join(f"{key}: {value}\n" for key, value in {"token": token, **keys}.items() if value)
    return wire.config_text(
        f"{text}echotrain: 1\nname: {mine}\ndescription: A test\npipeline:\n  - noise_adjust\n  - cartesian_kspace\n"
        "  - fft\n  - coil_combine: {method: none}\n  - image: {component: complex, type: float}\n"
    )


def header(measurement, noise_of="", serial="4711"):
    xml = scans.header_xml("cartesian", (N, N, 1), readouts=N)
    about = f"<measurementID>{measurement}</measurementID><patientPosition>HFS</patientPosition>"
    if noise_of:
        about += ("<measurementDependency><dependencyType>Noise</dependencyType>"
                  f"<measurementID>{noise_of}</measurementID></measurementDependency>")  # fmt: skip
    xml = xml.replace("</acquisitionSystemInformation>",
                      f"<deviceSerialNumber>{serial}</deviceSerialNumber></acquisitionSystemInformation>"
                      if serial else "</acquisitionSystemInformation>")  # fmt: skip
    start = xml.index("<acquisitionSystemInformation>")
    return wire.header(f"{xml[:start]}<measurementInformation>{about}</measurementInformation>{xml[start:]}")


def exchange(server, source, *messages):
    return wire.exchange(server.address, [*messages, wire.close()], source=source)


def ask(server, source, name, *before):
    ((_, text),) = exchange(server, source, *before, wire.query(name)).responses
    return text


def noise_of(seed):
    random = np.random.default_rng(seed)
    white = random.standard_normal((COILS, 512)) + 1j * random.standard_normal((COILS, 512))
    return ((np.eye(COILS) * (1 + seed) + 0.3 * random.standard_normal((COILS, COILS))) @ white).astype(np.complex64)


def leave_noise(server, source, measurement, seed, config=None, **about):
    noise = noise_of(seed)
    reply = exchange(server, source, config or whitening(), header(measurement, **about),
                     *(wire.acquisition(part, flags=wire.NOISE) for part in np.split(noise, 4, axis=1)))  # fmt: skip
    assert not reply.errors(), reply.texts
    assert reply.said("INFO"), reply.texts
    return noise, reply


def image_of(server, source, named, config=None, **about):
    random = np.random.default_rng(9)
    kspace = (random.standard_normal((2, COILS, N, N)) * np.array([1, 1j])[:, None, None, None]).sum(0)
    kspace = kspace.astype(np.complex64)
    lines = [wire.acquisition(kspace[:, y], None, wire.LAST_IN_SLICE * (y == N - 1), y) for y in range(N)]
    reply = exchange(server, source, config or whitening(), header("image", named, **about), *lines)
    assert not reply.errors() and len(reply.images) == 1, reply.texts
    return reply, kspace


def is_whitened_by(reply, kspace, noise):
    white = np.einsum("ab,byx->ayx", reference.whitening(noise, 1), kspace)
    return reference.nrmse(reply.images[0].pixels[:, 0], reference.centred_fft(white, N)) < 1e-5


def test_noise_is_its_owners(server):
    noise, _ = leave_noise(server, A, "1", seed=1)
    before, kspace = image_of(server, A, "1")
    assert is_whitened_by(before, kspace, noise)
    for name in ("echotrain::noise/", "echotrain::noise_matrix/"):
        assert ask(server, A, name + "1", SESSION).startswith(("known", "coils"))
        assert ask(server, B, name + "1", SESSION) == ask(server, B, name + "2", SESSION) == "unknown"
    stranger, _ = image_of(server, B, "1")
    assert any("images are NOT whitened" in text for text in stranger.texts), stranger.texts
    # B's noise of the same scanner and the same ID.
    other, reply = leave_noise(server, B, "1", seed=2)
    assert not any("in place of" in text for text in reply.texts)
    after, _ = image_of(server, A, "1")
    np.testing.assert_array_equal(after.images[0].pixels, before.images[0].pixels)
    theirs, _ = image_of(server, B, "1")
    assert is_whitened_by(theirs, kspace, other)
    # A replaces its own, and is told so.
    newer, reply = leave_noise(server, A, "1", seed=3)
    assert any("in place of what an earlier scan left" in text for text in reply.texts), reply.texts
    replaced, _ = image_of(server, A, "1")
    assert is_whitened_by(replaced, kspace, newer)


@pytest.mark.parametrize("serials", [("4711", "4712"), ("4711", "")], ids=["two", "one without a number"])
def test_two_scanners_that_both_call_a_scan_1(server, serials):
    noises = [leave_noise(server, A, "1", seed, serial=serial)[0] for seed, serial in enumerate(serials)]
    for noise, serial in zip(noises, serials, strict=True):
        reply, kspace = image_of(server, A, "1", serial=serial)
        assert is_whitened_by(reply, kspace, noise)
        # After its header, the client's device is known; before it there are two that it may mean.
        assert ask(server, A, "echotrain::noise/1", whitening(), header("x", serial=serial)) != "unknown"
    assert ask(server, A, "echotrain::noise/1") == "unknown"


def test_hosts_that_the_operator_joins_share(tmp_path):
    server = start(tmp_path, "--share", f"mr1=address:{A};address:{B}")
    noise, _ = leave_noise(server, A, "1", seed=1)
    reply, kspace = image_of(server, B, "1")
    assert is_whitened_by(reply, kspace, noise)
    other, _ = image_of(server, "127.0.0.3", "1")
    assert any("images are NOT whitened" in text for text in other.texts)
    assert server.stop() == 0


def test_a_token_is_an_identity_from_any_address(tmp_path):
    (tmp_path / "tokens").write_text(f"{TOKEN_A} name=console\n{TOKEN_B}\n")
    server = start(tmp_path, "--token-file", tmp_path / "tokens")
    noise, _ = leave_noise(server, A, "1", seed=1, config=whitening(TOKEN_A))
    reply, kspace = image_of(server, B, "1", config=whitening(TOKEN_A))
    assert is_whitened_by(reply, kspace, noise)
    other, _ = image_of(server, A, "1", config=whitening(TOKEN_B))
    assert any("images are NOT whitened" in text for text in other.texts)
    use_a, use_b = (wire.config_text(f"token: {token}\nuse: cartesian_plain") for token in (TOKEN_A, TOKEN_B))
    assert ask(server, B, "echotrain::noise/1", use_a).startswith("known")
    assert ask(server, A, "echotrain::noise/1", use_b) == ask(server, A, "echotrain::noise/1") == "unknown"
    assert server.stop() == 0


def test_replays_find_what_replays_of_the_same_clients_captures_left(tmp_path):
    """A and B call their scans the same: a replay of B's noise changes no replay of A's image."""
    token = tmp_path / "admin"
    token.write_text("a-token-of-an-administrator\n")
    token.chmod(0o600)
    server = start(tmp_path, "--capture-directory", tmp_path / "captures", "--admin-token-file", token)
    for seed, source in enumerate((A, B), 1):
        leave_noise(server, source, "1", seed)
        image_of(server, source, "1", SESSION)

    def page(path, method="GET"):
        about = {"Authorization": "Bearer a-token-of-an-administrator"}
        address = "http://{}:{}/live/{}".format(*server.admin, path)
        with urllib.request.urlopen(urllib.request.Request(address, method=method, headers=about)) as answer:
            return answer.read()

    def ended():
        return {one["id"]: one for one in json.loads(page("state"))["ended"]}

    def replay(capture):
        def begun():
            try:
                return json.loads(page(f"replay?capture={capture}&pipeline=cartesian_plain", "POST"))["session"]
            except urllib.error.HTTPError as busy:  # the capture is still open, or the replay before has not ended
                assert busy.code in (409, 503)

        session = wait_until(begun, "a replay")
        wait_until(lambda: session in ended(), "the end of the replay")
        if not ended()[session]["images"]:
            return None
        body = page(f"image?scan={session}")
        return body[4 + int.from_bytes(body[:4], "little") :]

    wait_until(lambda: len(ended()) == 4, "the scans' ends")
    names = [one["name"] for one in json.loads(page("captures"))["captures"]]
    names.sort(key=lambda name: int(re.search(r"-s(\d+)-", name)[1]))
    noise_of_a, image_of_a, noise_of_b, image_of_b = names
    replay(noise_of_a)
    before = replay(image_of_a)
    replay(noise_of_b)
    assert replay(image_of_a) == before
    assert replay(image_of_b) != before
    assert server.stop() == 0


def test_reference_lines_are_their_owners(server, tmp_path):
    """A's object, which B asks for with zeros of its own."""
    scan = tmp_path / "scan.h5"
    simulated_scan(scan, "--trajectory", "cartesian", "--matrix", 64, "--coils", 4, "--acceleration", 2,
                   "--calibration", 16, "--calibration-mode", "separate")  # fmt: skip
    head, *lines = scans.read_messages(scan)
    flagged = [bool(flags(m) & (1 << 19 | 1 << 20)) for m in lines]
    calibration = [m for m, is_reference in zip(lines, flagged, strict=True) if is_reference]
    images = [m for m, is_reference in zip(lines, flagged, strict=True) if not is_reference]
    chain = chains.pipeline("external_calibration", "cartesian_kspace", "grappa: {otherwise: transform}",
                            "coil_combine: {method: rss}", "image: {component: magnitude}")  # fmt: skip
    first = exchange(server, A, chain, named(head, "A-1"), *calibration)
    assert any("reference lines of 4 coils are kept" in text for text in first.texts), first.texts
    assert ask(server, A, "echotrain::calibration/A-1").startswith("known")
    assert ask(server, B, "echotrain::calibration/A-1") == "unknown"
    zeros = [m[:342] + bytes(len(m) - 342) for m in images]
    stolen = exchange(server, B, chain, named(head, "B-1", "A-1"), *zeros)
    assert any("A-1 that the header names for calibration is not known here" in text for text in stolen.texts)
    assert not any(image.pixels.any() for image in stolen.images)
    own = exchange(server, A, chain, named(head, "A-2", "A-1"), *images)
    assert any("reference lines are those of another scan" in text for text in own.texts), own.texts


def flags(message):
    return int(wire.head_of(message)["flags"])


def named(message, measurement, calibration=""):
    xml = message[6:].decode().rstrip("\0")
    mode = "external" if calibration else "separate"
    xml = re.sub(r"<calibrationMode>\w+<", f"<calibrationMode>{mode}<", xml)
    xml = re.sub(r"(?s)<measurementInformation>.*</measurementInformation>", "", xml)
    about = f"<measurementID>{measurement}</measurementID><patientPosition>HFS</patientPosition>"
    if calibration:
        about += ("<measurementDependency><dependencyType>Calibration</dependencyType>"
                  f"<measurementID>{calibration}</measurementID></measurementDependency>")  # fmt: skip
    place = re.search(r"<acquisitionSystemInformation>|<experimentalConditions>", xml).start()
    return wire.header(f"{xml[:place]}<measurementInformation>{about}</measurementInformation>{xml[place:]}")


PYTHON = "python: {module: pass_on}"


def of_client(token, *gadgets, keys=""):
    lines = "".join(f"  - {gadget}\n" for gadget in gadgets)
    start = f"token: {token}\n" if token else ""
    return wire.config_text(f"{start}echotrain: 1\nname: mine\ndescription: A test\n{keys}pipeline:\n{lines}")


def test_what_clients_pipelines_may_name(tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pass_on.py").write_text("def process(connection, config, header):\n    pass\n")
    (tmp_path / "tokens").write_text(
        f"{TOKEN_A} client_pipelines=all\n{TOKEN_B}\na-token-of-a-host-0003 client_pipelines=off\n")  # fmt: skip
    server = start(tmp_path, "--python-modules", tmp_path / "modules", "--python", sys.executable,
                   "--token-file", tmp_path / "tokens")  # fmt: skip
    head = header("1")

    def refusals(*arguments, **more):
        reply = exchange(server, A, of_client(*arguments, **more), head)
        assert len(reply.errors()) <= 1, reply.texts
        return [text for text in reply.errors() if "not-allowed" in text]

    plain = ("cartesian_kspace", "fft", "coil_combine: {method: rss}", "image: {component: magnitude}")
    nested = "branch: {when: {kind: noise}, pipeline: [{" + PYTHON + "}]}"
    for gadgets in ((PYTHON,), (nested, *plain), ("mrd_server: {address: \"127.0.0.1:9\", config: x}",)):
        (text,) = refusals(TOKEN_B, *gadgets)
        assert "set client_pipelines: all" in text and "client_pipelines=all" in text, text
        assert not refusals(TOKEN_A, *gadgets)
    assert not refusals(TOKEN_B, *plain)
    (text,) = refusals("a-token-of-a-host-0003", *plain)
    assert "client_pipelines is off" in text and "cartesian_plain" in text, text
    assert server.stop() == 0


def spokes(pipeline, per_readout, values):
    """100 spokes of 128 samples, all samples cut into readouts of `per_readout`. values: [coil, sample]."""
    along = (np.arange(128) - 64) / 128
    k = (along[None, :, None] * stopping.directions(100, 2)[:, None]).astype(np.float32).reshape(-1, per_readout, 2)
    parts = values.reshape(COILS, -1, per_readout).transpose(1, 0, 2)
    ends = {0: wire.FIRST_IN_SLICE, len(k) - 1: wire.LAST_IN_SLICE}
    return [wire.config_file(pipeline), wire.header(scans.header_xml("radial", (64, 64, 1), readouts=100)),
            *(wire.acquisition(part, at, ends.get(i, 0), 0, center=per_readout // 2, counter=i)
              for i, (part, at) in enumerate(zip(parts, k)))]  # fmt: skip


@pytest.mark.parametrize("pipeline", ["radial_2d", "cg_sense_2d"])
def test_trajectories_and_their_weights_are_their_owners(tmp_path, pipeline):
    """B sends A's header and positions in readouts of another length, whose weights are others; and, as A's own client,
    A may do so too."""
    random = np.random.default_rng(1)
    values = (random.standard_normal((COILS, 12800)) + 1j * random.standard_normal((COILS, 12800))).astype(np.complex64)
    mine, cut = spokes(pipeline, 128, values), spokes(pipeline, 6400, values)
    folders = {name: tmp_path / name for name in ("new", A, B)}
    for folder in folders.values():
        folder.mkdir()
    new = start(folders["new"])
    truth = exchange(new, A, *mine).images[0].pixels
    assert new.stop() == 0
    for other in (B, A):
        server = start(folders[other])
        exchange(server, other, *cut)
        # Sums by threads are rounded in another order in each run: 1e-6; other weights make 0.8 and more.
        assert reference.nrmse(exchange(server, A, *mine).images[0].pixels, truth) < 1e-4, other
        assert server.stop() == 0
