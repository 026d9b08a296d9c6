"""Cartesian scans that leave lines out, as `cartesian_2d` and its kin take them by themselves; and reference lines that
came as a scan of their own, over another connection.

`echotrain simulate` makes the scans. docs/pipelines.md says what is chosen, docs/configure.md what is kept.
"""

import http.client
import json
import os
import re
import socket

import numpy as np
import pytest

import reference
import scans
import wire
from programs import Server, ends_well, simulated_scan, variant

CALIBRATION = 1 << 19
PLANE, VOLUME = ("--matrix", 48, "--coils", 8), ("--matrix", 24, "--depth", 20, "--coils", 8)
ID = "66056_Doe_107201.calibration-7"


def simulate(folder, *options):
    path = folder / f"scan-{os.getpid()}.h5"
    simulated_scan(path, "--trajectory", "cartesian", "--phantom", "blob", "--blob-sigma", 2.5, *options)
    return scans.read_messages(path)


def exchange(server, config, messages, errors=False):
    reply = wire.exchange(server.address, [config, *messages, wire.close()])
    assert errors or not reply.errors(), reply.errors()
    return reply


def named(name):
    return wire.config_file(name)


def on(name, backend, *changes):
    """A shipped pipeline on a backend, as text."""
    return wire.config_text(variant(name, ("backend: auto", f"backend: {backend}"), *changes))


def notes(image):
    return dict(re.findall(r"<name>(\w+)</name>\s*<value>([^<]*)", image.attributes))


def pixels(reply):
    order = sorted(reply.images, key=lambda i: tuple(int(i.head[n]) for n in ("slice", "contrast", "repetition")))
    return np.array([image.pixels for image in order])


def chosen(reply):
    return [text for text in reply.texts if "takes its chain for accelerated scans" in text]


@pytest.mark.parametrize("options", [
    (*PLANE, "--acceleration", 2, "--calibration", 16, "--frames", 2),
    (*PLANE, "--acceleration", 3, "--calibration", 15, "--slices", 2),
    (*PLANE, "--acceleration", 3, "--calibration", 16, "--calibration-mode", "separate"),
    (*PLANE, "--acceleration", 2, "--calibration-mode", "interleaved", "--frames", 4),
    (*VOLUME, "--acceleration", "2x2", "--calibration", 12, "--caipi", 1),
], ids=["embedded", "slices", "separate", "interleaved", "volume"])  # fmt: skip
def test_cartesian_2d_fills_lines_by_itself(server, backend, tmp_path, options):
    """The images of cartesian_grappa, and nearly those of the scan that leaves nothing out; one text says how."""
    messages = simulate(tmp_path, *options)
    reply = exchange(server, on("cartesian_2d", backend), messages)
    same = exchange(server, on("cartesian_grappa", backend), messages)
    np.testing.assert_array_equal(pixels(reply), pixels(same))
    (text,) = chosen(reply)
    assert re.match(r"INFO +R=[23]x[12]: pipeline 'cartesian_2d' takes .*cartesian_kspace, grappa, .*scale, image", text), text
    assert not chosen(same)
    assert not any("alias" in text for text in reply.texts), reply.texts
    assert all(notes(image)["grappa_kernel"] == "5x4x4" for image in reply.images)

    where = options.index("--acceleration")
    full = [o for i, o in enumerate(options) if i < where]
    whole = exchange(server, on("cartesian_2d", backend), simulate(tmp_path, *full))
    assert not chosen(whole)
    for image in pixels(reply):
        assert reference.nrmse(image, pixels(whole)[0]) <= 0.06


def test_r1_is_as_without_the_choice(server, tmp_path):
    """The same bits, on the CPU, as the chain alone gives."""
    messages = simulate(tmp_path, *PLANE, "--noise", 0.1, "--frames", 2)
    text = variant("cartesian_plain", ("backend: auto", "backend: cpu"))
    alone = re.sub(r"(?s)accelerated:.*", "", text).replace("  - external_calibration", "  # -")
    assert "grappa" not in alone.split("pipeline:")[1] and "external" not in alone
    np.testing.assert_array_equal(
        pixels(exchange(server, on("cartesian_plain", "cpu"), messages)),
        pixels(exchange(server, wire.config_text(alone), messages)),
    )


def test_without_reference_lines_a_warning_says_what_to_do(server, tmp_path):
    messages = simulate(tmp_path, *PLANE, "--acceleration", 2)  # the header says: external
    reply = exchange(server, named("cartesian_plain"), messages)
    assert len(reply.images) == 1 and len(chosen(reply)) == 1
    assert any("there are no reference lines; send some (flags 20, 21)" in text and "alias" in text
               for text in reply.texts), reply.texts  # fmt: skip
    assert any("names no measurement that has it" in text for text in reply.texts), reply.texts


@pytest.mark.parametrize("name", ["cartesian_3d", "cartesian_display", "cartesian_edges", "cartesian_cine"])
def test_pipelines_with_more_after_the_images(server, tmp_path, name):
    """Volumes, viewers' images, edges and phases of accelerated scans are nearly those of full ones."""
    size = (*PLANE, "--slices", 3)
    full = exchange(server, on(name, "cpu"), simulate(tmp_path, *size))
    fewer = exchange(server, on(name, "cpu"), simulate(tmp_path, *size, "--acceleration", 2, "--calibration", 20))
    assert len(chosen(fewer)) == 1 and not chosen(full)
    assert pixels(fewer).shape == pixels(full).shape and pixels(fewer).dtype == pixels(full).dtype
    assert len(fewer.images) == (1 if name == "cartesian_3d" else 3)
    for a, b in zip(pixels(fewer), pixels(full), strict=True):
        assert reference.nrmse(a.astype(float), b.astype(float)) <= 0.08


def edited(header, mode="external", measurement="", calibration="", labels=None):
    xml = header[6:].decode().rstrip("\0")
    xml = re.sub(r"<calibrationMode>\w+<", f"<calibrationMode>{mode}<", xml)
    xml = re.sub(r"(?s)<measurementInformation>.*</measurementInformation>", "", xml)
    about = f"<measurementID>{measurement}</measurementID>" if measurement else ""
    about += "<patientPosition>HFS</patientPosition>"
    if calibration:
        about += "<measurementDependency><dependencyType>Calibration</dependencyType><measurementID>"
        about += f"{calibration}</measurementID></measurementDependency>"
    if labels:
        names = iter(labels)
        xml = re.sub(r"<coilName>[^<]*<", lambda _: f"<coilName>{next(names)}<", xml)
    place = re.search(r"(<acquisitionSystemInformation>|<experimentalConditions>)", xml).start()
    about = f"<measurementInformation>{about}</measurementInformation>"
    return wire.header(xml[:place] + about + xml[place:])


def flags_of(message):
    return int(wire.head_of(message)["flags"])


def halves(messages, **about):
    """(messages of the reference lines as a scan of their own, those of the images)."""
    lines = [m for m in messages[1:] if flags_of(m) & CALIBRATION]
    images = [m for m in messages[1:] if not flags_of(m) & CALIBRATION]
    assert lines and images
    labels = about.pop("labels", None)
    return ([edited(messages[0], "separate", ID, labels=labels), *lines],
            [edited(messages[0], calibration=ID, labels=labels, **about), *images])  # fmt: skip


def ask(server, question):
    ((_, text),) = wire.exchange(server.address, [wire.query(question), wire.close()]).responses
    return text


@pytest.fixture
def own_server(tmp_path):
    """A server that nobody else uses, and so knows no reference lines."""
    place = tmp_path / "own"
    place.mkdir()
    yield from ends_well(Server(place, environment={"ECHOTRAIN_CACHE_DIR": str(place / "cache")}))


SEPARATE = ("--acceleration", 2, "--calibration", 16, "--calibration-mode", "separate", "--noise", 0.02)


@pytest.mark.parametrize("name", ["cartesian_plain", "cartesian_grappa", "cartesian_sense"])
@pytest.mark.parametrize("size", [(*PLANE, "--slices", 2), (*VOLUME, "--frames", 2)], ids=["slices", "volume"])
def test_two_connections_are_as_one(own_server, backend, tmp_path, name, size):
    """Reference lines as a scan of their own, then the scan that names it: the images of both in one connection."""
    messages = simulate(tmp_path, *size, *SEPARATE)
    lines, images = halves(messages)
    together = exchange(own_server, on(name, backend), messages)
    first = exchange(own_server, on(name, backend), lines)
    assert first.images == []
    assert any(re.search(rf"{len(lines) - 1} reference lines of 8 coils are kept .*{ID[-8:]}", t) for t in first.texts)
    assert ID not in "".join(first.texts)
    apart = exchange(own_server, on(name, backend), images)
    assert len(apart.images) == 2
    np.testing.assert_array_equal(pixels(apart), pixels(together))
    assert not any(text.startswith("WARN") for text in apart.texts), apart.texts
    for image in apart.images:
        assert notes(image)["calibration"].startswith("external 16 x ") or size is not PLANE
        assert notes(image)["calibration_from"] == "store" and int(notes(image)["calibration_age_s"]) < 600
    # Any pipeline that keeps them will do; what it makes of the channels is no matter.
    exchange(own_server, on("cartesian_plain", backend), lines)
    np.testing.assert_array_equal(pixels(exchange(own_server, on(name, backend), images)), pixels(together))


def test_embedded_lines_give_the_same_image(own_server, tmp_path):
    """The band of a scan that has it in its own frame, not put back; and the same lines sent before."""
    scan = simulate(tmp_path, *PLANE, "--acceleration", 2, "--calibration", 16)
    config = on("cartesian_grappa", "cpu", ("- cartesian_kspace ", "- cartesian_kspace: {put_back: false} #"))
    embedded = exchange(own_server, config, scan)
    lattice = [m for m in scan[1:] if not flags_of(m) & CALIBRATION]
    band = [m for m in scan[1:] if flags_of(m) & (CALIBRATION | CALIBRATION << 1)]
    exchange(own_server, config, [edited(scan[0], "embedded", ID), *band])
    external = exchange(own_server, config, [edited(scan[0], calibration=ID), *lattice])
    assert reference.nrmse(pixels(external), pixels(embedded)) <= 1e-6


def test_many_coils_are_compressed_alike(own_server, tmp_path):
    """20 coils become 16 virtual ones, by the reference lines, wherever these come from; noise whitens both."""
    messages = simulate(tmp_path, "--matrix", 40, "--coils", 20, *SEPARATE)
    random = np.random.default_rng(1)
    white = random.standard_normal((2, 20, 256)).astype(np.float32)
    noise = wire.acquisition((white[0] + 1j * white[1]).astype(np.complex64), flags=wire.NOISE)
    lines, images = halves(messages)
    together = exchange(own_server, on("cartesian_plain", "cpu"), [messages[0], noise, *messages[1:]])
    exchange(own_server, on("cartesian_plain", "cpu"), lines)
    apart = exchange(own_server, on("cartesian_plain", "cpu"), [images[0], noise, *images[1:]])
    np.testing.assert_array_equal(pixels(apart), pixels(together))
    assert notes(apart.images[0])["coils_used"] == "16"


def test_coils_that_changed(own_server, tmp_path):
    """Another order is found by the labels; a coil that is not known is told of, and no line is used."""
    messages = simulate(tmp_path, *PLANE, *SEPARATE)
    labels = [f"C{i}" for i in range(8)]
    lines, images = halves(messages, labels=labels)
    together = exchange(own_server, on("cartesian_grappa", "cpu"), messages)
    exchange(own_server, on("cartesian_grappa", "cpu"), lines)

    def reordered(order):
        out = [edited(messages[0], calibration=ID, labels=[labels[c] for c in order])]
        for message in images[1:]:
            head = message[:342]
            samples = np.frombuffer(message[342:], np.complex64).reshape(8, -1)
            out.append(head + np.ascontiguousarray(samples[order]).tobytes())
        return out

    moved = exchange(own_server, on("cartesian_grappa", "cpu"), reordered([3, 1, 0, 2, 7, 6, 5, 4]))
    assert reference.nrmse(pixels(moved), pixels(together)) <= 1e-4
    assert notes(moved.images[0])["calibration_from"] == "store"
    labels[2] = "Neck"
    other = exchange(own_server, on("cartesian_grappa", "cpu"), reordered(range(8)))
    assert any("has no coil 'Neck': the scan is reconstructed without reference lines" in t for t in other.texts)
    assert "calibration_from" not in notes(other.images[0])
    aliased = reference.nrmse(pixels(other), pixels(together))
    assert aliased > 0.2


def test_lines_that_are_missing(own_server, tmp_path):
    """A warning and what was done, or an error where the pipeline asks for them; then they come."""
    messages = simulate(tmp_path, *PLANE, *SEPARATE)
    lines, images = halves(messages)
    asking = ("- external_calibration", "- external_calibration: {require_calibration: true}")
    strict = on("cartesian_grappa", "cpu", asking)
    lost = exchange(own_server, named("cartesian_plain"), images)
    (warning,) = [text for text in lost.texts if "is not known here (reference lines are kept for 24 h" in text]
    assert warning.startswith("WARNING") and ID[-8:] in warning and ID not in warning
    assert "reconstructed without reference lines" in warning and len(lost.images) == 1
    refused = exchange(own_server, strict, images, errors=True)
    (error,) = refused.errors()
    assert "require_calibration: true" in error and refused.images == []
    # A calibration scan that breaks off is none.
    with socket.create_connection(own_server.address, timeout=60) as connection:
        connection.sendall(b"".join([named("cartesian_plain"), *lines]))
    own_server.wait_for("summary: (incomplete|peer gone)", 20)  # the client may be gone before it is told
    assert ask(own_server, f"echotrain::calibration/{ID}") == "unknown"
    exchange(own_server, named("cartesian_plain"), lines)
    assert len(exchange(own_server, strict, images).images) == 1


def test_what_is_known_and_what_is_told(own_server, tmp_path):
    """QUERY and the admin port tell what is kept; neither they, nor the log, nor any file tells whose it was."""
    lines, _ = halves(simulate(tmp_path, *PLANE, *SEPARATE))
    assert ask(own_server, f"echotrain::calibration/{ID}") == "unknown"
    exchange(own_server, named("cartesian_plain"), lines)
    assert ask(own_server, f"echotrain::calibration/{ID}") == f"known 8 coils {len(lines) - 1} lines 0.0 h"
    connection = http.client.HTTPConnection(*own_server.admin, timeout=20)
    connection.request("GET", "/calibration")
    (entry,) = json.load(connection.getresponse())["calibration"]
    connection.close()
    assert (entry["coils"], entry["lines"]) == (8, len(lines) - 1) and 0 <= entry["age_s"] < 600
    assert entry["bytes"] >= 8 * 8 * 48 * (len(lines) - 1)
    cache = tmp_path / "own" / "cache"
    assert not [f for f in cache.rglob("*calibration*")]  # k-space shows the patient
    for secret in (ID, "66056", "Doe"):
        assert secret not in own_server.text() and secret not in json.dumps(entry)


def test_a_token_is_asked_for(tmp_path):
    place = tmp_path / "guarded"
    place.mkdir()
    (place / "tokens").write_text("0123456789abcdef\n")
    (place / "tokens").chmod(0o600)
    guarded = Server(place, "--token-file", place / "tokens")
    lines, _ = halves(simulate(tmp_path, *PLANE, *SEPARATE))
    config = wire.config_text("token: 0123456789abcdef\nuse: cartesian_plain\n")
    exchange(guarded, config, lines)
    assert ask(guarded, f"echotrain::calibration/{ID}") == "unknown"
    reply = wire.exchange(guarded.address, [config, wire.query(f"echotrain::calibration/{ID}"), wire.close()])
    assert reply.responses[0][1].startswith("known 8 coils")
    assert guarded.stop() == 0
