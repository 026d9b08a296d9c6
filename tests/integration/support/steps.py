"""Scans through `python` steps: a server with a folder of modules, pipelines, and what is left of the processes."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import time

import chains
import numpy as np
import reference
import scans
import wire
from programs import Server

MODULES = pathlib.Path(__file__).resolve().parents[1] / "steps" / "modules"
N = 32
XML = (
    '<?xml version="1.0"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><experimentalConditions>'
    "<H1resonanceFrequency_Hz>63870000</H1resonanceFrequency_Hz></experimentalConditions><encoding>"
    "<encodedSpace><matrixSize><x>{n}</x><y>{n}</y><z>1</z></matrixSize><fieldOfView_mm><x>256</x><y>256</y><z>5</z>"
    "</fieldOfView_mm></encodedSpace><reconSpace><matrixSize><x>{n}</x><y>{n}</y><z>1</z></matrixSize><fieldOfView_mm>"
    "<x>256</x><y>256</y><z>5</z></fieldOfView_mm></reconSpace><encodingLimits><kspace_encoding_step_1><minimum>0"
    "</minimum><maximum>{last}</maximum><center>{half}</center></kspace_encoding_step_1></encodingLimits><trajectory>"
    "cartesian</trajectory></encoding></ismrmrdHeader>"
)


def header(n=N):
    return wire.header(XML.format(n=n, last=n - 1, half=n // 2))


def start_server(folder, *arguments, modules=MODULES, python=sys.executable, warm=0, **more):
    """Tests see by files in pytest's folder what their modules do."""
    return Server(folder, "--python", python, "--python-modules", modules, "--backend", "cpu", "--python-write", folder,
                  "--client-pipelines", "all", "--python-warm", str(warm), *arguments,
                  **more)  # fmt: skip


def pipeline(*gadgets, head=""):
    return chains.pipeline(*gadgets, keys=head)


def python(module, **options):
    text = "".join(f", {name}: {value}" for name, value in options.items())
    return f"python: {{module: {module}{text}}}"


def readouts(kspace, repetition=0):
    """kspace: [coil, y, x]."""
    last = kspace.shape[1] - 1
    return [wire.acquisition(kspace[:, y], step1=y, repetition=repetition, counter=y,
                             flags=wire.LAST_IN_SLICE if y == last else 0)
            for y in range(kspace.shape[1])]  # fmt: skip


def random_kspace(seed=1, coils=2, n=N):
    return scans.random_kspace((coils, n, n), seed)


def root_sum_of_squares(kspace):
    """In float64, with the conventions of docs/conventions.md."""
    return reference.rss(reference.centred_fft(kspace, kspace.shape[2]))


def image(pixels, series=1, index=1, attributes="<ismrmrdMeta></ismrmrdMeta>", kind=5, **fields):
    """pixels: [channel, z, y, x], which become those of type `kind`."""
    fields = {"image_type": 1, "image_series_index": series, "image_index": index, **wire.AXES, **fields}
    return wire.image(np.asarray(pixels, wire.PIXELS[kind]), attributes=attributes, **fields)


def parameters_of(image):
    """What the host has set, by the attribute of an image."""
    found = re.search(r"<name>echotrain_parameters</name><value>([^<]*)</value>", image.attributes)
    return found and found[1]


def wait_until(reached, what, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not (found := reached()):
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(0.005)
    return found


def children(process):
    """Processes that `process` has started and that still run, or wait to be reaped."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                found += pathlib.Path(f"/proc/{process}/task/{task}/children").read_text().split()
    return [int(each) for each in found]


def family(process):
    """A process with all that come from it."""
    found = [process]
    for each in found:
        found += children(each)
    return found


def lives(process):
    """Whether a process runs: one that has ended and waits to be reaped does not."""
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def reset(connection):
    """Closes a connection by RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def kill(process):
    os.kill(process, signal.SIGKILL)
