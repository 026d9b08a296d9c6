"""Noise that is sent as a scan of its own, and named by scans that come later: over other connections, after a restart,
to other servers. A measured scan (12 coils, R=2) and simulated ones against float64 whitening.

docs/configure.md says what is kept, where and for how long.
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import threading

import numpy as np
import pytest

import reference
import scans
import wire
from programs import Server, measured, run_client, simulated_scan

ID = "66056_Doe_107201_107210_424.noise-7"
PATIENT = "<subjectInformation><patientName>Doe^Jane</patientName><patientID>PAT-4711</patientID></subjectInformation>"
COILS = 4


def pipeline(noise="{}", combine="none", backend="cpu"):
    return wire.config_text(
        f"echotrain: 1\nname: whitened\ndescription: of a test\nbackend: {backend}\n"
        f"pipeline:\n  - noise_adjust: {noise}\n  - cartesian_kspace\n  - fft\n"
        f"  - coil_combine: {{method: {combine}}}\n"
        f"  - image: {{component: {'complex' if combine == 'none' else 'magnitude'}, type: float}}\n"
    )


class Folder:
    """Servers that share a cache folder, at once or one after the other."""

    def __init__(self, path):
        self.path, self.running = path, []
        (path / "cache").mkdir(parents=True)

    def server(self, *arguments, **environment):
        place = self.path / f"server{len(self.running)}"
        place.mkdir()
        environment = {"ECHOTRAIN_CACHE_DIR": str(self.path / "cache"), **environment}
        self.running.append(Server(place, *arguments, environment=environment))
        return self.running[-1]

    def files(self, suffix=""):
        return [f for f in (self.path / "cache").rglob("*") if f.is_file() and f.name.endswith(suffix)]


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "shared")
    yield made
    codes = [server.stop() for server in made.running]
    assert not any(codes), codes


def exchange(server, messages, *queries):
    """The reply to a scan [config, header, readouts...], or to questions."""
    return wire.exchange(server.address, [*messages, *(wire.query(q) for q in queries), wire.close()])


def ask(server, name):
    ((_, text),) = exchange(server, [], name).responses
    return text


def listed(server):
    connection = http.client.HTTPConnection(*server.admin, timeout=20)
    try:
        connection.request("GET", "/noise")
        return json.load(connection.getresponse())["noise"]
    finally:
        connection.close()


def image(reply):
    """The coil images of a scan of one frame, and what its meta attributes say of noise."""
    assert not reply.errors(), reply.errors()
    (one,) = reply.images
    meta = dict(re.findall(r"<name>(noise\w*)</name>\s*<value>([^<]*)", one.attributes))
    return one.pixels, meta


def header_xml(measurement="", noise_of="", labels=(), nx=32, ny=32, kind="Noise"):
    dependency = f"<measurementDependency><dependencyType>{kind}</dependencyType><measurementID>{noise_of}"
    dependency += "</measurementID></measurementDependency>"
    names = "".join(
        f"<coilLabel><coilNumber>{c}</coilNumber><coilName>{name}</coilName></coilLabel>"
        for c, name in enumerate(labels)
    )
    xml = scans.header_xml("cartesian", (nx, ny, 1), readouts=ny, system=names)
    about = f"<measurementID>{measurement}</measurementID>" if measurement else ""
    about += "<patientPosition>HFS</patientPosition>" + (dependency if noise_of else "")
    start = xml.index("<acquisitionSystemInformation>")
    return f"{xml[:start]}{PATIENT}<measurementInformation>{about}</measurementInformation>{xml[start:]}"


def mixed(coils, samples, seed):
    """Correlated noise of coils that differ."""
    random = np.random.default_rng(seed)
    white = random.standard_normal((coils, samples)) + 1j * random.standard_normal((coils, samples))
    mix = np.eye(coils) * np.linspace(1, 2, coils)[:, None] + 0.3 * random.standard_normal((coils, coils))
    return (mix @ white).astype(np.complex64)


def noise_scan(measurement=ID, labels=(), coils=COILS, samples=512, seed=1):
    """The messages of a noise scan without its configuration, and the noise."""
    noise = mixed(coils, samples, seed)
    lines = [wire.acquisition(part, flags=wire.NOISE, sample_time_us=30.0) for part in np.split(noise, 4, axis=1)]
    return [wire.header(header_xml(measurement, labels=labels)), *lines], noise


def image_scan(noise_of=ID, labels=(), coils=range(COILS), kind="Noise"):
    """The messages of a scan of some coils, and its k-space."""
    random = np.random.default_rng(3)
    parts = random.standard_normal((2, COILS, 32, 32)).astype(np.float32)
    kspace = (parts[0] + 1j * parts[1]).astype(np.complex64)[list(coils)]
    lines = [wire.acquisition(kspace[:, y], None, wire.LAST_IN_SLICE * (y == 31), y) for y in range(32)]
    return [wire.header(header_xml("another", noise_of, labels, kind=kind)), *lines], kspace


def whitened(kspace, noise):
    """By float64: noise of 30 us a sample, images of 4."""
    white = np.einsum("ab,byx->ayx", reference.whitening(noise, 30 / 4), kspace)
    return reference.centred_fft(white, kspace.shape[2])


def keep(server, scan, coils=COILS):
    reply = exchange(server, [pipeline(), *scan])
    assert reply.images == [] and not reply.errors() and not reply.said("WARNING"), reply.texts
    assert any(f"noise of {coils} coils" in text and "is kept for scans that name" in text for text in reply.texts)


def not_whitened(reply, kspace, why):
    pixels, meta = image(reply)
    assert reference.nrmse(pixels[:, 0], reference.centred_fft(kspace, kspace.shape[2])) <= 1e-5
    assert meta == {"noise": "none"}
    (warning,) = (text for text in reply.said("WARNING") if "noise scan" in text)
    assert why in warning and "images are NOT whitened" in warning, warning
    assert ID not in warning and ID[-8:] in warning


def test_a_measured_scan_in_one_and_in_two_connections(folder):
    """The same bits; and where there is next to no signal, the standard deviation is near 1. Noise was measured at 30
    us a sample, the lines at 7.2: without these in the matrix it would be 2.04 times as much."""
    names = [measured(f"grappa_trufi_siemens/{name}.h5") for name in ("trufi", "noise", "scan")]
    one, noise, scan = (scans.read_messages(name) for name in names)
    server = folder.server()
    before, _ = image(exchange(server, [pipeline("{noise: none}"), *scan]))
    together, meta = image(exchange(server, [pipeline(), *one]))
    assert meta == {"noise": "scan", "noise_samples": "256"}
    assert ask(server, "echotrain::noise/trufi-noise") == "unknown"  # trufi.h5 has no ID
    keep(server, noise, 12)
    reply = exchange(server, [pipeline(), *scan])
    apart, meta = image(reply)
    np.testing.assert_array_equal(apart, together)
    assert apart.shape == (12, 1, 64, 128) and reference.nrmse(apart, before) > 0.1
    age = int(meta.pop("noise_age_s"))
    assert meta == {"noise": "store", "noise_samples": "256"} and 0 <= age < 600
    assert any("whitened by the noise of another scan" in text for text in reply.said("INFO"))
    assert re.fullmatch(r"known 12 coils 30 us 0\.\d h", ask(server, "echotrain::noise/trufi-noise"))

    _, heads, _, data = scans.read_acquisitions(names[2])
    _, _, _, noise_data = scans.read_acquisitions(names[1])
    kspace = np.zeros((12, 64, 256), np.complex64)
    for head, line in zip(heads, data):
        kspace[:, head["idx"]["kspace_encode_step_1"]] = line
    white = np.einsum("ab,byx->ayx", reference.whitening(noise_data[0], 30 / 7.2), kspace)
    # Transformed back along y: the lines of the lattice, whatever became of the reference lines between them.
    lines, truth = (
        np.fft.fftshift(np.fft.fft(np.fft.ifftshift(of, axes=1), axis=1), axes=1)[:, ::2]
        for of in (apart[:, 0], reference.centred_fft(white, 128))
    )
    assert reference.nrmse(lines, truth) <= 1e-5
    beside = np.r_[:16, -16:0]  # columns beside the object, of which the outermost lines have little
    thin = np.sqrt(256) * lines[:, [0, 1, 2, 29, 30, 31]][:, :, beside].real
    assert 0.9 < np.median(np.abs(thin)) / 0.6745 < 1.4


def test_what_a_restart_leaves(folder, backend):
    """A server that was not there when the noise came; one that keeps noise in memory alone; one of another folder."""
    noise_messages, noise = noise_scan()
    scan, kspace = image_scan()
    first = folder.server()
    keep(first, noise_messages)
    expected, _ = image(exchange(first, [pipeline(backend=backend), *scan]))
    assert reference.nrmse(expected[:, 0], whitened(kspace, noise)) <= 1e-5
    assert first.stop() == 0

    later = folder.server()
    found, meta = image(exchange(later, [pipeline(backend=backend), *scan]))
    np.testing.assert_array_equal(found, expected)
    assert meta["noise"] == "store" and meta["noise_samples"] == "512"
    for file in folder.files(".noise"):
        file.unlink()
    forgetful = folder.server(ECHOTRAIN_SCAN_STORE_DISK="off")
    not_whitened(exchange(forgetful, [pipeline(backend=backend), *scan]), kspace, "is not known here")
    keep(forgetful, noise_messages)
    np.testing.assert_array_equal(image(exchange(forgetful, [pipeline(backend=backend), *scan]))[0], expected)
    assert not folder.files(".noise")


def test_noise_is_told_to_those_with_a_token(folder, tmp_path):
    noise_messages, _ = noise_scan()
    token = "0123456789abcdef"
    (tmp_path / "tokens").write_text(token + "\n")
    (tmp_path / "tokens").chmod(0o600)
    guarded = folder.server("--token-file", tmp_path / "tokens")
    config = wire.config_text(f"token: {token}\nuse: cartesian_plain\n")
    reply = exchange(guarded, [config, *noise_messages])
    assert any("is kept for scans that name" in text for text in reply.texts), reply.texts
    for question in (f"echotrain::noise/{ID}", f"echotrain::noise_matrix/{ID}"):
        assert ask(guarded, question) == "unknown"
        ((_, text),) = exchange(guarded, [config], question).responses
        assert text.startswith(f"known {COILS} coils" if "matrix" not in question else f"coils {COILS} ")


def test_two_servers_of_one_folder(folder):
    """What one has been sent, the other one knows, from that moment on; both may write at once."""
    here, there = folder.server(), folder.server()
    assert ask(there, f"echotrain::noise/{ID}") == "unknown"
    noise_messages, _ = noise_scan()
    scan, _ = image_scan()
    keep(here, noise_messages)
    pixels = [image(exchange(server, [pipeline(), *scan]))[0] for server in (here, there)]
    np.testing.assert_array_equal(*pixels)

    def many(server, begin):
        for i in range(begin, begin + 5):
            keep(server, noise_scan(f"scan{i}")[0])

    threads = [threading.Thread(target=many, args=(s, n)) for s, n in ((here, 0), (there, 5), (here, 10))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in (here, there):
        answers = exchange(server, [], *(f"echotrain::noise/scan{i}" for i in range(15))).responses
        assert all(text.startswith(f"known {COILS} coils 30 us") for _, text in answers), answers
        assert len(listed(server)) == 16


def test_coils_are_matched_by_their_labels(folder):
    """Another order of the coils, and some of them: as if the noise had come in that order. Other coils: not at all."""
    server = folder.server()
    noise_messages, noise = noise_scan(labels=["A", "B", "C", "D"])
    keep(server, noise_messages)
    for order in ([0, 1, 2, 3], [2, 0, 3, 1], [3, 1]):
        scan, kspace = image_scan(labels=["ABCD"[c] for c in order], coils=order)
        pixels, meta = image(exchange(server, [pipeline(), *scan]))
        assert meta["noise"] == "store"
        assert reference.nrmse(pixels[:, 0], whitened(kspace, noise[order])) <= 1e-5, order
    scan, kspace = image_scan(labels=["A", "B", "C", "X"])
    not_whitened(exchange(server, [pipeline(), *scan]), kspace, "has no coil 'X'")
    scan, kspace = image_scan(coils=[0, 1, 2])
    not_whitened(exchange(server, [pipeline(), *scan]), kspace, "the 0 labels of this scan do not name its 3 coils")


def test_noise_that_is_not_known(folder):
    """A warning and images that are not whitened; an error where the pipeline asks for noise. Both serve the next."""
    server = folder.server()
    scan, kspace = image_scan()
    not_whitened(exchange(server, [pipeline(), *scan]), kspace, "is not known here (noise is kept for 24 h)")
    refused = exchange(server, [pipeline("{require_noise: true}"), *scan])
    (error,) = refused.errors()
    assert "require_noise: true" in error and ID[-8:] in error and ID not in error and refused.images == []
    unnamed = exchange(server, [pipeline("{require_noise: true}"), *image_scan(noise_of="")[0]])
    assert len(unnamed.errors()) == 1 and unnamed.images == []
    # Dependencies of another type are not for whitening: no warning.
    other = exchange(server, [pipeline(), *image_scan(kind="SenMap")[0]])
    assert image(other)[1] == {"noise": "none"} and not any("noise scan" in text for text in other.texts)

    noise_messages, noise = noise_scan()
    keep(server, noise_messages)
    pixels, _ = image(exchange(server, [pipeline("{require_noise: true}"), *scan]))
    assert reference.nrmse(pixels[:, 0], whitened(kspace, noise)) <= 1e-5


def test_a_noise_scan_that_breaks_off_is_not_kept(folder):
    server = folder.server()
    noise_messages, _ = noise_scan()
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"".join([pipeline(), *noise_messages]))
    server.wait_for("summary: incomplete", 20)
    assert ask(server, f"echotrain::noise/{ID}") == "unknown"
    assert not folder.files(".noise")


def digest(data, seed):
    """The checksum of a record, as array_store.h describes it: 64 bits of words that are mixed and joined."""
    mask = (1 << 64) - 1
    value = seed ^ (len(data) * 0x9E3779B97F4A7C15 & mask)
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        word = word * 0xFF51AFD7ED558CCD & mask
        value = (value ^ word ^ word >> 32) * 0xC4CEB9FE1A85EC53 & mask
        value ^= value >> 29
    return value


def test_files_that_are_old_or_damaged(folder):
    """Neither is used: the image is as if the noise had never come."""
    maker = folder.server()
    keep(maker, noise_scan()[0])
    (path,) = folder.files(".noise")
    good = path.read_bytes()
    scan, kspace = image_scan()

    # 8 bytes magic, 16 of the key's digest, 8 checksum; 16 and 16 of the client's and of its ID's, the record's time in
    # seconds; of the record 4 + 8 + 8 bytes, and then the time again.
    payload = good[32:]
    assert struct.unpack("<Q", good[24:32])[0] == digest(payload, 7)
    salt = (path.parent / "salt").read_bytes()

    def digest_of(what, *texts):
        parts = (struct.pack("<Q", len(text)) + text.encode() for text in texts)
        return hashlib.sha256(salt + what + b"".join(parts)).digest()[:16]

    client = "address:127.0.0.1"
    assert good[8:24] == digest_of(b"r", client, "", ID)
    assert payload[:32] == digest_of(b"o", client) + digest_of(b"s", client, ID)
    (made,) = struct.unpack("<q", payload[32:40])
    assert payload[32:40] == payload[60:68]

    def aged(seconds):
        then = struct.pack("<q", made - seconds)
        older = payload[:32] + then + payload[40:60] + then + payload[68:]
        return good[:24] + struct.pack("<Q", digest(older, 7)) + older

    flipped = bytearray(good)
    flipped[60] ^= 4
    server = folder.server(ECHOTRAIN_SCAN_STORE_HOURS="2")
    for bad in (aged(2 * 3600 + 60), bytes(flipped), good[:-1], b"", b"PK\3\4" + good[4:]):
        path.write_bytes(bad)
        assert ask(server, f"echotrain::noise/{ID}") == "unknown"
        assert listed(server) == []
        not_whitened(exchange(server, [pipeline(), *scan]), kspace, "is not known here (noise is kept for 2 h)")
    path.write_bytes(aged(2 * 3600 - 600))
    pixels, meta = image(exchange(server, [pipeline(), *scan]))
    assert meta["noise"] == "store" and 6600 <= int(meta["noise_age_s"]) < 7200
    assert ask(server, f"echotrain::noise/{ID}").startswith(f"known {COILS} coils 30 us 1.8 h")
    # The server that measured it has it in memory and says so, whatever became of the file.
    path.write_bytes(bytes(flipped))
    np.testing.assert_array_equal(image(exchange(maker, [pipeline(), *scan]))[0], pixels)


def test_the_bounds(folder):
    """A MiB holds three matrices of 128 coils, on disk and in memory; 0 hours and 0 MiB keep nothing."""
    server = folder.server(ECHOTRAIN_SCAN_STORE_MIB="1")
    for i in range(5):
        keep(server, noise_scan(f"large{i}", coils=128)[0], 128)
        assert sum(f.stat().st_size for f in folder.files(".noise")) <= 1 << 20
    for each in (server, folder.server(ECHOTRAIN_SCAN_STORE_MIB="1")):
        answers = [text for _, text in exchange(each, [], *(f"echotrain::noise/large{i}" for i in range(5))).responses]
        assert answers[:2] == ["unknown"] * 2 and all(text.startswith("known 128 coils") for text in answers[2:])
    nothing = folder.server(ECHOTRAIN_SCAN_STORE_HOURS="0")
    exchange(nothing, [pipeline(), *noise_scan()[0]])
    assert ask(nothing, f"echotrain::noise/{ID}") == "unknown" and len(folder.files(".noise")) == 3


def test_nothing_tells_whose_noise_it_was(folder):
    """Neither the folder nor the admin port nor the log has the ID or the patient; the page has what the coils have."""
    server = folder.server()
    noise_messages, noise = noise_scan(labels=["Head1", "Head2", "Neck1", "Neck2"])
    keep(server, noise_messages)
    image(exchange(server, [pipeline(), *image_scan(labels=["Head1", "Head2", "Neck1", "Neck2"])[0]]))
    (entry,) = listed(server)
    covariance = np.cov(noise.astype(np.complex128))
    deviations = np.sqrt(np.diag(covariance).real / 2)
    correlations = np.abs(covariance) / (2 * np.outer(deviations, deviations))
    # Means of the noise are 0, and are not taken from it.
    np.testing.assert_allclose(entry["std"], deviations, rtol=0.02)
    np.testing.assert_allclose(entry["largest_correlation"], np.max(correlations - np.eye(COILS)), atol=0.02)
    assert entry["labels"] == ["Head1", "Head2", "Neck1", "Neck2"] and 0 <= entry["age_s"] < 600
    assert (entry["coils"], entry["samples"], entry["dwell_us"]) == (COILS, 512, 30.0)
    assert entry["id_digest"] == folder.files(".noise")[0].name[:8]

    files = folder.files()
    assert len(files) == 2  # the record and the salt
    held = b"".join(f.read_bytes() + str(f).encode() for f in files) + json.dumps(entry).encode()
    held += server.text().encode()
    for secret in (ID, "66056", "107201", "Doe", "Jane", "PAT-4711"):
        assert secret.encode() not in held, secret
    for f in (*files, files[0].parent):
        assert f.stat().st_mode & 0o077 == 0, f


@contextlib.contextmanager
def answering(text):
    """The port of a server that names a pipeline and answers the next question with `text`, or nothing to the first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for answer in [None] if text is None else ["cartesian_plain: images", text]:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    if answer is not None:
                        connection.sendall(struct.pack("<HQQ", wire.RESPONSE, 1, len(answer)) + answer.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_the_command_line_prints_what_a_server_keeps(folder, tmp_path):
    """The same table of a file and of a server that was sent it; the server may be named with brackets or not."""
    path = tmp_path / f"noise-{os.getpid()}.h5"
    simulated_scan(path, "--trajectory", "cartesian", "--matrix", 32, "--coils", 5, "--noise", 2, "--noise-only",
                   "--measurement-id", ID)  # fmt: skip
    server = folder.server()
    keep(server, scans.read_messages(path), 5)
    of_file = run_client("noise", path, "--correlation", 0.1)
    assert of_file.returncode == 0 and of_file.stdout.count("correlation") >= 2 and " S5\n" in of_file.stdout
    for address in (f"{server.host}:{server.port}", f"[{server.host}]:{server.port}"):
        asked = run_client("noise", "--server", address, "--id", ID, "--correlation", 0.1)
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith(f"measurement {ID}\n  1024 samples of 5 coils, 4 us a sample, 0.")
        assert asked.stdout.splitlines()[2:] == of_file.stdout.splitlines()[2:]

    unknown = run_client("noise", "--server", f"{server.host}:{server.port}", "--id", "nobody")
    assert unknown.returncode == 1 and "keeps no noise of the measurement nobody" in unknown.stderr
    for wrong in ([], ["--id", ID], ["--server", "x"], [path, "--server", "x", "--id", ID], [path, "--tls"],
                  ["--server", "x:y", "--id", ID], ["--server", "x:70000", "--id", ID],
                  ["--server", ":1", "--id", ID]):  # fmt: skip
        assert run_client("noise", *wrong).returncode == 2, wrong
    for answer in ("Unknown query", "coils 2 samples 9 us 1 age_s 1\nlabel A\nlabel B\n1 0\n0.5", "coils 99999999"):
        with answering(answer) as port:
            other = run_client("noise", "--server", f"127.0.0.1:{port}", "--id", ID)
        assert other.returncode == 1 and "does not know the question" in other.stderr, other.stderr
    with answering(None) as port:
        silent = run_client("noise", "--server", f"127.0.0.1:{port}", "--id", ID, "--timeout", 5)
    assert silent.returncode == 1 and "without an answer" in silent.stderr, silent.stderr
    assert server.stop() == 0
    gone = run_client("noise", "--server", f"{server.host}:{server.port}", "--id", ID)
    assert gone.returncode == 1 and str(server.port) in gone.stderr
