"""The Python client's connections: TLS, tokens, and its errors when there is no server, or an unexpected one."""

import asyncio
import shutil
import socket
import ssl
import struct
import threading

import numpy as np
import pytest

from programs import Server, ends_well, variant
from python_client import echotrain, noise, pixels
from test_tls import Authority, TlsServer, authority, pair  # noqa: F401

KSPACE = noise(3, 2, 16, 16)
TOKEN = "it's a: 'quoted' token"

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")


def reconstruct(port, host="127.0.0.1", pipeline="cartesian_plain", **options):
    return echotrain.reconstruct(KSPACE, pipeline=pipeline, host=host, port=port, **options)


async def reconstruct_async(port, **options):
    async with echotrain.AsyncClient("127.0.0.1", port, **options) as client:
        return [image async for image in client.reconstruct(KSPACE, pipeline="cartesian_plain")]


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory, pair):  # noqa: F811
    server = TlsServer(tmp_path_factory.mktemp("tls"), pair)
    yield from ends_well(server)


@needs_openssl
def test_images_over_tls_are_those_over_the_plain_port(tls_server, authority):  # noqa: F811
    expected = pixels(reconstruct(tls_server.port))
    assert len(expected) == 3
    trust = {"tls": True, "ca": authority.certificate}
    for host in ("127.0.0.1", "localhost"):
        np.testing.assert_array_equal(pixels(reconstruct(tls_server.tls_port, host, **trust)), expected)
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    np.testing.assert_array_equal(pixels(reconstruct(tls_server.tls_port, tls=context)), expected)
    np.testing.assert_array_equal(pixels(asyncio.run(reconstruct_async(tls_server.tls_port, **trust))), expected)


@needs_openssl
def test_large_scans_over_tls(tls_server, authority):  # noqa: F811
    """Both ways at once, more than the buffers hold."""
    images = [echotrain.Image(np.full((1, 1, 512, 512), i, np.float32), image_index=i + 1) for i in range(60)]
    with echotrain.Client("localhost", tls_server.tls_port, tls=True, ca=authority.certificate) as client:
        back = list(client.reconstruct(images, pipeline="passthrough", header="Dummy XML header"))
    assert [int(image.data[0, 0, 511, 511]) for image in back] == list(range(60))


@needs_openssl
def test_who_is_not_to_be_trusted_is_not(tls_server, authority, tmp_path):  # noqa: F811
    stranger = Authority(tmp_path, "stranger")
    for options, said in (
        ({"ca": stranger.certificate}, "not to be trusted"),
        ({}, "not to be trusted"),
        ({"ca": tmp_path / "absent.pem"}, "ca=.*absent.pem"),
        ({"ca": authority.certificate, "cert": tmp_path / "absent.pem"}, "cert=.*absent.pem"),
    ):
        with pytest.raises(echotrain.ConnectionFailed, match=said):
            reconstruct(tls_server.tls_port, tls=True, **options)
    server = TlsServer(tmp_path, authority.issue("elsewhere", "DNS:other.example,IP:192.0.2.1"))
    with pytest.raises(echotrain.ConnectionFailed, match="not to be trusted.*mismatch"):
        reconstruct(server.tls_port, tls=True, ca=authority.certificate)
    assert server.stop() == 0


@needs_openssl
def test_the_wrong_one_of_two_ports(tls_server, authority):  # noqa: F811
    with pytest.raises(echotrain.ConnectionFailed, match="TLS port"):
        reconstruct(tls_server.port, tls=True, ca=authority.certificate, timeout=10)
    with pytest.raises(echotrain.EchotrainError, match="TLS"):
        reconstruct(tls_server.tls_port)


@needs_openssl
def test_a_certificate_of_our_own(tmp_path, pair, authority):  # noqa: F811
    server = TlsServer(tmp_path, pair, "--tls-client-ca", authority.certificate)
    certificate, key = authority.issue("sender")
    trust = {"tls": True, "ca": authority.certificate}
    assert len(reconstruct(server.tls_port, cert=certificate, key=key, **trust)) == 3
    with pytest.raises(echotrain.ConnectionFailed, match="certificate required"):
        reconstruct(server.tls_port, **trust)
    assert server.stop() == 0


def test_settings_that_contradict_each_other():
    for options, said in (
        ({"ca": "a.pem"}, "tls=True"),
        ({"tls": True, "key": "a.pem"}, "cert"),
        ({"port": 0}, "port"),
    ):
        with pytest.raises(ValueError, match=said):
            echotrain.Client("127.0.0.1", **options)


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path):
    (tmp_path / "tokens").write_text(TOKEN + "\n")
    server = Server(tmp_path, "--token-file", tmp_path / "tokens", "--default-pipeline", "cartesian_plain")
    yield from ends_well(server)
    assert "quoted" not in server.text()


def test_a_token_goes_with_every_kind_of_pipeline(guarded, tmp_path, monkeypatch):
    monkeypatch.delenv("ECHOTRAIN_TOKEN", raising=False)
    path = tmp_path / "mine.yaml"
    path.write_text("---\n" + variant("cartesian_plain"))
    gadgets = ["cartesian_kspace", {"fft": {"direction": "inverse"}}, {"coil_combine": {"method": "rss"}}, "image"]
    mapping = {"echotrain": 1, "name": "mine", "description": "of the test", "pipeline": gadgets}
    for pipeline in ("cartesian_plain", None, path, mapping, path.read_text(), str(mapping).replace("'", '"')):
        assert len(reconstruct(guarded.port, pipeline=pipeline, token=TOKEN)) == 3, pipeline
    for token in (None, "", "wrong"):
        with pytest.raises(echotrain.ServerError) as caught:
            reconstruct(guarded.port, token=token)
        assert caught.value.code == "unauthorized" and "quoted" not in str(caught.value)
        assert "give token=" in str(caught.value) and "--" not in str(caught.value)
    monkeypatch.setenv("ECHOTRAIN_TOKEN", TOKEN)
    assert len(reconstruct(guarded.port)) == 3
    assert len(asyncio.run(reconstruct_async(guarded.port))) == 3
    client = echotrain.Client("127.0.0.1", guarded.port, token=TOKEN)
    assert "quoted" not in repr(client) + repr(client.server)


# --- no server, or a strange one -------------------------------------------------------------------------------------


def test_nobody_is_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # nobody listens on the port once this is closed
    with pytest.raises(echotrain.ConnectionFailed, match=f"127.0.0.1:{port}.*is the server running"):
        reconstruct(port)
    with pytest.raises(echotrain.ConnectionFailed, match="cannot find host 'no-such-host.invalid'"):
        reconstruct(9002, "no-such-host.invalid")
    with pytest.raises(echotrain.ConnectionFailed, match="is the server running"):
        asyncio.run(reconstruct_async(port))


class Strange:
    """A server that answers every connection with the same bytes, then does what `after` says with it."""

    def __init__(self, answer, after):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.done = threading.Event()

        def serve():
            connection, _ = self.listener.accept()
            with connection:
                connection.settimeout(60)
                connection.recv(2)
                connection.sendall(answer)
                after(self, connection)

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join(60)
        self.listener.close()


def hang_up(strange, connection):
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):
        pass


def be_silent(strange, connection):
    while not strange.done.is_set():
        connection.settimeout(0.05)
        try:
            if not connection.recv(1 << 16):
                return
        except TimeoutError:
            pass
        except socket.timeout:
            pass


def stop_reading(strange, connection):
    strange.done.wait(60)


IMAGE = echotrain.codec.encode(echotrain.Image(np.ones((4, 4), np.float32)))
ERROR = b"ERROR    recon-failed: no memory\n\0"
TEXT = struct.pack("<HI", 5, len(ERROR)) + ERROR


@pytest.mark.parametrize(
    ("answer", "error", "said", "images"),
    [
        (b"", echotrain.ConnectionFailed, "without CLOSE", 0),
        (IMAGE, echotrain.ConnectionFailed, "without CLOSE", 1),
        (IMAGE + IMAGE[:100], echotrain.ConnectionFailed, "inside a message", 1),
        (IMAGE + TEXT, echotrain.ServerError, "recon-failed: no memory", 1),
        (IMAGE + TEXT + IMAGE + b"\4\0", echotrain.ServerError, "recon-failed: no memory", 2),
        (IMAGE + b"HTTP/1.1 400", echotrain.ProtocolError, "HTTP", 1),
        (struct.pack("<HI", 5, 0xFFFFFFFF), echotrain.ProtocolError, "at most", 0),
    ],
)
def test_what_came_before_is_delivered_and_then_the_end_is_told(answer, error, said, images):
    with Strange(answer, hang_up) as strange, echotrain.Client("127.0.0.1", strange.port) as client:
        came = []
        with pytest.raises(error, match=said):
            for image in client.reconstruct(KSPACE, pipeline="cartesian_plain"):
                came.append(image)
        assert len(came) == images


def test_a_server_that_says_nothing():
    with Strange(b"", be_silent) as strange, pytest.raises(echotrain.ServerTimeout, match="reply_timeout"):
        reconstruct(strange.port, reply_timeout=0.5)


def test_a_server_that_takes_nothing():
    large = [echotrain.Image(np.zeros((1, 1, 1024, 1024), np.float32)) for _ in range(8)]
    with Strange(b"", stop_reading) as strange, pytest.raises(echotrain.ServerTimeout, match="took nothing"):
        echotrain.reconstruct(large, pipeline="passthrough", header="Dummy XML header", host="127.0.0.1",
                              port=strange.port, timeout=0.5)  # fmt: skip


def test_a_server_that_is_killed(tmp_path):
    server = Server(tmp_path)
    readouts = echotrain.ArrayReadouts(KSPACE)
    go_on = threading.Event()

    def measure():
        yield from list(readouts)[:17]
        go_on.wait(60)
        yield from list(readouts)[17:]

    with echotrain.Client("127.0.0.1", server.port) as client:
        images = client.reconstruct(measure(), pipeline="cartesian_plain", header=readouts.xml)
        assert next(images).repetition == 0
        server.process.kill()
        server.process.wait(20)
        go_on.set()
        with pytest.raises(echotrain.ConnectionFailed):
            list(images)
    server.log.close()
