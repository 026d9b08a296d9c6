"""Scans that a server goes on with when their connection is lost: one exchange over as many connections as it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections import deque
from typing import Any, AsyncIterable, AsyncIterator, Callable, Deque, Dict, List, NamedTuple, Optional, Union, cast

from .. import codec
from ..errors import ConnectionFailed, ScanError, ServerError
from ..image import Image
from .connection import ServerOptions, broken, secret
from .exchange import Event, Exchange, ask
from .feeder import Chunk, Counts, Feeder, async_chunks

OnScan = Callable[[str], None]

_KEPT_BYTES = 256 << 20  # of messages that the server has not acknowledged
_CHUNK_BYTES = 1 << 20
_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
# ERRORs that end a connection, and not the scan while it can be resumed.
_PASSING = ("busy", "shutdown", "capture", "timeout", "budget", "resources")
# Connections that ended before any answer, one after the other for at least so long: what is there answers none.
_UNANSWERED, _UNANSWERED_S = 5, 10.0


class DetachedScan(NamedTuple):
    """What a server says of a detached scan."""

    id: str
    state: str  # receiving, waiting, running, done, failed, incomplete or cancelled
    pipeline: str
    begun: Union[float, str]
    received: int  # messages after the header
    images: int
    keep_until: Union[float, str, None]
    failure: str

    @classmethod
    def from_answer(cls, answer: Dict[str, Any]) -> DetachedScan:
        default: Dict[str, Any] = {"begun": "", "received": 0, "images": 0, "keep_until": None}
        return cls(**{name: answer.get(name) or default.get(name, "") for name in cls._fields})


class Outbox:
    """Messages on their way, kept until the server has acknowledged them."""

    def __init__(self, items: Any, rate: Optional[float]) -> None:
        self.count = 0  # messages so far
        self.finished = False
        self._safe = 0
        self._readouts = 0  # of messages that are no longer kept
        self._kept: Dict[int, bytes] = {}
        self._bytes = 0
        self._failure: Optional[BaseException] = None
        self._changed = asyncio.Condition()
        self._feeder = None if isinstance(items, AsyncIterable) else Feeder(items, rate)
        chunks = async_chunks(items, rate) if self._feeder is None else self._feeder.chunks()
        self._task = asyncio.ensure_future(self._fill(chunks))

    async def _fill(self, chunks: AsyncIterator[Chunk]) -> None:
        try:
            async for chunk in chunks:
                for part in chunk.parts:
                    await self._keep(part)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the caller's iterable raised it
            self._failure = error
        async with self._changed:
            self.finished = True
            self._changed.notify_all()

    async def _keep(self, part: bytes) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes < _KEPT_BYTES)
            if self.count < self._safe:
                self._readouts += _is_readout(part)
            else:
                self._kept[self.count] = part
                self._bytes += len(part)
            self.count += 1
            self._changed.notify_all()

    async def acknowledge(self, safe: int) -> None:
        """Forgets what lies before message number `safe`."""
        async with self._changed:
            for number in range(self._safe, min(safe, self.count)):
                part = self._kept.pop(number, b"")
                self._readouts += _is_readout(part)
                self._bytes -= len(part)
            self._safe = max(self._safe, safe)
            self._changed.notify_all()

    def readouts(self, before: int) -> int:
        """Readouts among the first messages, as far as these have come."""
        kept = (self._kept[number] for number in range(self._safe, min(before, self.count)))
        return self._readouts + sum(_is_readout(part) for part in kept)

    async def chunks(self, first: int) -> AsyncIterator[Chunk]:
        """Messages from number `first` on, until the items end."""
        if first < self._safe:
            raise ConnectionFailed(
                f"the server had acknowledged {self._safe} messages and has {first}: the others are no longer kept here"
            )
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self.count > first or self.finished)
                chunk = Chunk()
                while first < self.count and chunk.bytes < _CHUNK_BYTES:
                    part = self._kept.get(first, b"")
                    chunk.parts.append(part)
                    chunk.bytes += len(part)
                    chunk.readouts += _is_readout(part)
                    first += 1
            if not chunk.parts:
                if self._failure is not None:
                    raise self._failure
                return
            yield chunk

    async def close(self) -> None:
        if self._feeder is not None:
            self._feeder.stop()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


def _is_readout(part: bytes) -> bool:
    return len(part) > 2 and struct.unpack_from("<H", part)[0] == codec.ACQUISITION


class _Connection(Exchange):
    """One connection of a detached scan: a question, its answer, then an exchange without CLOSE where nothing is left."""

    def __init__(self, scan: Detached, preamble: bytes, ask: str = "") -> None:
        super().__init__(scan.server, preamble)
        self.counts = scan.counts
        self.answer = ""
        self.heard = False
        self.first: Optional[int] = 0  # message to begin with; None: nothing is sent
        self._scan, self._ask = scan, ask

    async def _greet(self) -> None:
        if not self._ask:
            return
        await self._write(codec.encode_query(self._ask))
        while not self.answer:
            message = await asyncio.wait_for(self._read_message(), self._server.timeout)
            if isinstance(message, codec.Response):
                self.answer = message.text
            elif isinstance(message, codec.Close):
                raise ConnectionFailed(f"{self._server.address} did not answer")
            elif isinstance(message, codec.Text) and message.level in ("ERROR", "CRITICAL"):
                await self._take(message)
                raise cast(ServerError, self._server_error)
        await self._scan.answered(self)

    async def _data(self) -> AsyncIterator[bytes]:
        outbox = self._scan.outbox
        if self.first is None or outbox is None:
            return
        async for chunk in outbox.chunks(self.first):
            yield b"".join(chunk.parts)
            self.counts.readouts += chunk.readouts
            self.first += len(chunk.parts)
        if self.first <= outbox.count:
            yield codec.encode_close()

    def leave(self) -> None:
        """Ends it as if the server had sent CLOSE."""
        self._finish(None)

    @property
    def sent_all(self) -> bool:
        return self._sent_all

    async def _take(self, message: codec.Received) -> None:
        self.heard = True
        if isinstance(message, codec.Response):
            await self._scan.respond(self, message.text)
        else:
            await super()._take(message)


class Detached:
    """As Exchange, over several connections. `scan_id`: a scan that the server has already; items None: it is only
    fetched, from image number `images` on."""

    def __init__(
        self,
        server: ServerOptions,
        opening: bytes,
        items: Any,
        rate: Optional[float],
        *,
        scan_id: str = "",
        images: int = 0,
        resume_for: float = 600.0,
        wait: bool = True,
        on_scan: Optional[OnScan] = None,
    ) -> None:
        self.server, self.counts, self.id, self.images = server, Counts(), scan_id, images
        self.outbox: Optional[Outbox] = None
        self._opening, self._items, self._rate = opening, items, rate
        self._resume_for, self._wait, self._on_scan = resume_for, wait, on_scan
        self._fetching, self._refused = items is None, False
        self._safe, self._unanswered, self._unanswered_since = 0, 0, 0.0
        self._connection: Optional[_Connection] = None
        self._told: Deque[codec.Text] = deque()
        self._lost_since: Optional[float] = None
        self._attempts = 0

    async def start(self) -> None:
        if self._items is not None:
            self.outbox = Outbox(self._items, self._rate)
        try:
            await self._connect()
        except ConnectionFailed:
            raise
        except (OSError, EOFError, asyncio.TimeoutError) as error:  # there was one, and it is lost
            await self._return(broken(self.server, error))

    async def next(self) -> Optional[Event]:
        """As Exchange.next(): losses of connections are told as texts, and raised where there was no other for
        `resume_for` seconds."""
        while True:
            if self._told:
                return self._told.popleft()
            connection = cast(_Connection, self._connection)
            try:
                event = await connection.next()
            except (ConnectionFailed, ServerError) as error:
                if not self._passes(error):
                    raise
                await self._return(error)
                continue
            if isinstance(event, Image):
                self.images += 1
                self._moved()
            if event is None and self._told:
                continue
            if event is None and not connection.sent_all:
                raise ConnectionFailed(f"{self.server.address} closed the scan before all of it was sent")
            return event

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        outbox, self.outbox = self.outbox, None
        if outbox is not None:
            await outbox.close()

    # --- connections ---

    def _passes(self, error: Exception) -> bool:
        if isinstance(error, ServerError):
            # A scan that is fetched may itself have ended with the other errors; one that is not there yet is begun again
            # after less.
            if self.id:
                return error.code in (_PASSING[:2] if self._fetching else _PASSING)
            return not self._refused and error.code in _PASSING[1:3]
        if not self.id and self._refused:
            return False
        now = asyncio.get_running_loop().time()
        unheard = not self.id and self._connection is not None and not self._connection.heard
        self._unanswered = self._unanswered + 1 if unheard else 0
        if self._unanswered <= 1:
            self._unanswered_since = now
        # FIRE's server, for one, ends a connection that begins with a question. So does a balancer whose server starts.
        long = now - self._unanswered_since >= min(_UNANSWERED_S, self.server.timeout)
        if self._unanswered >= _UNANSWERED and long:
            self._refuse("it ends the connection when asked")
        return True

    async def _connect(self) -> None:
        if self.id and self._fetching:
            ask, preamble = _question(f"echotrain::fetch/{self.id}/{self.images}", self.server), b""
        elif self.id:
            ask, preamble = _question(f"echotrain::detach/resume/{self.id}/{self.images}", self.server), b""
        else:
            query = b"" if self._refused else codec.encode_query("echotrain::detach/new")
            ask, preamble = "", query + self._opening
        connection = _Connection(self, preamble, ask)
        try:
            await connection.start()
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        if connection.answer.startswith("ended"):
            self._fetching = True
            await connection.close()
            await self._connect()

    async def answered(self, connection: _Connection) -> None:
        """Called with the answer to a question, before anything is sent."""
        word, _, rest = connection.answer.partition(" ")
        if word == "resumed" and rest.isdigit() and self.outbox is not None:
            connection.first = int(rest)
            await self.outbox.acknowledge(int(rest))
        elif word in ("fetching", "ended"):
            connection.first = None
        else:
            raise _NotThere(self.id, connection.answer)

    async def respond(self, connection: _Connection, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word == "acknowledged" and rest.isdigit():
            if int(rest) > self._safe:
                self._safe = int(rest)
                self._moved()
            if self.outbox is not None:
                await self.outbox.acknowledge(self._safe)
                if not self._wait and self.outbox.finished and self._safe > self.outbox.count:
                    connection.leave()
        elif word == "detached" and not self.id:
            self.id = rest
            if self._on_scan is not None:
                self._on_scan(rest)
        elif not self.id and not self._refused:
            self._refuse(text.partition(": ")[2] if word == "refused:" else f"it does not know how ({text})")

    def _refuse(self, why: str) -> None:
        self._refused = True
        if not self._wait:
            raise ServerError("refused", f"the server does not detach this scan: {why}")
        self._told.append(
            codec.Text("WARNING", f"the server does not detach this scan: {why}; it ends with the connection")
        )

    def _moved(self) -> None:
        self._attempts, self._lost_since = 0, None

    async def _return(self, error: Exception) -> None:
        """Connects again, or raises `error`."""
        loop = asyncio.get_running_loop()
        lost = loop.time()
        if self._lost_since is None:
            self._lost_since = lost
        connection, self._connection = self._connection, None
        at = 0
        if connection is not None:
            at = self.outbox.readouts(connection.first) if self.outbox and connection.first is not None else 0
            await connection.close()
        while self._connection is None:
            if loop.time() - self._lost_since >= self._resume_for:
                raise error
            await asyncio.sleep(_PAUSES_S[min(self._attempts, len(_PAUSES_S) - 1)])
            self._attempts += 1
            try:
                await self._connect()
            except _NotThere:
                raise
            except (ServerError, OSError, EOFError, asyncio.TimeoutError) as again:
                if isinstance(again, ServerError) and not self._passes(again):
                    raise
                if isinstance(again, ConnectionFailed):
                    error = again
        seconds = loop.time() - lost
        if self._fetching or self.outbox is None:
            text = f"connection lost after {self.images} images; receiving again after {seconds:.1f} s ({error})"
        else:
            first = cast(_Connection, self._connection).first or 0
            what = "resumed" if self.id else "begun again"
            text = f"connection lost at readout {at}; {what} at {self.outbox.readouts(first)} after {seconds:.1f} s ({error})"
        self._told.append(codec.Text("INFO", text))


class _NotThere(ScanError):
    def __init__(self, scan_id: str, answer: str) -> None:
        super().__init__(
            f"the server answers '{answer}' for the scan {scan_id}: it has none of this client by that ID, or its "
            "time to be kept is over"
        )


def _question(what: str, server: ServerOptions) -> str:
    token = secret(server)
    return f"{what}\ntoken: {token}" if token else what


async def ask_of_scans(server: ServerOptions, what: str) -> str:
    """The answer to a question about detached scans."""
    return await ask(server, _question(what, server))


def read_scans(answer: str) -> List[DetachedScan]:
    """One scan, or an array of them."""
    try:
        found = json.loads(answer)
        return [DetachedScan.from_answer(each) for each in (found if isinstance(found, list) else [found])]
    except (ValueError, AttributeError, TypeError):
        raise ScanError(f"the server answers '{answer[:200]}': it has no such scan, or detaches none") from None
