"""Runs modules for FIRE and OpenRecon, unmodified, as steps and under their own server; compares the images.

    ./run trial fire FOLDER [PACKAGES]

FOLDER is a checkout of github.com/kspaceKelvin/python-ismrmrd-server; PACKAGES, one of github.com/neurodesk/neurocontainers.
Modules write to /tmp/share/debug. Those of the packages need nibabel, scipy, matplotlib and scikit-image beside numpy and
ismrmrd; TRIAL_PYTHON names an interpreter that has them.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import numpy as np  # noqa: E402
import steps  # noqa: E402
import wire  # noqa: E402
from programs import Server  # noqa: E402

FIELD = "<systemFieldStrength_T>1.5</systemFieldStrength_T>"
SYSTEM = f"<acquisitionSystemInformation>{FIELD}</acquisitionSystemInformation>"
PYTHON = os.environ.get("TRIAL_PYTHON", sys.executable)
META = "<ismrmrdMeta><meta><name>DataRole</name><value>Image</value></meta></ismrmrdMeta>"


class Theirs:
    """Their server, on a free port of loopback."""

    def __init__(self, folder, log):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        command = [PYTHON, "main.py", "-H", self.address[0], "-p", str(self.address[1])]
        self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        steps.wait_until(self.answers, "their server answers")

    def answers(self):
        assert self.process.poll() is None, "their server has not started"
        try:
            socket.create_connection(self.address).close()
        except OSError:
            return False
        return True

    def scan(self, module, messages, said):
        header, *data = messages
        with socket.create_connection(self.address, timeout=120) as connection:
            connection.sendall(b"".join([wire.config_file(module), header, *said, *data, wire.close()]))
            return images_of(b"".join(iter(lambda: connection.recv(1 << 20), b"")))

    def stop(self):
        self.process.kill()
        self.process.wait()


def images_of(data):
    """The images of a reply whose texts need not look as ours do."""
    images, at = [], 0
    while at < len(data):
        (number,) = struct.unpack_from("<H", data, at)
        at += 2
        if number == wire.TEXT:
            at += 4 + struct.unpack_from("<I", data, at)[0]
        elif number == wire.IMAGE:
            head = np.frombuffer(data, wire.IMAGE_HEAD, 1, at)[0]
            (n,) = struct.unpack_from("<Q", data, at + 198)
            attributes = data[at + 206 : at + 206 + n].rstrip(b"\0").decode()
            at += 206 + n
            shape = (int(head["channels"]), *(int(extent) for extent in head["matrix_size"][::-1]))
            pixels = np.frombuffer(data, wire.PIXELS[int(head["data_type"])], int(np.prod(shape)), at).reshape(shape)
            images.append(wire.Image(head, attributes, pixels))
            at += pixels.nbytes
        else:
            assert number == wire.CLOSE, f"their server sent message {number}"
    return images


def without_ours(image):
    """Head and attributes without the one that says what the host has set, which their server does not write."""
    own = r"<meta><name>echotrain_parameters</name><value>[^<]*</value></meta>\s*"
    head = image.head.copy()
    head["attribute_string_len"] = 0
    return head.tobytes(), re.sub(own, "", image.attributes).strip()


def differences(ours, theirs):
    if len(ours) != len(theirs) or not ours:
        return [f"{len(ours)} images, under their server {len(theirs)}"]
    found = []
    for i, (one, other) in enumerate(zip(ours, theirs)):
        (head, attributes), (their_head, their_attributes) = without_ours(one), without_ours(other)
        same = {"pixels": np.array_equal(one.pixels, other.pixels), "attributes": attributes == their_attributes,
                "head": head == their_head}  # fmt: skip
        found += [f"image {i}: other {name}" for name, equal in same.items() if not equal]
    return found


def pictures(number, kind=2, series=1, image_type=1, scale=1000, seed=1):
    """Images of one series, as `number` slices beside each other."""
    random = np.random.default_rng(seed)
    return [steps.image(scale * random.random((1, 1, steps.N, steps.N)), kind=kind, index=i + 1, attributes=META,
                        slice=i, position=(0, 0, 5 * i), field_of_view=(256, 256, 5), series=series,
                        image_type=image_type) for i in range(number)]  # fmt: skip


def frames_of_bloch_siegert():
    """Magnitude and phase of the 11 frames that a map of one channel takes, in one slice."""
    ramp = np.linspace(0.2, 1, steps.N)
    magnitude, phase = 400 * ramp[None, :] * ramp[:, None], 4095 * ramp[None, :] * np.ones((steps.N, 1))
    both = []
    for kind, pixels, series in ((1, magnitude, 1), (2, phase, 2)):
        for frame in range(11):
            moved = (pixels + (300 * (frame % 4) if kind == 2 else 3 * frame)) % 4096
            both.append(steps.image(moved[None, None], kind=1, index=frame + 1, attributes=META, repetition=frame,
                                    field_of_view=(256, 256, 5), series=series, image_type=kind))  # fmt: skip
    return both


def of_fire():
    """Modules that the server brings: name, what it gets, the data, what the host says."""
    images, readouts = pictures(4), steps.readouts(steps.random_kspace())
    yield "invertcontrast", "readouts", readouts, None
    yield "invertcontrast", "images", images, None
    yield "invertcontrast", "images, the host's parameters", images, {"sendoriginal": True, "options": "roi"}
    yield "simplefft", "readouts", readouts, None


def of_packages():
    """Modules of OpenRecon packages."""
    frames = frames_of_bloch_siegert()
    yield "blochsiegertb1mapping", "magnitude and phase", frames, None
    yield "blochsiegertb1mapping", "the host's parameters", frames, {"sendb0": False, "sendmask": True, "phasewrap": 2048}
    yield "arfiproc", "images", pictures(4), None
    afi = {"brainmask": False, "tr_ratio": 4.5, "b1output": "afa", "b1fwhm": 4.0}
    yield "afib1", "images, the host's parameters", pictures(8), afi
    yield "afib1", "images, other parameters", pictures(8), {**afi, "b1output": "pu", "nominal_fa": 55, "interleaved": True}


def bring(folder, packages, place):
    """One folder with all modules, so that each finds the same helpers in both servers."""
    for file in folder.glob("*.py"):
        shutil.copy(file, place)
    if packages:
        for module in sorted({name for name, *_ in of_packages()}):
            shutil.copy(packages / "recipes" / module / f"{module}.py", place)


def main(folder, packages):
    xml = steps.XML.format(n=steps.N, last=steps.N - 1, half=steps.N // 2)
    header = wire.header(xml.replace("<experimentalConditions>", SYSTEM + "<experimentalConditions>", 1))
    failed = False
    with tempfile.TemporaryDirectory() as name, open(pathlib.Path(name) / "theirs.log", "wb") as log:
        place, modules = pathlib.Path(name), pathlib.Path(name) / "modules"
        modules.mkdir()
        bring(folder, packages, modules)
        os.chdir(place)  # where modules of ours write their files
        server = steps.start_server(place, "--python-write", "/tmp", modules=modules, python=PYTHON)
        theirs = Theirs(modules, log)
        try:
            for module, kind, data, parameters in itertools.chain(of_fire(), of_packages() if packages else ()):
                said = []
                if parameters is not None:
                    said = [wire.text(json.dumps({"parameters": parameters}) + "\0")]
                chain = steps.pipeline(steps.python(module, host_parameters="true"))
                reply = wire.exchange(server.address, [chain, header, *said, *data, wire.close()])
                found = reply.errors() + differences(reply.images, theirs.scan(module, [header, *data], said))
                failed = failed or bool(found)
                print(f"{module}, {kind}: {'; '.join(found) or f'{len(reply.images)} images, the same in every bit'}")
        finally:
            theirs.stop()
            server.stop()
        if failed:
            print((place / "theirs.log").read_text(errors="replace")[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    folders = [pathlib.Path(each).resolve() for each in sys.argv[1:]]
    if not 1 <= len(folders) <= 2 or not (folders[0] / "server.py").exists():
        sys.exit(__doc__)
    sys.exit(main(folders[0], folders[1] if len(folders) == 2 else None))
