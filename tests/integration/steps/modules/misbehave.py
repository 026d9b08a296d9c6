"""Goes wrong in the way that its config says."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time

import ismrmrd


def write(file, number):
    with open(file + ".part", "w") as part:
        part.write(str(number))
    os.rename(file + ".part", file)


def start_daemon(file):
    """Starts a process in a session of its own, whose parent is gone at once, as daemons do; writes its number."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            write(file, os.getpid())
            os.closerange(0, 64)
            time.sleep(3600)
        os._exit(0)
    os.wait()
    while not os.path.exists(file):
        time.sleep(0.005)


def process(connection, config, header):
    how = config if isinstance(config, str) else config["how"]
    if isinstance(config, dict) and "daemon" in config:
        start_daemon(config["daemon"])
    print(f"process {os.getpid()} will {how}", flush=True)
    if isinstance(config, dict) and "begun" in config:
        open(config["begun"], "w").close()
    if how == "hang":
        time.sleep(3600)
    if how == "family":  # with a process that would outlive it, and everybody
        write(config["file"], subprocess.Popen(["sleep", "3600"]).pid)
        while True:
            pass
    if how == "daemon":
        start_daemon(config["file"])
        while True:
            pass
    if how == "spin":
        while True:
            pass
    if how == "return":
        return
    first = next(connection)
    if how == "raise":
        raise ValueError("the phantom has no head")
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        sys.exit(7)
    if how == "garbage":
        os.write(3, b"GET / HTTP/1.1\r\n\r\n")
        time.sleep(3600)
    if how == "half":
        os.write(3, b"\xfe")
        os._exit(0)
    if how == "memory":
        held = bytearray(1 << 40)
        print(len(held))
    if how == "files":
        held = [open("/dev/null") for _ in range(10000)]
    if how == "child":  # one that would outlive it
        started = subprocess.Popen(["sleep", "3600"], pass_fds=(3,))
        print(f"child {started.pid}", flush=True)
        connection.send_text(f"INFO     child {started.pid}")
        os._exit(5)
    if how == "endless":  # one image without an end
        kind, size = ismrmrd.DATATYPE_FLOAT, (512, 512, 1024)
        head = ismrmrd.ImageHeader(version=1, data_type=kind, matrix_size=size, channels=1)
        stream = socket.socket(fileno=3)
        stream.sendall(struct.pack("<H", 1022) + bytes(head) + bytes(8))
        while True:
            stream.sendall(bytes(1 << 20))
    if how == "flood":
        image = ismrmrd.Image.from_array(first.data[:1].real.copy(), acquisition=first, transpose=False)
        while True:
            connection.send_image(image)
    if how == "text_flood":
        for i in range(100000):
            connection.send_logging("INFO    ", f"text {i}")
    if how == "early":  # results long before the scan's end
        image = ismrmrd.Image.from_array(first.data[:1].real.copy(), acquisition=first, transpose=False)
        connection.send_image(image)
    if how == "late":  # results after a pause
        while not os.path.exists(config["file"]):
            time.sleep(0.01)
        image = ismrmrd.Image.from_array(first.data[:1].real.copy(), acquisition=first, transpose=False)
        connection.send_image(image)
    for _ in connection:
        pass
