"""A connection to a server, and the server's address."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import ssl
from typing import Any, Optional, Tuple, Union

from ..errors import ConnectionFailed, ServerTimeout
from .local import local_server

_BUFFER_BYTES = 4 << 20

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(eq=False, repr=False)
class ServerOptions:
    """A server's address and credentials; see Client, which is one."""

    host: str = "127.0.0.1"
    port: int = 9002
    tls: Any = False
    ca: Optional[Path] = None
    cert: Optional[Path] = None
    key: Optional[Path] = None
    token: Optional[str] = None
    timeout: float = 60.0
    reply_timeout: Optional[float] = None
    local: bool = False

    def __post_init__(self) -> None:
        if self.local:
            if (self.host, self.port) != ("127.0.0.1", 9002) or self.tls or self.token is not None:
                raise ValueError("local=True starts a server of its own; host, port, tls and token are of another one")
            server = local_server(self.timeout)
            self.port, self.token = server.port, server.token
        if not self.tls and (self.ca or self.cert or self.key):
            raise ValueError("ca, cert and key are for TLS; add tls=True")
        if self.key and not self.cert:
            raise ValueError("key belongs to a certificate; give cert too")
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is not one of 1 to 65535")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def server(self) -> ServerOptions:
        """What a client is connected to, which it is itself."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.address}{' with TLS' if self.tls else ''}>"


def secret(server: ServerOptions) -> str:
    """The given token, or the environment's."""
    return os.environ.get("ECHOTRAIN_TOKEN", "") if server.token is None else server.token


def _context(server: ServerOptions) -> Optional[ssl.SSLContext]:
    if isinstance(server.tls, ssl.SSLContext):
        return server.tls
    if not server.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=None if server.ca is None else os.fspath(server.ca))
    except (OSError, ssl.SSLError) as error:
        raise ConnectionFailed(f"ca={server.ca}: cannot be used as certificates to trust: {error}") from None
    if server.ca is not None:
        # Python 3.13 asks for extensions that authorities made with plain openssl commands do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if server.cert:
        try:
            context.load_cert_chain(server.cert, server.key)
        except (OSError, ssl.SSLError) as error:
            raise ConnectionFailed(f"cert={server.cert}, key={server.key}: cannot be used: {error}") from None
    return context


async def connect(server: ServerOptions) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connected, with TLS where wanted. ConnectionFailed says what is wrong."""
    context = _context(server)
    opening = asyncio.open_connection(server.host, server.port, ssl=context, limit=_BUFFER_BYTES)
    try:
        reader, writer = await asyncio.wait_for(opening, server.timeout)
    except asyncio.TimeoutError:
        hint = "; is this its TLS port?" if context else ""
        raise ServerTimeout(f"{server.address} did not answer within {server.timeout:g} s (timeout){hint}") from None
    except ssl.SSLCertVerificationError as error:
        raise ConnectionFailed(
            f"the certificate of {server.address} is not to be trusted: {error.verify_message}; "
            "ca=FILE.pem names certificates to trust"
        ) from None
    except ssl.SSLError as error:
        raise ConnectionFailed(
            f"no TLS with {server.address}: {error.reason or error}; is this its TLS port?"
        ) from None
    except socket.gaierror as error:
        raise ConnectionFailed(f"cannot find host '{server.host}': {error.strerror}") from None
    except OSError as error:
        hint = (
            "is this its TLS port?"
            if context and isinstance(error, ConnectionResetError)
            else "is the server running? (local=True starts one)"
        )
        reason = os.strerror(error.errno) if error.errno else error
        raise ConnectionFailed(f"cannot connect to {server.address}: {reason}; {hint}") from None
    # A host that has vanished is noticed even while nothing is sent.
    plain = writer.get_extra_info("socket")
    if plain is not None:
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def broken(server: ServerOptions, error: BaseException) -> ConnectionFailed:
    """The exception for a connection that ended by `error`."""
    if isinstance(error, ssl.SSLError):
        return ConnectionFailed(f"{server.address} ended TLS: {(error.reason or str(error)).replace('_', ' ').lower()}")
    if isinstance(error, asyncio.IncompleteReadError):
        where = "inside a message" if error.partial else "without CLOSE"
        hint = "" if server.tls else "; is this its TLS port, or was the server stopped?"
        return ConnectionFailed(f"{server.address} ended the connection {where}{hint}")
    return ConnectionFailed(f"the connection to {server.address} broke: {getattr(error, 'strerror', None) or error}")


async def shut(writer: asyncio.StreamWriter, politely: bool) -> None:
    """Ends a connection: with TLS's goodbye if `politely`, else at once."""
    if not politely:
        writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn
        return
    writer.close()
    with contextlib.suppress(OSError, asyncio.TimeoutError, ssl.SSLError):
        await asyncio.wait_for(writer.wait_closed(), 1)
