"""What a scan costs in CPU time and in lines of the log, whatever counters, matrices and texts its messages have."""

import os
import pathlib
import unicodedata

import numpy as np
import pytest

import scans
import wire
from programs import Server, ends_well
from vitals import in_time

MOST_OPEN = 16384


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--backend", "cpu", "--log-level", "debug"))


def cpu_seconds(server):
    """The processor time of the server's threads so far (proc(5): utime and stime are the 12th and 13th after the name)."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(server, messages):
    """The reply, and the CPU seconds that the server took for it."""
    before = cpu_seconds(server)
    reply = wire.exchange(server.address, [b"".join(messages)], timeout_s=280)
    return reply, cpu_seconds(server) - before


def opening(count):
    """Readouts that each open a frame: slice and contrast count, nothing ever ends."""
    first = wire.acquisition(np.ones((1, 1)), step1=0)
    messages = [wire.config_file("cartesian_plain"), wire.header(scans.header_xml("cartesian", (1, 4, 1), readouts=4))]
    for i in range(count):
        messages.append(wire.changed(first, slice=i % 256, contrast=i // 256))
    return [*messages, wire.close()]


def test_frames_that_stay_open(own_server):
    """Four times the readouts: linear work takes 4 times as long, quadratic work 16 times; the bound is between. On a busy
    machine the same work takes up to twice the CPU time, so the least of two counts."""
    cost(own_server, opening(100))  # warms up
    least = {4000: [], 16000: []}
    for _ in range(2):
        for count, seconds in least.items():
            reply, took = cost(own_server, opening(count))
            assert len(reply.images) == count, reply.texts
            seconds.append(took)
    in_time(min(least[16000]), 8 * min(least[4000]), f"for four times the readouts, CPU seconds: {least}")


def test_open_frames_are_bounded(own_server):
    reply, seconds = cost(own_server, opening(40000))
    (error,) = reply.errors()
    assert "bad-data" in error and f"{MOST_OPEN} frames are open" in error and "'frame'" in error
    assert seconds < 20
    reply, _ = cost(own_server, opening(10))
    assert len(reply.images) == 10 and not reply.errors()


def test_navigators_between_the_readouts_of_a_large_frame(own_server):
    """Each navigator cuts a batch. A batch must not cost what its frame of 2048 x 2048 lines costs."""

    def scan(readouts, every):
        xml = scans.header_xml("cartesian", (2, 2048, 2048), readouts=2048)
        messages = [wire.config_file("cartesian_3d"), wire.header(xml)]
        for i in range(readouts):
            messages.append(wire.acquisition(np.ones((1, 2)), step1=i % 2048, step2=i // 2048))
            if i % every == 0:
                messages.append(wire.acquisition(np.ones((1, 2)), flags=1 << 22))  # navigator
        return [*messages, wire.close()]

    cost(own_server, scan(10, 10))
    reply, few = cost(own_server, scan(2000, 1000))
    assert len(reply.images) == 1, reply.texts
    reply, many = cost(own_server, scan(2000, 1))
    assert len(reply.images) == 1, reply.texts
    assert many < 2 * few + 1, f"{many:.2f} s of CPU time, and {few:.2f} s with two navigators"


def image_of_role(role):
    """An image of one pixel that no pipeline has a use for."""
    return wire.image(np.zeros((1, 1, 1, 1), "f4"), role)


def test_log_lines_of_a_session_are_bounded(own_server):
    """20,000 images of as many roles, each of which the log would like to name."""
    before = own_server.text().count("\n")
    messages = [wire.config_file("cartesian_plain"), wire.header(scans.header_xml("cartesian", (8, 8, 1)))]
    messages += [image_of_role(f"role{i}") for i in range(20000)]
    reply, _ = cost(own_server, [*messages, wire.close()])
    assert own_server.text().count("\n") - before < 300
    assert 0 < len(reply.texts) < 300


def test_nothing_unseen_reaches_the_log(own_server):
    """Characters that turn, hide or break a line: all that Unicode has of the categories Cc, Cf, Zl and Zp but what XML
    does not allow."""
    unseen = [chr(c) for c in range(0x80, 0x110000) if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zl", "Zp")]
    assert "\u202e" in unseen and "\u2028" in unseen
    messages = [wire.config_file("cartesian_plain"), wire.header(scans.header_xml("cartesian", (8, 8, 1)))]
    messages += [image_of_role("gnp" + "".join(unseen[i : i + 8]) + "exe") for i in range(0, len(unseen), 8)]
    messages += [wire.text("a\u202egnp.exe\u2028INFO forged"), wire.close()]
    reply, _ = cost(own_server, messages)
    said = own_server.text() + "".join(reply.texts)
    assert "gnp????????exe" in said and "a?gnp.exe?INFO forged" in said
    assert not [c for c in unseen if c in said]
