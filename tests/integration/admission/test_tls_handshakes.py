"""Who pays for TLS handshakes of clients that nobody knows yet: the kernel counts each thread's processor time."""

import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess

import pytest

from programs import Server, ends_well

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")

HOST = "127.0.0.1"


@pytest.fixture
def server(tmp_path):
    """Its key takes milliseconds to sign with."""
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-keyout", key, "-out", certificate]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    made = Server(tmp_path, "--backend", "cpu", "--warm-up", "false", "--tls-port", "0", "--tls-certificate",
                  certificate, "--tls-key", key)  # fmt: skip
    made.tls_port = int(made.wait_for(r"listening with TLS on \S+:(\d+)")[1])
    yield from ends_well(made)


def first_message():
    """A ClientHello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def begin(server, hello):
    connection = socket.create_connection((HOST, server.tls_port), timeout=60)
    connection.sendall(hello)
    return connection


def be_answered(server, hello, count):
    """Connects, has the server sign, and hangs up, so many times."""
    for _ in range(count):
        with begin(server, hello) as connection:
            assert connection.recv(1)


def seconds_by_thread(server):
    """{thread: (nice, processor time)} [s]"""
    seconds = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()  # from the third field on, proc(5)
        seconds[task.name] = (int(fields[16]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return seconds


def used(before, after):
    """The time of threads that move bytes (at the process's nice, or before it), and of all [s]."""
    spent = [(nice, seconds - before.get(task, (0, 0))[1]) for task, (nice, seconds) in after.items()]
    return sum(s for nice, s in spent if nice <= os.nice(0)), sum(s for _, s in spent)


def test_threads_that_move_bytes_do_not_sign(server):
    before = seconds_by_thread(server)
    be_answered(server, first_message(), 200)
    moving, everything = used(before, seconds_by_thread(server))
    assert moving < everything / 2, f"{moving} of {everything} s"


def test_nothing_is_signed_for_who_is_gone(server):
    hello = first_message()
    be_answered(server, hello, 1)
    before = seconds_by_thread(server)
    be_answered(server, hello, 50)
    answered = used(before, seconds_by_thread(server))[1]
    before = seconds_by_thread(server)
    os.kill(server.process.pid, signal.SIGSTOP)
    for _ in range(50):
        begin(server, hello).close()
    os.kill(server.process.pid, signal.SIGCONT)
    be_answered(server, hello, 1)  # after the others of its address
    gone = used(before, seconds_by_thread(server))[1]
    assert gone < answered / 2, f"{gone} s beside {answered}"
