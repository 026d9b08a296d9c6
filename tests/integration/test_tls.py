"""TLS: Python's ssl module as the client, certificates made here by openssl."""

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess

import numpy as np
import pytest

import scans
import wire
from programs import BIN, Server, ends_well, run_client, simulated_scan

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name):
        self.folder = folder
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)  # fmt: skip

    def issue(self, name, hosts="DNS:localhost,IP:127.0.0.1", subject=None):
        """A certificate and its key."""
        request, certificate, key = (self.folder / f"{name}{end}" for end in (".csr", ".pem", ".key"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)  # fmt: skip
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName={hosts}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-days", 2, "-extfile", extensions, "-out", certificate)  # fmt: skip
        return certificate, key

    def revoke(self, *certificates):
        """The list of those that are revoked."""
        database, config, revoked = (self.folder / name for name in ("index.txt", "ca.conf", "revoked.crl"))
        database.touch()
        config.write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {database}\ndefault_md = sha256\n")
        own = ("ca", "-config", config, "-cert", self.certificate, "-keyfile", self.key)
        for each in certificates:
            openssl(*own, "-revoke", each)
        openssl(*own, "-gencrl", "-crldays", 2, "-out", revoked)
        return revoked


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "echotrain-test-ca")


@pytest.fixture(scope="module")
def pair(authority):
    return authority.issue("server")


class TlsServer(Server):
    def __init__(self, folder, pair, *arguments):
        super().__init__(folder, "--tls-port", "0", "--tls-certificate", pair[0], "--tls-key", pair[1], *arguments)
        self.tls_port = int(self.wait_for(r"listening with TLS on \S+:(\d+)")[1])


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory, pair):
    server = TlsServer(tmp_path_factory.mktemp("tls"), pair)
    yield from ends_well(server)


def trusting(authority, pair=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    if pair:
        context.load_cert_chain(*pair)
    return context


def connect(server, context):
    raw = socket.create_connection(("127.0.0.1", server.tls_port), timeout=30)
    return context.wrap_socket(raw, server_hostname="localhost")


def exchange(server, context, messages):
    """Sends everything, then reads up to the server's close_notify: two threads cannot share an SSLSocket."""
    with connect(server, context) as connection:
        with contextlib.suppress(OSError):  # a client that is turned away learns it from what it receives
            connection.sendall(b"".join(messages))
        received = []
        while chunk := connection.recv(1 << 20):
            received.append(chunk)
    return wire.parse(b"".join(received))


def stream(frames=1):
    """A Cartesian scan of noise."""
    kspace = np.random.default_rng(3).standard_normal((frames, 2, 32, 32, 2)).astype("<f4").view("<c8")[..., 0]
    return scans.cartesian(kspace).stream(wire.config_file("cartesian_plain"))


def images_of(reply):
    assert not reply.errors(), reply.texts
    return [image.pixels for image in reply.images]


def test_images_over_tls_are_those_over_the_plain_port(tls_server, authority):
    scan = stream(frames=3)
    plain = images_of(wire.exchange(tls_server.address, scan))
    assert len(plain) == 3
    for context in (trusting(authority), trusting(authority)):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for got, expected in zip(images_of(exchange(tls_server, context, scan)), plain, strict=True):
            np.testing.assert_array_equal(got, expected)
        context.maximum_version = ssl.TLSVersion.TLSv1_2


def test_tls_is_modern(tls_server, authority):
    with connect(tls_server, trusting(authority)) as connection:
        assert connection.version() == "TLSv1.3"
    old = trusting(authority)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(tls_server, old) as connection:
        name = connection.cipher()[0]
        assert name.startswith("ECDHE-") and ("GCM" in name or "CHACHA20" in name)
    old.set_ciphers("AES128-SHA:AES256-SHA")  # no forward secrecy
    with pytest.raises(ssl.SSLError):
        connect(tls_server, old)


def test_who_does_not_speak_tls_is_turned_away_and_others_are_not(tls_server, authority):
    with socket.create_connection(("127.0.0.1", tls_server.tls_port), timeout=30) as plain:
        plain.sendall(b"".join(stream()))
        try:
            while plain.recv(4096):
                pass
        except ConnectionResetError:
            pass
    tls_server.wait_for(r"the TLS handshake with 127\.0\.0\.1:\d+ failed")
    assert len(images_of(exchange(tls_server, trusting(authority), stream()))) == 1


def test_a_handshake_that_stalls_is_ended(tmp_path, pair):
    server = TlsServer(tmp_path, pair, "--connect-timeout-s", "0.3")
    with socket.create_connection(("127.0.0.1", server.tls_port), timeout=30) as silent:
        silent.sendall(b"\x16\x03\x01")
        with pytest.raises(ConnectionResetError):
            assert not silent.recv(1)
            raise ConnectionResetError
    server.wait_for("no TLS handshake with")
    assert server.stop() == 0


def test_clients_must_show_a_certificate_where_asked(tmp_path, pair, authority):
    server = TlsServer(tmp_path, pair, "--tls-client-ca", authority.certificate)
    good = trusting(authority, authority.issue("client"))
    assert len(images_of(exchange(server, good, stream()))) == 1
    stranger = Authority(tmp_path, "stranger").issue("unknown")
    for context in (trusting(authority), trusting(authority, stranger)):
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            exchange(server, context, stream())
    assert len(images_of(exchange(server, good, stream()))) == 1
    assert server.stop() == 0


def test_a_revoked_certificate_is_refused_without_a_restart(tmp_path, pair):
    authority = Authority(tmp_path, "revoking")
    lost, kept = (authority.issue(name) for name in ("lost", "kept"))
    listed = authority.revoke()
    server = TlsServer(tmp_path, pair, "--tls-client-ca", authority.certificate, "--tls-client-crl", listed)

    def context(client):
        made = ssl.create_default_context()
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        made.load_cert_chain(*client)
        return made

    assert len(images_of(exchange(server, context(lost), stream()))) == 1
    server.wait_for("summary: complete .* client='certificate:CN=lost'")
    authority.revoke(lost[0])
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("the TLS certificates were read again")
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        exchange(server, context(lost), stream())
    server.wait_for("handshake with .* failed: .*(revoked|verify failed)")
    assert len(images_of(exchange(server, context(kept), stream()))) == 1
    assert server.stop() == 0


def test_a_certificate_without_a_name_is_refused(tmp_path, pair, authority):
    server = TlsServer(tmp_path, pair, "--tls-client-ca", authority.certificate)
    (error,) = exchange(server, trusting(authority, authority.issue("nobody", "RID:1.2.3.4", "/")), stream()).errors()
    assert "unauthorized: the client's certificate has no subject" in error
    server.wait_for("unauthorized: the client's certificate has no subject")
    named = trusting(authority, authority.issue("named", "DNS:mr1", "/"))
    assert len(images_of(exchange(server, named, stream()))) == 1
    assert server.stop() == 0


def test_a_certificate_is_replaced_without_a_restart(tmp_path, authority):
    first, second = authority.issue("first"), authority.issue("second")
    live = tmp_path / "live.pem", tmp_path / "live.key"

    def install(pair):
        for source, target in zip(pair, live, strict=True):
            shutil.copy(source, target)

    def shown():
        with connect(server, trusting(authority)) as connection:
            return dict(field[0] for field in connection.getpeercert()["subject"])["commonName"]

    install(first)
    server = TlsServer(tmp_path, live)
    assert shown() == "first"
    with connect(server, trusting(authority)) as running:  # a scan that runs meanwhile
        scan = b"".join(stream())
        running.sendall(scan[: len(scan) // 2])
        install(second)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("certificates were read again")
        assert shown() == "second"
        live[1].write_text("no key\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("certificates stay as they were: private key '.*live.key' cannot be used")
        assert shown() == "second"
        running.sendall(scan[len(scan) // 2 :])
        received = b""
        while chunk := running.recv(1 << 20):
            received += chunk
        assert len(images_of(wire.parse(received))) == 1
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bind", "0.0.0.0"], "--bind 0.0.0.0 opens the plain port to everybody"),
        (["--bind", "::"], "--allow 10.1.0.0/16"),
        (["--tls-only"], "TLS needs a certificate and its key"),
        (["--tls-certificate", "absent.pem", "--tls-key", "absent.key"], "certificate 'absent.pem' cannot be used"),
        (["--tls-certificate", "PAIR"], "tls.key is missing"),
        (["--allow", "10.0.0.0/33"], "allow: '10.0.0.0/33' is neither a network nor an address"),
    ],
)
def test_what_is_not_safe_or_not_there_does_not_start(arguments, expected, pair):
    arguments = [str(pair[0]) if a == "PAIR" else a for a in arguments]
    done = subprocess.run([BIN / "echotrain-server", "--port", "0", "--tls-port", "0", *arguments],
                          capture_output=True, text=True, timeout=20)  # fmt: skip
    assert done.returncode in (1, 2), done
    assert expected in done.stderr


def test_a_key_of_another_certificate_is_refused(pair, authority):
    other = authority.issue("other")
    done = subprocess.run([BIN / "echotrain-server", "--port", "0", "--tls-certificate", pair[0], "--tls-key", other[1]],
                          capture_output=True, text=True, timeout=20)  # fmt: skip
    assert done.returncode == 1
    assert "key" in done.stderr and "cannot be used" in done.stderr


def test_only_the_networks_named_may_use_the_plain_port(tmp_path, pair, authority):
    server = TlsServer(tmp_path, pair, "--bind", "0.0.0.0", "--allow", "10.0.0.0/8", "--allow", "192.0.2.7")
    reply = wire.exchange(("127.0.0.1", server.port), stream())
    assert len(reply.errors()) == 1 and "not-allowed: the address 127.0.0.1" in reply.errors()[0]
    assert len(images_of(exchange(server, trusting(authority), stream()))) == 1  # any address may use TLS
    assert server.stop() == 0


def test_tls_alone(tmp_path, pair, authority):
    command = [BIN / "echotrain-server", "--bind", "0.0.0.0", "--tls-only", "--tls-port", "0"]
    process = subprocess.Popen([*command, "--tls-certificate", pair[0], "--tls-key", pair[1]], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    line = process.stdout.readline()
    assert line.startswith("listening with TLS on 0.0.0.0:")
    server = type("Server", (), {"tls_port": int(line.rsplit(":", 1)[1])})
    assert len(images_of(exchange(server, trusting(authority), stream()))) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


# --- our own client ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scan_file(tmp_path_factory):
    return simulated_scan(tmp_path_factory.mktemp("scan") / "scan.h5", "--trajectory", "cartesian", "--matrix", 64,
                          "--coils", 4, "--frames", 20)  # fmt: skip


def send(port, scan, output, *arguments):
    return run_client("send", scan, "-c", "cartesian_plain", "-p", port, "-o", output, *arguments)


def test_our_client_sends_over_tls(tls_server, authority, scan_file, tmp_path):
    plain = send(tls_server.port, scan_file, tmp_path / "plain.h5")
    assert plain.returncode == 0, plain.stderr
    for host in ("127.0.0.1", "localhost"):
        done = send(tls_server.tls_port, scan_file, tmp_path / "tls.h5", "--tls", "--ca", authority.certificate, "-a", host)
        assert done.returncode == 0, done.stderr
        expected, images = (scans.read_images(tmp_path / name) for name in ("plain.h5", "tls.h5"))
        np.testing.assert_array_equal(images[1], expected[1])
        assert len(images[1]) == 20


def test_our_client_says_that_a_port_is_for_tls(tls_server, scan_file, tmp_path):
    for more in ((), ("--detach",)):
        done = run_client("send", scan_file, "-c", "radial_2d", "-p", tls_server.tls_port, "-o", tmp_path / "o.h5", *more)
        assert done.returncode == 1 and "add --tls" in done.stderr, done.stderr
    done = run_client("scans", "-p", tls_server.tls_port)
    assert done.returncode == 1 and "add --tls" in done.stderr, done.stderr


def test_our_client_says_why_it_does_not_trust_a_server(tls_server, tmp_path, scan_file, pair):
    stranger = Authority(tmp_path, "stranger")
    output = tmp_path / "images.h5"
    for arguments, expected in (
        (["--tls", "--ca", stranger.certificate], "is not to be trusted"),
        (["--tls"], "is not to be trusted"),
        (["--ca", stranger.certificate], "add --tls"),
        (["--tls", "--cert", pair[0]], "belong together"),
        (["--tls", "--ca", tmp_path / "absent.pem"], "--ca"),
    ):
        done = send(tls_server.tls_port, scan_file, output, *arguments)
        assert done.returncode != 0 and expected in done.stderr, done.stderr
        assert not output.exists()
    plain = send(tls_server.port, scan_file, output, "--tls", "--timeout", "5")
    assert plain.returncode != 0 and "TLS" in plain.stderr


def test_our_client_wants_the_certificate_of_the_host_it_asked_for(tmp_path, authority, scan_file):
    server = TlsServer(tmp_path, authority.issue("elsewhere", "DNS:other.example,IP:192.0.2.1"))
    for host in ("127.0.0.1", "localhost"):
        done = send(server.tls_port, scan_file, tmp_path / "a.h5", "--tls", "--ca", authority.certificate, "-a", host)
        assert done.returncode == 1 and "mismatch" in done.stderr, done.stderr
    assert server.stop() == 0


def test_our_client_shows_its_certificate(tmp_path, pair, authority, scan_file):
    server = TlsServer(tmp_path, pair, "--tls-client-ca", authority.certificate)
    certificate, key = authority.issue("sender")
    trust = ["--tls", "--ca", authority.certificate]
    done = send(server.tls_port, scan_file, tmp_path / "a.h5", *trust, "--cert", certificate, "--key", key)
    assert done.returncode == 0, done.stderr
    without = send(server.tls_port, scan_file, tmp_path / "b.h5", *trust)
    assert without.returncode == 1 and "certificate required" in without.stderr, without.stderr
    assert server.stop() == 0
