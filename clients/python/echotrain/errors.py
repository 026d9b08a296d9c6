"""The errors of this package: everything raised on purpose is an EchotrainError."""

from __future__ import annotations


class EchotrainError(Exception):
    """Base of all errors of this package."""


class ScanError(EchotrainError, ValueError):
    """The arguments are not a scan: wrong shapes, a file without data, a header that contradicts the data."""


class StackError(EchotrainError, ValueError):
    """Images that do not make one array."""


class ConnectionFailed(EchotrainError, ConnectionError):
    """No connection, or one that ended before the measurement did."""


class ServerTimeout(ConnectionFailed, TimeoutError):
    """The server took or gave nothing for longer than was allowed."""


class ProtocolError(EchotrainError):
    """The other side sent bytes that are not a message."""


class ServerError(EchotrainError):
    """The server refused or gave up the measurement, and said why.

    `code` is one of docs/protocol.md ("bad-data", "unknown-config", "unauthorized", ...; empty if the server gave
    none), `text` its reason.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.code else self.text


class ServerWarning(UserWarning):
    """A warning that the server sent along with the images."""
