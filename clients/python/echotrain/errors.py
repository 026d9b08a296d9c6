"""The errors of this package: everything raised on purpose is an EchotrainError."""

from __future__ import annotations

import re
from typing import List


class EchotrainError(Exception):
    """Base of all errors of this package."""


class ScanError(EchotrainError, ValueError):
    """The arguments are not a scan: wrong shapes, a file without data, a header that contradicts the data."""


class ScanWarning(UserWarning):
    """A number of a scan that was likely meant in another unit."""


class StackError(EchotrainError, ValueError):
    """Images that do not make one array."""


class ConnectionFailed(EchotrainError, ConnectionError):
    """No connection, or one that ended before the measurement did."""


class ServerTimeout(ConnectionFailed, TimeoutError):
    """The server took or gave nothing for longer than was allowed."""


class ProtocolError(EchotrainError):
    """The other side sent bytes that are not a message."""


# Texts of servers speak of options of programs; here are those who call functions.
_OF_PROGRAMS = re.compile(r" \(echotrain send --[^)]*\)|, or start the server with --default-pipeline")
_HINTS = (
    ("unauthorized: .*token", "give token='...', or set ECHOTRAIN_TOKEN in the environment"),
    ("out-of-order: a header came before any config", "give pipeline='...'"),
)


class ServerError(EchotrainError):
    """The server refused or gave up the measurement, and said why.

    `code` is one of docs/protocol.md ("bad-data", "unknown-config", "unauthorized", ...; empty if the server gave
    none), `text` its reason. As a string it has also what to do about it here, where that is known.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        whole = f"{self.code}: {self.text}" if self.code else self.text
        hints = "".join(f"; {hint}" for pattern, hint in _HINTS if re.match(pattern, whole, re.DOTALL))
        return _OF_PROGRAMS.sub("", whole) + hints


class NoImages(EchotrainError):
    """The server took all of the scan and sent no image. `reasons`: its warnings, the first few."""

    def __init__(self, readouts: int, reasons: List[str]) -> None:
        super().__init__(readouts, reasons)
        self.readouts = readouts
        self.reasons = reasons

    def __str__(self) -> str:
        why = "; ".join(self.reasons) or "the server gives no reason; were there others than of noise or calibration?"
        return f"no image came of {self.readouts} readouts: {why} (require_images=False takes that for an end)"


class ServerWarning(UserWarning):
    """A warning that the server sent along with the images."""
