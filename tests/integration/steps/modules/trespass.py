"""Tries what a step has no use for, in the way that its config says."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time


def kernel(what, *arguments):
    """A function of the C library, which must not work."""
    if getattr(ctypes.CDLL(None, use_errno=True), what)(*arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)


def fork_bomb():
    while True:
        if os.fork() == 0:
            time.sleep(3600)


def thread_bomb():
    threading.stack_size(1 << 16)
    while True:
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


def write(place, data):
    with open(place, "wb") as file:
        file.write(data)


def work():
    """What steps do, all of which must work."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"mine")
    os.makedirs("debug")
    write("debug/here", b"mine")
    assert os.path.expanduser("~") == os.getcwd() == tempfile.gettempdir()
    subprocess.run([sys.executable, "-c", "import numpy, ctypes.util; assert ctypes.util.find_library('c')"], check=True)
    import multiprocessing

    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]
    left, right = socket.socketpair()
    left.sendall(b"x")
    assert right.recv(1) == b"x"
    child = subprocess.Popen(["sleep", "3600"])
    child.kill()
    child.wait()


def process(connection, config, header):
    how, place, server = config["how"], config.get("place"), config.get("server")
    attempts = {
        "read": lambda: open(place, "rb").read(),
        "list": lambda: os.listdir(place),
        "write": lambda: write(place, b"mine"),
        "truncate": lambda: os.truncate(place, 0),
        "empty": lambda: os.open(place, os.O_RDONLY | os.O_TRUNC),
        "link": lambda: os.link(place, "link"),
        "chmod": lambda: os.chmod(place, 0o777),
        "memory": lambda: open(f"/proc/{server}/mem", "rb").read(1),
        "environment": lambda: open(f"/proc/{server}/environ", "rb").read(1),
        "output": lambda: open(f"/proc/{server}/fd/1", "wb"),
        "signal": lambda: os.kill(server, signal.SIGTERM),
        "everybody": lambda: os.kill(-1, signal.SIGUSR1),
        "ptrace": lambda: kernel("ptrace", 16, server, None, None),
        "attach": lambda: kernel("process_vm_readv", server, None, 0, None, 0, 0),
        "namespace": lambda: kernel("unshare", 0x10000000),
        "limits": lambda: kernel("prlimit", server, 7, (ctypes.c_uint64 * 2)(8, 8), None),
        "network": lambda: socket.create_connection(("127.0.0.1", config["port"]), timeout=5),
        "unix": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        "long": lambda: write("long", bytes(3 << 20)),
        "forks": fork_bomb,
        "threads": thread_bomb,
        "work": work,
    }
    if how == "each":
        for name in config["attempts"]:
            try:
                attempts[name]()
                connection.send_logging("INFO    ", f"{name}: possible")
            except OSError as error:
                connection.send_logging("INFO    ", f"{name}: {error.strerror}")
    else:
        attempts[how]()
        connection.send_logging("INFO    ", f"{how} was possible")
    for item in connection:
        connection.send(item)
