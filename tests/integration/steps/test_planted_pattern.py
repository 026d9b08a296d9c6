"""Nothing of one client's data is in what another one gets: memory that is used again is overwritten or never read.

Client A sends scans and images whose every sample is one pattern of bits. Then client B sends scans that leave as much
as they can to what lies in memory: frames of which most lines are missing, partial echoes, other sizes, other types,
images that pass through, a Python step that searches all of its process's memory. B's images are compared with a
Fourier transform in double precision of what B sent, zero where B sent nothing, and all bytes that B gets and the
bytes of B's capture are searched for the pattern.
"""

import sys

import numpy as np
import pytest

import reference
import scans
import steps
import wire
from faulty_clients import talk
from programs import Server, ends_well, variant
from stopping import images

PATTERN = bytes.fromhex("c3a55a3c")  # a float of about 0.0133, whose bytes are rare
NOTE = ('"""Tells how often the pattern is in the memory of this process, beside the one place that it searches with."""\n'
        "import re\n\n"
        "def process(connection, config, header):\n"
        "    items = list(connection)\n"
        "    wanted, found = bytes([0xC3 ^ 0xFF, 0xA5 ^ 0xFF, 0x5A ^ 0xFF, 0x3C ^ 0xFF]), 0\n"
        "    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:\n"
        "        for line in maps:\n"
        "            begin, end, rights = re.match('(\\\\w+)-(\\\\w+) (\\\\S+)', line).groups()\n"
        "            if rights[0] != 'r' or rights[1] != 'w':\n"
        "                continue\n"
        "            memory.seek(int(begin, 16))\n"
        "            part = memory.read(min(int(end, 16) - int(begin, 16), 64 << 20))\n"
        "            found += part.count(bytes(b ^ 0xFF for b in wanted) * 4)\n"
        "            del part\n"
        "    connection.send_logging('INFO    ', f'pattern {found} times, {len(items)} items')\n"
        "    for item in items:\n"
        "        connection.send_image(item)\n")  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    modules = folder / "modules"
    modules.mkdir()
    (modules / "search.py").write_text(NOTE)
    server = Server(folder, "--backend", "cpu", "--capture-directory", folder / "captures", "--python", sys.executable,
                    "--python-modules", modules, "--client-pipelines", "all")  # fmt: skip
    server.captures = folder / "captures"
    yield from ends_well(server)


def planted(coils, matrix, frames):
    one = np.frombuffer(PATTERN * 2, "<c8")[0]
    return np.full((frames, coils, matrix, matrix), one, np.complex64)


def plant(server):
    """Fills slabs, arrays, images and a step's memory with the pattern, through several kinds of scans."""
    for coils, matrix, frames in ((8, 128, 2), (2, 32, 4), (1, 256, 1)):
        scan = scans.cartesian(planted(coils, matrix, frames))
        for config in (wire.config_file("cartesian_plain"), wire.config_file("cg_sense_cartesian_realtime")):
            assert wire.parse(talk(server.address, b"".join(scan.stream(config)))).images
    for size in (64, 256):
        body = images(4, size)
        body[1:] = [message[: -4 * size * size] + PATTERN * (size * size) for message in body[1:]]
        for config in (wire.config_file("passthrough"), steps.pipeline(steps.python("search"), head="input: images")):
            assert talk(server.address, b"".join([config, *body, wire.close()])).count(PATTERN) > size
    for path in server.captures.glob("*.mrd*"):
        path.unlink(missing_ok=True)


def sent_by_b(matrix, coils, lines, seed):
    rng = np.random.default_rng(seed)
    kspace = np.zeros((1, coils, matrix, matrix), np.complex64)
    kspace[0][:, lines] = rng.standard_normal((coils, len(lines), matrix, 2)).astype("<f4").view("<c8")[..., 0]
    return kspace


@pytest.mark.parametrize("matrix, coils", [(32, 2), (128, 8), (96, 3)])
def test_scans_with_missing_lines_show_zeros(server, matrix, coils):
    plant(server)
    rng = np.random.default_rng(matrix)
    for round_ in range(3):
        lines = sorted(rng.choice(matrix, 3, replace=False)) + [matrix - 1]
        kspace = sent_by_b(matrix, coils, sorted(set(lines)), round_)
        scan = scans.cartesian(kspace)
        scan.messages = [scan.messages[y] for y in sorted(set(lines))]
        text = variant("cartesian_plain", ("backend: auto", "backend: cpu"), ("method: rss", "method: none"),
                       ("component: magnitude", "component: complex"))  # fmt: skip
        stream = b"".join(scan.stream(wire.config_text(text)))
        received = talk(server.address, stream)
        (image,) = wire.parse(received).images
        truth = reference.centred_fft(kspace[0], matrix)
        assert reference.nrmse(image.pixels[:, 0], truth) < 1e-5
        assert PATTERN not in received
        captured = [path.read_bytes() for path in server.captures.glob("*.mrd")]
        assert stream in captured and not any(PATTERN in each for each in captured)
        for path in server.captures.glob("*.mrd*"):
            path.unlink(missing_ok=True)


def test_images_and_steps_of_another_client_see_nothing(server):
    for size in (32, 64, 200):
        plant(server)
        body = images(3, size)
        passed = talk(server.address, b"".join([wire.config_file("passthrough"), *body, wire.close()]))
        assert PATTERN not in passed and len(wire.parse(passed).images) == 3
        config = steps.pipeline(steps.python("search"), head="input: images")
        reply = wire.parse(talk(server.address, b"".join([config, *body, wire.close()])))
        assert any("pattern 0 times, 3 items" in text for text in reply.texts), reply.texts


def test_a_message_that_ends_early_shows_nothing_of_its_slab(server):
    """What has not come of a readout is never read: neither by the scan nor by its capture."""
    plant(server)
    kspace = sent_by_b(64, 4, range(64), 1)
    stream = b"".join(scans.cartesian(kspace).stream(wire.config_file("cartesian_plain")))
    for cut in (10_000, 40_001, len(stream) // 2 + 77):
        received = talk_and_stop(server, stream[:cut])
        assert PATTERN not in received
        for path in server.captures.glob("*.mrd"):
            assert stream.startswith(path.read_bytes())


def talk_and_stop(server, part):
    import socket

    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))
