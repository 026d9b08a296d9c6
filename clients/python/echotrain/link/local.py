"""A server of this process's own, for those who have none to connect to: local=True."""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from typing import List, NamedTuple, Optional

from ..errors import ConnectionFailed

PROGRAM = "echotrain-server"

# The shell becomes the server ($1), and leaves behind a part of itself that waits for the end of its standard input: the
# pipe ends with the process that holds the other end, however that process ends. It signals its parent while that is still
# the server, waits, and removes the folder ($0).
_SCRIPT = """
server=$$
exec 3<&0
{
  parent() { read -r _ _ _ parent _ </proc/self/stat; [ "$parent" = "$server" ]; }
  read -r _ <&3
  if parent; then kill -TERM "$server"; fi
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    if parent; then sleep 0.3; fi
  done
  if parent; then kill -KILL "$server"; fi
  rm -rf "$0"
} >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"""


class Local(NamedTuple):
    port: int
    token: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Ends it; of a fork of the process that began it, only forgets it."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


_lock = threading.Lock()
_running: Optional[Local] = None
_owner = 0  # the process that began it


def places() -> List[pathlib.Path]:
    """Where the program is looked for, in this order, before PATH: in the wheel, and in the build of these sources."""
    package = pathlib.Path(__file__).resolve().parents[1]
    built = package.parents[2]
    folders = [package / "bin"]
    if (built / "CMakeLists.txt").is_file() and (built / "server").is_dir():
        folders.append(built / "build" / "bin")
    return [folder / PROGRAM for folder in folders]


def find_server() -> str:
    """The server's program: ECHOTRAIN_SERVER in the environment, or of the first place that has one."""
    chosen = os.environ.get("ECHOTRAIN_SERVER")
    if chosen:
        if not os.access(chosen, os.X_OK) or os.path.isdir(chosen):
            raise ConnectionFailed(f"ECHOTRAIN_SERVER={chosen}: no program is there")
        return chosen
    for place in places():
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which(PROGRAM)
    if found is None:
        looked = ", ".join(str(place) for place in places())
        raise ConnectionFailed(
            f"local=True: there is no program {PROGRAM} ({looked}, PATH). The binary wheel has one (./run package makes "
            "it), ./run build builds one, and ECHOTRAIN_SERVER names one anywhere"
        )
    return found


def local_server(timeout: float = 60.0) -> Local:
    """The server of this process, which it starts where none runs. It listens on loopback, on a port that was free, and
    serves only those who know its token, which lies in a folder of this user's; it ends with this process."""
    global _running, _owner
    with _lock:
        if _running is not None and (os.getpid() != _owner or _running.process.poll() is None):
            return _running
        if _running is not None:
            _running.stop()
        _running, _owner = _start(timeout), os.getpid()
        return _running


def _start(timeout: float) -> Local:
    program = find_server()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="echotrain-"))  # nobody else may look into it
    token, log = secrets.token_hex(24), folder / "log"
    (folder / "tokens").write_text(f"{token} name=local\n", encoding="ascii")
    options = ["--bind", "127.0.0.1", "--port", "0", "--token-file", str(folder / "tokens"), "--admin-enabled", "false"]
    options += ["--log-level", "error", "--warm-up", "false"]
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, str(folder), program, *options],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is this process's alone
        )
    end = time.monotonic() + timeout
    while True:
        text = log.read_text(encoding="utf-8", errors="replace")
        told = re.search(r"^listening on \S*:(\d+)$", text, re.MULTILINE)
        if told:
            return Local(int(told[1]), token, process)
        if process.poll() is not None or time.monotonic() > end:
            why = "it has ended" if process.poll() is not None else f"it does not listen after {timeout:g} s (timeout)"
            Local(0, "", process).stop()
            raise ConnectionFailed(f"local=True: {program}: {why}: {text.strip()[-2000:]}")
        time.sleep(0.01)


@atexit.register
def _stop() -> None:
    if _running is not None and os.getpid() == _owner:
        _running.stop()
