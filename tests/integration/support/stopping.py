"""Scans that compute for long, clients that leave in the middle of it, and how long their places stay taken."""

import contextlib
import dataclasses
import functools
import http.client
import json
import pathlib
import select
import signal
import socket
import struct
import threading
import time

import numpy as np

import scans
import wire
from exposition import Metrics
from programs import SHIPPED, Server, run_client, variant

MEMORY_MIB = 2048
BOUND_S = 0.5
TOKEN = "0123456789abcdef0123456789abcdef"


def directions(count, dims):
    """Unit vectors that cover the circle or the sphere."""
    i = np.arange(count) + 0.5
    if dims == 2:
        return np.stack([np.cos(np.pi * i / count), np.sin(np.pi * i / count)], 1)
    z, turn = 1 - 2 * i / count, np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - z**2)
    return np.stack([ring * np.cos(turn), ring * np.sin(turn), z], 1)


@functools.lru_cache(maxsize=1)
def radial(matrix, dims, coils, readouts, samples, seed=1, weighted=False):
    """The messages, header first, of spokes through the centre of k-space with random data."""
    rng = np.random.default_rng(seed)
    along = (np.arange(samples) - samples // 2) / samples
    # So that each seed has a trajectory of its own, of which no cache knows.
    turned = directions(readouts, dims) + 1e-3 * rng.standard_normal(dims)
    spokes = (along[None, :, None] * turned[:, None, :] / np.linalg.norm(turned, axis=1).max()).astype(np.float32)
    if weighted:
        spokes = np.concatenate([spokes, np.abs(along)[None, :, None].repeat(readouts, 0)], 2).astype(np.float32)
    data = rng.standard_normal((coils, samples, 2)).astype(np.float32).view(np.complex64)[..., 0]
    size = (matrix, matrix, matrix if dims == 3 else 1)
    messages = [wire.header(scans.header_xml("radial", size, readouts=readouts))]
    for r in range(readouts):
        flags = wire.FIRST_IN_SLICE * (r == 0) | wire.LAST_IN_SLICE * (r == readouts - 1)
        messages.append(wire.acquisition(data, spokes[r], flags, r, center=samples // 2, counter=r))
    return messages


def cpu(name, *changes):
    return wire.config_text(variant(name, ("backend: auto", "backend: cpu"), *changes))


def stream(config, messages):
    return b"".join([config, *messages, wire.close()])


def cartesian(matrix, coils, repetitions=1, planes=1):
    """The messages, header first, of a Cartesian scan whose lines are all alike."""
    line = np.random.default_rng(1).standard_normal((coils, matrix, 2)).astype(np.float32).view(np.complex64)[..., 0]
    messages = [wire.header(scans.header_xml("cartesian", (matrix, matrix, planes), readouts=matrix,
                                             repetitions=repetitions))]  # fmt: skip
    for repetition in range(repetitions):
        for z in range(planes):
            for y in range(matrix):
                last = planes == 1 and y == matrix - 1
                flags = wire.LAST_IN_SLICE * last
                messages.append(wire.acquisition(line, None, flags, y, repetition, counter=len(messages), step2=z))
    return messages


def field_map(size, range_hz):
    """The message of a field map that rises along x."""
    hz = np.broadcast_to(np.linspace(-range_hz, range_hz, size, dtype=np.float32), (size, size))
    return wire.image(hz[None, None], "field_map")


def images(count, size):
    """The messages of images for `passthrough` and for pipelines whose input is images."""
    image = wire.image(np.zeros((1, 1, size, size), "f4"), field_of_view=(256, 256, 1), image_type=1, image_index=1)
    return [wire.header("Dummy XML header"), *[image] * count]


def simulated(folder, name, *options):
    """The stream of a scan that `echotrain simulate` makes."""
    file, out = pathlib.Path(folder) / "scan.h5", pathlib.Path(folder) / "scan.mrd"
    for arguments in (("simulate", "-o", file, "--no-truth", *options), ("convert", file, out, "-c", name)):
        made = run_client(*arguments, timeout=600)
        assert made.returncode == 0, made.stderr
    data = out.read_bytes()
    file.unlink()
    out.unlink()
    return data


HEART = ("--trajectory", "cartesian", "--motion", "cardiac")
MAPS = {"t1_ir": "inversion_recovery", "t1_molli": "molli", "t1_sasha": "saturation", "t2_map": "spin_echo",
        "t2star_map": "multi_echo", "adc_map": "diffusion"}  # fmt: skip
WAVES = ("--modality", "ultrasound", "--phantom", "speckle")


def shipped_scan(name, folder, large):
    """A stream for a shipped pipeline; large: about the largest that MEMORY_MIB holds."""

    def by_name(messages):
        return stream(wire.config_file(name), messages)

    if name in ("cartesian_2d", "cartesian_plain", "cartesian_display", "cartesian_edges", "cartesian_magnitude_phase",
                "cartesian_and_images"):  # fmt: skip
        return by_name(cartesian(1536, 16) if large else cartesian(256, 8, 4))
    if name == "cartesian_grappa":
        left_out = ("--acceleration", 3, "--calibration", 24)
        return simulated(folder, name, "--trajectory", "cartesian", *left_out, "--matrix", 512 if large else 128,
                         "--coils", 32 if large else 8)  # fmt: skip
    if name in ("cartesian_sense", "cartesian_compressed_sensing"):
        size = ("--matrix", 768 if large else 96, "--coils", 16 if large else 8)
        return simulated(folder, name, "--trajectory", "cartesian", *size, "--acceleration", 2, "--calibration", 24)
    if name == "epi_2d":
        size = ("--matrix", 256 if large else 64, "--coils", 32 if large else 8)
        return simulated(folder, name, "--trajectory", "epi", *size)
    if name == "epi_timeseries":
        size = ("--matrix", 192 if large else 64, "--coils", 32 if large else 8, "--slices", 2)
        left_out = ("--acceleration", 2, "--calibration", 24, "--calibration-mode", "separate")
        return simulated(folder, name, "--trajectory", "epi", *size, *left_out)
    if name in MAPS or name == "lge_psir":
        size = ("--matrix", 384 if large else 96, "--coils", 8 if large else 4)
        return simulated(folder, name, "--trajectory", "cartesian", *size, "--mapping", MAPS.get(name, "psir"))
    if name == "cartesian_3d":
        return by_name(cartesian(224, 4, planes=224) if large else cartesian(64, 4, planes=64))
    if name == "cartesian_cine":
        return simulated(folder, name, *HEART, "--matrix", 256 if large else 64, "--coils", 16 if large else 2)
    if name == "cartesian_cine_low_rank":
        left_out = ("--gating", "retrospective", "--acceleration", 3, "--calibration-mode", "interleaved")
        return simulated(folder, name, *HEART, *left_out, "--matrix", 160 if large else 48, "--coils", 4)
    if name == "cartesian_cine_ecg":
        gating = ("--gating", "retrospective")
        return simulated(folder, name, *HEART, *gating, "--matrix", 192 if large else 64, "--coils", 4)
    if name in ("radial_2d", "radial_corrected", "radial_realtime"):
        return by_name(radial(768, 2, 16, 1200, 1536) if large else radial(192, 2, 8, 300, 384))
    if name == "radial_self_gated":
        size = ("--matrix", 384, "--coils", 16) if large else ("--matrix", 96, "--coils", 4)
        return simulated(folder, name, "--trajectory", "golden_radial", "--motion", "cardiac", *size, "--readouts", 1500,
                         "--frames", 1, "--tr-ms", 10, "--breathing-mm", 20)  # fmt: skip
    if name == "spiral_2d":
        return by_name(radial(768, 2, 16, 1200, 1536, weighted=True) if large
                       else radial(192, 2, 8, 300, 384, weighted=True))  # fmt: skip
    if name == "spiral_off_resonance":
        size = 768 if large else 192
        scan = (radial(size, 2, 4, 1200, 1536, weighted=True) if large
                else radial(size, 2, 4, 300, 384, weighted=True))  # fmt: skip
        return by_name([scan[0], field_map(size, 120 if large else 400), *scan[1:]])
    if name in ("nlinv_cartesian", "cg_sense_cartesian_realtime"):
        return by_name(cartesian(768, 8) if large else cartesian(192, 8))
    if name in ("nlinv_realtime", "nlinv_sms"):
        return by_name(radial(384, 2, 10, 200, 768) if large else radial(192, 2, 8, 100, 384))
    if name == "grasp_2d":
        return by_name(radial(384, 2, 12, 400, 768) if large else radial(128, 2, 8, 200, 256))
    if name in ("cg_sense_2d", "cg_sense_realtime", "cg_sense_sms", "fhd_pcg_2d"):
        return by_name(radial(768, 2, 12, 600, 1536) if large else radial(192, 2, 8, 200, 384))
    if name == "fhd_pcg_3d":
        return by_name(radial(192, 3, 1, 650, 380) if large else radial(64, 3, 1, 500, 128))
    if name == "kooshball_3d":
        return by_name(radial(192, 3, 4, 12000, 384) if large else radial(64, 3, 4, 4000, 128))
    if name == "stack_of_stars":
        options = ("--trajectory", "stack_of_stars", "--partitions", 64 if large else 16, "--coils", 4)
        return simulated(folder, name, *options, "--matrix", 256 if large else 96)
    if name == "anatomical_multi_echo":
        options = ("--trajectory", "kooshball", "--phantom", "ellipsoids_3d", "--contrasts", 3, "--coils", 1)
        size = ("--matrix", 128, "--readouts", 4000) if large else ("--matrix", 48, "--readouts", 800)
        return simulated(folder, name, *options, *size)
    if name in ("ultrasound_plane_wave", "ultrasound_compound"):
        angles = 1 if name == "ultrasound_plane_wave" else 31 if large else 5
        return simulated(folder, name, *WAVES, "--matrix", 1024 if large else 256, "--angles", angles, "--frames",
                         8 if large else 2)  # fmt: skip
    if name.startswith("images_"):
        return by_name(images(12, 512) if large else images(8, 128))
    assert name == "passthrough", f"no scan for the shipped pipeline {name}"
    return by_name(images(100, 1024) if large else images(40, 256))


def _made_by(*options):
    return lambda name, folder: simulated(folder, name, *options)


def _sent(make, *arguments, **options):
    return lambda name, _: stream(wire.config_file(name), make(*arguments, **options))


def _off_resonance(name, _):
    header, *readouts = radial(32, 2, 2, 40, 64, weighted=True)
    return stream(wire.config_file(name), [header, field_map(32, 100), *readouts])


LEFT_OUT = ("--acceleration", 2, "--calibration", 16, "--matrix", 48, "--coils", 4)
RADIAL = (32, 2, 4, 60, 64)  # matrix, dimensions, coils, spokes, samples
# One pipeline of each family, and what makes a small scan for it.
FAMILIES = {
    "cartesian_plain": _sent(cartesian, 32, 2, 2),
    "cartesian_grappa": _made_by("--trajectory", "cartesian", *LEFT_OUT),
    "cartesian_sense": _made_by("--trajectory", "cartesian", *LEFT_OUT),
    "cartesian_compressed_sensing": _made_by("--trajectory", "cartesian", *LEFT_OUT),
    "cartesian_cine": _made_by(*HEART, "--matrix", 32, "--coils", 2),
    "epi_2d": _made_by("--trajectory", "epi", "--matrix", 32, "--coils", 2),
    "radial_2d": _sent(radial, *RADIAL),
    "radial_realtime": _sent(radial, *RADIAL),
    "spiral_off_resonance": _off_resonance,
    "cg_sense_2d": _sent(radial, *RADIAL),
    "fhd_pcg_2d": _sent(radial, *RADIAL),
    "nlinv_cartesian": _sent(cartesian, 32, 2),
    "grasp_2d": _sent(radial, *RADIAL),
    "stack_of_stars": _made_by("--trajectory", "stack_of_stars", "--partitions", 4, "--coils", 2, "--matrix", 32),
    "ultrasound_plane_wave": _made_by(*WAVES, "--matrix", 64, "--angles", 1, "--frames", 1),
    "images_denoise": _sent(images, 2, 32),
}


def shipped_names():
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


class Client:
    """Sends a scan on a thread of its own and reads nothing; leave() is a reset in the middle of it all."""

    def __init__(self, address, data):
        self.socket = socket.create_connection(address, timeout=60)
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self._send, args=(memoryview(data),), daemon=True)
        self.thread.start()

    def _send(self, data):
        with contextlib.suppress(OSError):
            while len(data) > 0 and not self.leaving.is_set():
                if select.select([], [self.socket], [], 0.02)[1]:
                    data = data[self.socket.send(data[: 1 << 16]) :]

    def leave(self):
        """RST; the time when it went out."""
        self.leaving.set()
        self.thread.join()  # the kernel keeps a socket open that somebody waits for
        if self.socket.fileno() >= 0:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        begin = time.monotonic()
        self.socket.close()
        return begin

    def received(self, timeout_s=30):
        """What the server still says."""
        self.socket.settimeout(timeout_s)
        data = []
        with contextlib.suppress(OSError):
            while chunk := self.socket.recv(1 << 16):
                data.append(chunk)
        return b"".join(data)


def request(server, path, method="GET", headers=None):
    connection = http.client.HTTPConnection(*server.admin, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def sessions(server):
    return json.loads(request(server, "/sessions")[1])["sessions"]


def places_taken(server):
    return Metrics(request(server, "/metrics")[1])["echotrain_place_scans"]


class RunQueue:
    """How long the threads of a process have waited for a core since this was made: what a busy machine adds to every
    time, whatever the program does."""

    def __init__(self, server):
        self.tasks = pathlib.Path("/proc") / str(server.process.pid) / "task"
        self.begin = self._waited()
        self.latest = dict(self.begin)

    def _waited(self):
        waited = {}
        for task in self.tasks.iterdir():
            with contextlib.suppress(OSError):
                waited[task.name] = int((task / "schedstat").read_text().split()[1]) * 1e-9
        return waited

    def look(self):
        """Threads that end take their counts along, so this is to be called often. The sum of the two that waited
        longest: a scan ends on its worker's thread, and then on its session's."""
        with contextlib.suppress(FileNotFoundError):
            self.latest.update(self._waited())
        return sum(sorted(end - self.begin.get(task, 0) for task, end in self.latest.items())[-2:])


@dataclasses.dataclass
class Freed:
    after_s: float
    starved_s: float  # of which the machine was busy otherwise

    def own_s(self):
        return max(0, self.after_s - self.starved_s)


def wait_until_free(server, begin, queue, timeout_s=60):
    while places_taken(server):
        queue.look()
        assert time.monotonic() < begin + timeout_s, f"a place is still taken {timeout_s} s later:\n{server.text()}"
        time.sleep(0.005)
    return Freed(time.monotonic() - begin, queue.look())


def wait_until_scanning(server, timeout_s=60):
    end = time.monotonic() + timeout_s
    while not places_taken(server):
        assert time.monotonic() < end, server.text()
        time.sleep(0.005)


def stopped_by_admin(server):
    """Stops the session that scans; the time when that was asked for."""
    (busy,) = [s["id"] for s in sessions(server) if s["state"] in ("scanning", "finishing")]
    begin = time.monotonic()
    status, text = request(server, f"/sessions/{busy}/stop", "POST", {"Authorization": f"Bearer {TOKEN}"})
    assert status == 202, text
    return begin


def start_server(folder, *arguments):
    """On the CPU, with empty caches and a token for administrators."""
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "server").mkdir()
    return Server(folder / "server", "--backend", "cpu", "--memory-mib", MEMORY_MIB, "--admin-token-file",
                  folder / "token", "--cache-folder", folder / "cache", *arguments)  # fmt: skip


def seconds_to_exit(server, data, moment_s):
    """SIGTERM, `moment_s` after a client has begun to send its scan: (status, Freed)."""
    client = Client(server.address, data)
    time.sleep(moment_s)
    queue = RunQueue(server)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    while server.process.poll() is None:
        queue.look()
        assert time.monotonic() < begin + 60, f"the server ignored SIGTERM for 60 s:\n{server.text()}"
        time.sleep(0.01)
    took = Freed(time.monotonic() - begin, queue.look())
    client.leave()
    return server.process.returncode, took


def free_after_leaving(server, data, moment_s, by_admin=False):
    """How long the place of a scan stays taken whose client resets the connection, or whose session an administrator
    stops, `moment_s` after the scan has begun. None: the scan had ended by then."""
    client = Client(server.address, data)
    wait_until_scanning(server)
    time.sleep(moment_s)
    if not places_taken(server):
        client.leave()
        return None
    queue = RunQueue(server)
    begin = stopped_by_admin(server) if by_admin else client.leave()
    freed = wait_until_free(server, begin, queue)
    client.leave()
    return freed
