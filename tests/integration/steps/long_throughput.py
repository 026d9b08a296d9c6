"""How much goes through a Python step that gives everything back, beside the same server without one. On request, as it
needs a machine with nothing else to do: `./run test --long`."""

import socket
import threading
import time

import numpy as np
import pytest
import steps
import wire
from programs import ends_well


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from ends_well(steps.start_server(tmp_path_factory.mktemp("throughput"), "--queue-mib", "64"))


def seconds(server, pipeline, header, data, count):
    """From the first byte that comes back to the last one, so that starting Python does not count."""
    with socket.create_connection(server.address, timeout=120) as connection:
        connection.sendall(pipeline + header)

        def send():
            for _ in range(count):
                connection.sendall(data)
            connection.sendall(wire.close())

        sender = threading.Thread(target=send)
        sender.start()
        room, received, began = bytearray(1 << 20), 0, 0.0
        while n := connection.recv_into(room):
            began = began or time.perf_counter()
            received += n
        took = time.perf_counter() - began
        sender.join()
    return took, received


def best(of, *arguments):
    return min((seconds(*arguments) for _ in range(of)), key=lambda each: each[0])


def test_images_go_through_at_a_thousand_a_second(server):
    count = 2000
    image = steps.image(np.random.default_rng(1).random((1, 1, 256, 256)))
    rates = []
    for gadget in ("passthrough", steps.python("pass_on")):
        took, received = best(3, server, steps.pipeline(gadget), steps.header(), image, count)
        assert received >= count * 4 * 256 * 256
        rates.append(count / took)
    print(f"images of 256 x 256 floats: {rates[1]:.0f}/s through Python, {rates[0]:.0f}/s without")
    assert rates[1] >= 1000


def test_readouts_go_through_at_twenty_thousand_a_second(server):
    # A pipeline that leaves readouts out at its end, so that the step is what takes the time.
    frames = 200
    lines = b"".join(steps.readouts(steps.random_kspace(n=256, coils=8)))
    chain = ("cartesian_kspace", "fft: {direction: inverse}", "coil_combine: {method: rss}", "image")
    rates = []
    for before in ((), (steps.python("pass_on", gives="readouts"),)):
        took, _ = best(3, server, steps.pipeline(*before, *chain), steps.header(256), lines, frames)
        rates.append(256 * (frames - 1) / took)
    print(f"readouts of 8 x 256 samples: {rates[1]:.0f}/s through Python, {rates[0]:.0f}/s without")
    assert rates[1] >= 20000
