"""Runs modules of python-ismrmrd-server (FIRE), unmodified, as steps and under their own server; compares the images.

    ./run trial fire FOLDER

FOLDER is a checkout of github.com/kspaceKelvin/python-ismrmrd-server. Its modules write to /tmp/share/debug.
"""

import os
import pathlib
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
META = "<ismrmrdMeta><meta><name>DataRole</name><value>Image</value></meta></ismrmrdMeta>"


class Theirs:
    """Their server, on a free port of loopback."""

    def __init__(self, folder, log):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        command = [sys.executable, "main.py", "-H", self.address[0], "-p", str(self.address[1])]
        self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        steps.wait_until(self.answers, "their server answers")

    def answers(self):
        assert self.process.poll() is None, "their server has not started"
        try:
            socket.create_connection(self.address).close()
        except OSError:
            return False
        return True

    def scan(self, module, messages):
        with socket.create_connection(self.address, timeout=120) as connection:
            connection.sendall(b"".join([wire.config_file(module), *messages, wire.close()]))
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


def differences(ours, theirs):
    if len(ours) != len(theirs) or not ours:
        return [f"{len(ours)} images, under their server {len(theirs)}"]
    found = []
    for i, (one, other) in enumerate(zip(ours, theirs)):
        same = {"pixels": np.array_equal(one.pixels, other.pixels), "attributes": one.attributes == other.attributes,
                "head": one.head.tobytes() == other.head.tobytes()}  # fmt: skip
        found += [f"image {i}: other {name}" for name, equal in same.items() if not equal]
    return found


def main(folder):
    xml = steps.XML.format(n=steps.N, last=steps.N - 1, half=steps.N // 2)
    header = wire.header(xml.replace("<experimentalConditions>", SYSTEM + "<experimentalConditions>", 1))
    random = np.random.default_rng(1)
    images = [steps.image(1000 * random.random((1, 1, steps.N, steps.N)), kind=2, index=i + 1, attributes=META)
              for i in range(4)]  # fmt: skip
    readouts = steps.readouts(steps.random_kspace())
    failed = False
    with tempfile.TemporaryDirectory() as place, open(pathlib.Path(place) / "theirs.log", "wb") as log:
        server = steps.start_server(pathlib.Path(place), modules=folder)
        theirs = Theirs(folder, log)
        try:
            for module, kind, data in (("invertcontrast", "readouts", readouts), ("invertcontrast", "images", images),
                                       ("simplefft", "readouts", readouts)):  # fmt: skip
                chain = steps.pipeline(steps.python(module))
                reply = wire.exchange(server.address, [chain, header, *data, wire.close()])
                found = reply.errors() + differences(reply.images, theirs.scan(module, [header, *data]))
                failed = failed or bool(found)
                print(f"{module}, {kind}: {'; '.join(found) or f'{len(reply.images)} images, the same in every bit'}")
        finally:
            theirs.stop()
            server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "server.py")):
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
