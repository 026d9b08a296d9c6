"""Servers behind HAProxy on one machine, each in a network namespace of its own: client -- balancer -- server 1, 2, 3."""

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from programs import BIN, SHIPPED, SOURCE

FRONT = "10.78.0"  # the client is .2, the balancer .1
BACK = "10.77.0"  # the balancer is .1, server i is .1i
INTERVAL_S = 1.0  # of the checks in docker/haproxy.cfg


def require(programs=("ip", "haproxy")):
    """Skips where namespaces or programs cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    name = f"et{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode == 0:
        made = subprocess.run(["ip", "-n", name, "link", "add", "name", "veth0", "type", "veth", "peer", "name", "veth1"],
                              capture_output=True, text=True)  # fmt: skip
        subprocess.run(["ip", "netns", "del", name], check=False)
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr.strip()}")


def wait_until(condition, what, timeout_s=20):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited too long for: {what}"
        time.sleep(0.02)


class Network:
    """Namespaces joined by pairs of virtual interfaces; the balancer's has a bridge for the servers."""

    def __init__(self, servers):
        self.prefix = f"et{os.getpid()}"
        self.names = ["client", "lb", *(f"s{i}" for i in range(1, servers + 1))]
        for name in self.names:
            self.ip("netns", "add", self.space(name))
            self.inside(name, "link", "set", "lo", "up")
        self.inside("lb", "link", "add", "name", "br0", "type", "bridge")
        self.inside("lb", "addr", "add", f"{BACK}.1/24", "dev", "br0")
        self.inside("lb", "link", "set", "br0", "up")
        self.join("client", f"{FRONT}.2/24", "lb", f"{FRONT}.1/24")
        for i in range(1, servers + 1):
            self.join(f"s{i}", f"{BACK}.1{i}/24", "lb", None)

    def space(self, name):
        return f"{self.prefix}{name}"

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def inside(self, name, *arguments):
        self.ip("-n", self.space(name), *arguments)

    def join(self, name, address, other, other_address):
        self.inside(name, "link", "add", "name", "eth0", "type", "veth", "peer", "name", f"to-{name}", "netns",
                    self.space(other))  # fmt: skip
        self.inside(name, "addr", "add", address, "dev", "eth0")
        self.inside(name, "link", "set", "eth0", "up")
        if other_address:
            self.inside(other, "addr", "add", other_address, "dev", f"to-{name}")
        else:
            self.inside(other, "link", "set", f"to-{name}", "master", "br0")
        self.inside(other, "link", "set", f"to-{name}", "up")

    def set_link(self, name, state):
        """Pulls (down) or plugs in (up) a server's cable, at the balancer's end."""
        self.inside("lb", "link", "set", f"to-{name}", state)

    def command(self, name, *command):
        return ["ip", "netns", "exec", self.space(name), *(str(c) for c in command)]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self.space(name)], check=False, capture_output=True)


class Cluster:
    """Three servers, number i with places for `capacities[i - 1]` scans, and the balancer of docker/haproxy.cfg."""

    def __init__(self, folder, capacities):
        self.folder = folder
        self.capacities = capacities
        self.network = Network(len(capacities))
        self.servers = {}
        self.balancer = None
        self.clients = []
        try:
            for i in range(1, len(capacities) + 1):
                self.start_server(i)
            self.start_balancer()
            self.wait_for_all()
        except BaseException:
            self.stop()
            raise

    def start_server(self, i):
        address = f"{BACK}.1{i}"
        log = open(self.folder / f"server{i}.log", "ab")
        command = self.network.command(
            f"s{i}", BIN / "echotrain-server", "--bind", address, "--allow", f"{FRONT}.0/24", "--proxy-from", f"{BACK}.1",
            "--admin-bind", address,
            "--admin-agent-port", 9005, "--cpu-scans", self.capacities[i - 1], "--backend", "cpu",
            "--shutdown-delay-s", 3, "--pipelines", SHIPPED)  # fmt: skip
        self.servers[i] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()

    def start_balancer(self):
        text = (SOURCE / "docker" / "haproxy.cfg").read_text()
        servers = "\n".join(f"    server recon{i} {BACK}.1{i}:9002" for i in self.servers)
        text, changed = re.subn(r"(?m)^ *server-template .*$", servers, text)
        assert changed == 1
        self.stats_path = self.folder / "haproxy.sock"
        text, changed = re.subn(r"/tmp/haproxy\.sock", str(self.stats_path), text)
        assert changed == 1
        config = self.folder / "haproxy.cfg"
        config.write_text(text)
        log = open(self.folder / "haproxy.log", "ab")
        command = self.network.command("lb", "haproxy", "-W", "-db", "-f", config)
        self.balancer = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        log.close()

    def reload_balancer(self):
        """Like `systemctl reload haproxy`: a new process takes the port, the old one finishes its scans."""
        before = self.info().get("Pid")
        self.balancer.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.info().get("Pid") not in (None, before), "the balancer's new process")

    def ask(self, question):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(self.stats_path))
            client.sendall(question.encode() + b"\n")
            answer = b""
            while part := client.recv(1 << 16):
                answer += part
        return answer.decode()

    def info(self):
        try:
            return dict(line.split(": ", 1) for line in self.ask("show info").splitlines() if ": " in line)
        except OSError:
            return {}

    def stats(self):
        """HAProxy's view of each server, by its number: status, scur (scans now), stot (in all), slim (maxconn)."""
        rows = csv.DictReader(self.ask("show stat").lstrip("# ").splitlines())
        return {int(row["svname"][5:]): row for row in rows if row["svname"].startswith("recon")}

    def waiting(self):
        rows = csv.DictReader(self.ask("show stat").lstrip("# ").splitlines())
        return sum(int(row["qcur"]) for row in rows if row["svname"] == "BACKEND" and row["pxname"] == "servers")

    def running(self):
        return {i: int(row["scur"]) for i, row in self.stats().items()}

    def peers(self, i):
        """The addresses of server i's clients, as its admin page has them."""
        command = self.network.command("lb", sys.executable, "-c", "import sys, urllib.request; "
                                       "print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())",
                                       f"http://{BACK}.1{i}:9004/sessions")  # fmt: skip
        page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout
        return [one["peer"].rpartition(":")[0] for one in json.loads(page)["sessions"]]

    def total(self, i):
        return int(self.stats()[i]["stot"])

    def wait_for_all(self):
        """Waits until every server is up and its agent has said how many scans it takes."""

        def up():
            try:
                rows = self.stats()
            except OSError:
                return False
            return all(rows[i]["status"] == "UP" and rows[i]["slim"] == str(n)
                       for i, n in enumerate(self.capacities, 1))  # fmt: skip

        wait_until(up, "all servers to be up")

    def start_scan(self, path, pipeline, rate=0):
        """A client that sends a scan through the balancer; its images are in `client.output`."""
        output = self.folder / f"images{len(self.clients)}.h5"
        command = self.network.command(
            "client", BIN / "echotrain", "send", path, "-c", pipeline, "-a", f"{FRONT}.1", "-p", 9002, "-o", output,
            "--rate", rate)  # fmt: skip
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        client.output = output
        client.began = time.monotonic()
        self.clients.append(client)
        return client

    def stop(self):
        for process in [*self.clients, *self.servers.values(), *([self.balancer] if self.balancer else [])]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.network.remove()
