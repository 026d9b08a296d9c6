"""Another MRD server as a step of a pipeline."""

import socket
import struct
import threading

import numpy as np
import pytest
import steps
import wire
from programs import Server


def through(address, **options):
    more = "".join(f", {name}: {value}" for name, value in options.items())
    return f"mrd_server: {{address: '{address}', config: {options.pop('config', 'passthrough')}{more}}}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A server, and one in front of it that may send scans there."""
    far = Server(tmp_path_factory.mktemp("far"), "--backend", "cpu")
    address = f"{far.host}:{far.port}"
    near = Server(tmp_path_factory.mktemp("near"), "--backend", "cpu", "--mrd-servers", address,
                  "--client-pipelines", "all")  # fmt: skip
    yield near, address
    assert near.stop() == 0, near.text()
    assert far.stop() == 0, far.text()


def scan(server, gadgets, messages):
    return wire.exchange(server.address, [steps.pipeline(*gadgets), steps.header(), *messages, wire.close()])


def test_another_server_reconstructs(pair):
    near, address = pair
    kspace = [steps.random_kspace(seed) for seed in range(3)]
    messages = [m for i, each in enumerate(kspace) for m in steps.readouts(each, i)]
    step = f"mrd_server: {{address: '{address}', config: cartesian_plain}}"
    for chain in ((step,), ("noise_adjust", step)):
        reply = scan(near, chain, messages)
        assert not reply.errors() and len(reply.images) == 3, reply
        for image, data in zip(reply.images, kspace):
            want = steps.root_sum_of_squares(data)
            assert np.linalg.norm(image.pixels[0, 0] - want) <= 1e-5 * np.linalg.norm(want)


def test_images_pass_through_another_server(pair):
    near, address = pair
    sent = [np.random.default_rng(i).random((1, 2, 8, 8)).astype(np.float32) for i in range(4)]
    reply = scan(near, (through(address),), [steps.image(each, index=i + 1) for i, each in enumerate(sent)])
    assert not reply.errors() and len(reply.images) == 4, reply
    for image, want in zip(reply.images, sent):
        np.testing.assert_array_equal(image.pixels, want)
    assert reply.said("INFO") == ["INFO     received 0 readouts (0 bytes of samples), 0 waveforms, 4 images"]


def test_what_the_other_server_refuses_is_told(pair):
    near, address = pair
    step = f"mrd_server: {{address: '{address}', config: nothing_of_that_name}}"
    reply = scan(near, (step,), steps.readouts(steps.random_kspace()))
    assert f"MRD server {address} has ended with an error: unknown-config" in reply.errors()[0], reply


def test_servers_that_the_options_do_not_name_are_not_asked(pair):
    near, _ = pair
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        reply = scan(near, (through(f"127.0.0.1:{listener.getsockname()[1]}"),), [])
        assert "option mrd_servers" in reply.errors()[0], reply
        with pytest.raises(TimeoutError):
            listener.accept()


def near_of(tmp_path, *addresses):
    arguments = [part for address in addresses for part in ("--mrd-servers", address)]
    return Server(tmp_path, "--backend", "cpu", "--client-pipelines", "all", *arguments)


def test_servers_that_cannot_be_reached_are_told(tmp_path):
    nobody = socket.socket()  # has the port and does not listen
    nobody.bind(("127.0.0.1", 0))
    closed = f"127.0.0.1:{nobody.getsockname()[1]}"
    nowhere = "nowhere.invalid:9002"
    server = near_of(tmp_path, closed, nowhere)
    reply = scan(server, (through(closed),), [])
    refused = f"resources: mrd_server: {closed} cannot be reached within 5 s: Connection refused"
    assert refused in reply.errors()[0], reply
    reply = scan(server, (through(nowhere, connect_timeout_s=2),), [])
    assert f"mrd_server: {nowhere} cannot be reached within 2 s" in reply.errors()[0], reply
    nobody.close()
    assert server.stop() == 0


class Odd:
    """A server on loopback that reads everything and answers with `answer`."""

    def __init__(self, answer, then_close):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self.listener.getsockname()[1])
        self.answer, self.then_close = answer, then_close
        self.begun, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(1 << 16)
            self.begun.set()
            connection.sendall(self.answer)
            if self.then_close:
                connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        self.ended.set()


@pytest.mark.parametrize(
    "answer, then_close, why",
    [
        (b"", True, "has ended the connection without CLOSE"),
        (b"HTTP/1.1 400 Bad Request\r\n", False, "has sent bytes that are no MRD message"),
        (struct.pack("<H", wire.IMAGE) + b"\1\0", True, "has ended inside a message"),
        (b"", False, "has neither taken nor given anything for 1 s"),
    ],
)
def test_a_server_that_breaks_off_ends_the_scan(tmp_path, answer, then_close, why):
    odd = Odd(answer, then_close)
    server = near_of(tmp_path, odd.address)
    patience_s = 1 if "for 1 s" in why else 60
    reply = scan(server, (through(odd.address, timeout_s=patience_s),), [steps.image(np.ones((1, 1, 2, 2)))])
    assert f"MRD server {odd.address} {why}" in reply.errors()[0], reply
    assert odd.ended.wait(30)
    assert server.stop() == 0


def test_a_reset_ends_the_connection_to_the_other_server(tmp_path):
    odd = Odd(b"", False)
    server = near_of(tmp_path, odd.address)
    connection = socket.create_connection(server.address, timeout=60)
    connection.sendall(steps.pipeline(through(odd.address)) + steps.header() + steps.image(np.ones((1, 1, 2, 2))))
    assert odd.begun.wait(30)
    steps.reset(connection)
    assert odd.ended.wait(30)
    assert server.stop() == 0
