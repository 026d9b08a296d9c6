"""The Python client's detached scans, against a server that loses connections when it is told to."""

import asyncio
import warnings

import numpy as np
import pytest

from detached_server import FRAME, Cut, DetachedServer, images_of
from python_client import echotrain, noise

READOUTS = 5 * FRAME + 3
KSPACE = noise(1, 2, READOUTS, 16)


def readouts(stop=READOUTS):
    for line in range(stop):
        yield echotrain.Acquisition(KSPACE[0, :, line], kspace_encode_step_1=line)


HEADER = echotrain.Header(matrix=(16, READOUTS, 1), fov=(16, READOUTS, 1))


def truth():
    from echotrain.codec import encode

    return [wire_pixels(message) for message in images_of([encode(each) for each in readouts()])]


def wire_pixels(message):
    return np.frombuffer(message[-8:], "<u4").tolist()


def values(images):
    return [image.data.ravel().tolist() for image in images]


def client(server, **options):
    return echotrain.Client("127.0.0.1", server.port, **{"timeout": 5, **options})


CUTS = {
    "none": [],
    "at once": [Cut(messages=0)],
    "early": [Cut(messages=3)],
    "three": [Cut(messages=9), Cut(messages=8, how="end"), Cut(messages=7, how="inside")],
    "answers": [Cut(messages=20, how="end"), Cut(answer=True, how="end"), Cut(answer=True)],
    "images": [Cut(images=1), Cut(images=1, how="inside"), Cut(images=3, how="end")],
    "last image": [Cut(images=5, how="inside")],
    "shutdown": [Cut(messages=11, error="shutdown: the server is stopping")],
    "budget": [Cut(messages=11, error="budget: no memory")],
}


@pytest.mark.parametrize("acknowledge", [1, 5, 1000])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_every_image_once_whatever_is_cut(cuts, acknowledge):
    """What was not acknowledged is lost with its connection; a generator gives it only once."""
    ids, told = [], []
    with DetachedServer(acknowledge=acknowledge, cuts=cuts) as server, client(server) as it:
        images = list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=ids.append,
                                     on_text=lambda level, text: told.append(text)))  # fmt: skip
        assert values(images) == truth()
        assert len(ids) == 1 and server.connections > len(cuts)  # an ended scan is fetched by another one
        losses = len([each for each in cuts if not each.answer])
        assert sum(text.startswith("connection lost") for text in told) >= losses, told


@pytest.mark.parametrize("cut", ["images", "last image"])
def test_a_scan_that_the_server_has_whole_is_only_listened_to(cut):
    with DetachedServer(acknowledge=1000, cuts=CUTS[cut], computes=True) as server, client(server) as it:
        images = list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=True, on_text=lambda *_: None))
        assert values(images) == truth() and server.connections == 1 + len(CUTS[cut])


def test_what_happened_is_told():
    told = []
    with DetachedServer(acknowledge=5, cuts=[Cut(messages=13)]) as server, client(server) as it:
        list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=True, on_text=lambda *text: told.append(text)))
    ((level, text),) = told
    # A connection that is reset may take the acknowledgements with it that the client has not read yet.
    assert level == "INFO" and text.startswith("connection lost at readout "), text
    assert "; resumed at 10 after 0." in text or "; begun again at 0 after 0." in text, text


def test_submitted_scans_are_told_of_fetched_and_cancelled():
    with DetachedServer(acknowledge=4, cuts=[Cut(messages=20, how="inside")]) as server, client(server, token="secret") as it:
        name = it.submit(readouts(), pipeline="fake", header=HEADER)
        (found,) = it.scans()
        assert found == it.scan(name)
        assert (found.id, found.state, found.received, found.images) == (name, "done", READOUTS + 1, len(truth()))
        assert values(it.fetch(name)) == truth()
        server.cuts += [Cut(images=2, how="inside"), Cut(images=4)]
        assert values(it.fetch(name, first=1)) == truth()[1:]
        assert it.cancel(name) and not it.cancel(name) and it.scans() == []
        with pytest.raises(echotrain.ScanError, match="unknown"):
            it.scan(name)
        with pytest.raises(echotrain.ScanError, match="'unknown' for the scan"):
            list(it.fetch(name))
        questions = [each for each in server.questions if each != "echotrain::detach/new"]
        assert all(each.endswith("\ntoken: secret") for each in questions)


def test_another_process_goes_on():
    with DetachedServer(acknowledge=5, cuts=[Cut(messages=22, how="end")]) as server:
        ids = []
        with client(server) as it, pytest.raises(echotrain.ConnectionFailed):
            list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=ids.append, resume_for=0))
        server.cuts.append(Cut(answer=True))
        with client(server) as it:
            assert values(it.resume(ids[0], readouts(), header=HEADER)) == truth()


def test_gives_up_after_its_time():
    with DetachedServer(cuts=[Cut(messages=0)] * 100) as server, client(server) as it:
        with pytest.raises(echotrain.ConnectionFailed, match="broke|ended"):
            list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=True, resume_for=0.5))
        assert 2 <= server.connections <= 6


@pytest.mark.parametrize("knows", ["unknown", "refused", "nothing"])
def test_servers_that_detach_nothing(knows):
    """One line, and an ordinary scan; what cannot wait for its images is refused."""
    with DetachedServer(knows) as server, client(server, timeout=1) as it:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            images = list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=True))
        assert values(images) == truth()
        assert ["does not detach this scan" in str(each.message) for each in told] == [True]
        with pytest.raises(echotrain.ServerError, match="does not detach this scan"):
            it.submit(readouts(), pipeline="fake", header=HEADER)


def test_an_error_of_the_scan_is_final():
    cuts = [Cut(messages=9, error="recon-failed: no such trick")]
    with DetachedServer(cuts=cuts) as server, client(server) as it:
        with pytest.raises(echotrain.ServerError, match="no such trick"):
            list(it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=True))
        assert server.connections == 1


def test_a_failing_source_is_the_callers():
    def broken():
        yield from readouts(12)
        raise ZeroDivisionError("mine")

    with DetachedServer(cuts=[Cut(messages=6)]) as server, client(server) as it:
        with pytest.raises(ZeroDivisionError, match="mine"):
            list(it.reconstruct(broken(), pipeline="fake", header=HEADER, detach=True))


def test_asyncio():
    async def run(server):
        ids = []
        async with echotrain.AsyncClient("127.0.0.1", server.port) as it:
            images = [each async for each in it.reconstruct(readouts(), pipeline="fake", header=HEADER, detach=ids.append)]
            (found,) = await it.scans()
            again = [each async for each in it.fetch(ids[0], first=3)]
            assert found.id == ids[0] and await it.cancel(found.id) and not await it.scans()
        return images, again

    with DetachedServer(cuts=[Cut(messages=17, how="inside")]) as server:
        images, again = asyncio.run(run(server))
    assert values(images) == truth() and values(again) == truth()[3:]
