"""One measurement on one connection: sends, and receives at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, AsyncIterable, AsyncIterator, Deque, Optional, Tuple, Union, cast

from .. import codec
from ..errors import ServerError, ServerTimeout
from ..image import Image
from ..pipeline import with_token
from .connection import ServerOptions, broken, connect, secret, shut
from .feeder import Chunk, Counts, Feeder, async_chunks

Event = Union[Image, codec.Text, codec.Response]

_EVENT_BYTES = 512 << 20  # of images that wait for the caller
_PIECE_BYTES = 1 << 20


class Exchange:
    """Make and use it in one event loop: `start()`, then `next()` until it is None or raises, then `close()`."""

    def __init__(self, server: ServerOptions, preamble: bytes, items: Any = (), rate: Optional[float] = None) -> None:
        self.counts = Counts()
        self._server, self._preamble, self._items, self._rate = server, preamble, items, rate
        self._events: Deque[Tuple[Event, int]] = deque()
        self._event_bytes = 0
        self._something, self._room = asyncio.Event(), asyncio.Event()
        self._failure: Optional[BaseException] = None
        self._server_error: Optional[ServerError] = None
        self._over = False
        self._closed = False  # the server has sent CLOSE
        self._sent_all = False
        self._in_flight = False  # bytes wait for the server to take them
        self._progress = 0.0
        self._feeder: Optional[Feeder] = None
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: Optional[asyncio.StreamWriter] = None

    async def start(self) -> None:
        self._reader, self._writer = await connect(self._server)
        self._note_progress()
        await self._greet()
        self._tasks = [asyncio.ensure_future(part) for part in (self._send(), self._receive(), self._watch())]

    async def next(self) -> Optional[Event]:
        """The next thing the server sent; None after its CLOSE. Raises an error after all that came before it."""
        while not self._events:
            if self._over:
                if self._server_error is not None:
                    raise self._server_error
                if self._failure is not None:
                    raise self._failure
                return None
            self._something.clear()
            await self._something.wait()
        event, size = self._events.popleft()
        self._event_bytes -= size
        self._room.set()
        return event

    async def close(self) -> None:
        """Ends the connection, whatever its state. May be called more than once."""
        if self._feeder is not None:
            self._feeder.stop()
        self._finish(None)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        writer, self._writer = self._writer, None
        if writer is not None:
            await shut(writer, politely=self._closed and bool(self._server.tls))

    def _finish(self, failure: Optional[BaseException]) -> None:
        if not self._over:
            self._over, self._failure = True, failure
        self._something.set()

    def _note_progress(self) -> None:
        self._progress = asyncio.get_running_loop().time()

    # --- sending ---

    def _chunks(self) -> AsyncIterator[Chunk]:
        if isinstance(self._items, AsyncIterable):
            return async_chunks(self._items, self._rate)
        self._feeder = Feeder(self._items, self._rate)
        return self._feeder.chunks()

    async def _greet(self) -> None:
        """What comes before everything else."""

    async def _data(self) -> AsyncIterator[bytes]:
        """What is sent after the preamble."""
        async for chunk in self._chunks():
            yield b"".join(chunk.parts)
            self.counts.readouts += chunk.readouts
        yield codec.encode_close()

    async def _send(self) -> None:
        try:
            await self._write(self._preamble)
            async for data in self._data():
                await self._write(data)
            self._sent_all = True
            self._note_progress()
        except OSError:
            pass  # the receiver sees it too, and perhaps why
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the caller's iterable raised it
            self._finish(error)
            if self._writer is not None:
                self._writer.transport.abort()

    async def _write(self, data: bytes) -> None:
        writer = cast(asyncio.StreamWriter, self._writer)
        self._in_flight = True
        writer.write(data)
        await writer.drain()
        self._in_flight = False
        self.counts.bytes += len(data)
        self._note_progress()

    # --- receiving ---

    async def _receive(self) -> None:
        try:
            while not self._closed:
                await self._take(await self._read_message())
            self._finish(None)
        except (OSError, EOFError) as error:
            self._finish(broken(self._server, error))
        except Exception as error:  # next() raises it
            self._finish(error)
        finally:
            if self._feeder is not None:
                self._feeder.stop()

    async def _read_message(self) -> codec.Received:
        decoder = codec.read_message()
        need = next(decoder)
        while True:
            try:
                need = decoder.send(await self._read(need))
            except StopIteration as done:
                return cast(codec.Received, done.value)

    async def _read(self, n: int) -> Union[bytes, bytearray]:
        if n <= _PIECE_BYTES:
            data = await self._reader.readexactly(n)
            self._note_progress()
            return data
        # Memory grows with what has come, not with what was announced.
        whole = bytearray()
        while len(whole) < n:
            piece = await self._reader.read(min(n - len(whole), _PIECE_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(bytes(1), n)
            whole += piece
            self._note_progress()
        return whole

    async def _take(self, message: codec.Received) -> None:
        if isinstance(message, codec.Close):
            self._closed = True
            return
        size = 0
        if isinstance(message, Image):
            size = message.data.nbytes
        elif isinstance(message, codec.Text) and message.level in ("ERROR", "CRITICAL") and self._server_error is None:
            self._server_error = _server_error(message.text)
            return
        while self._event_bytes > _EVENT_BYTES:
            self._room.clear()
            await self._room.wait()
        self._event_bytes += size
        self._events.append((message, size))
        self._something.set()

    # --- patience ---

    async def _watch(self) -> None:
        limits = [limit for limit in (self._server.timeout, self._server.reply_timeout) if limit]
        pause = min([1.0, *(limit / 4 for limit in limits)])
        loop = asyncio.get_running_loop()
        while not self._over:
            await asyncio.sleep(pause)
            idle = loop.time() - self._progress
            if self._event_bytes > _EVENT_BYTES:
                continue  # the caller is slow, not the server
            if self._sent_all and self._server.reply_timeout and idle > self._server.reply_timeout:
                self._finish(
                    ServerTimeout(f"nothing came from {self._server.address} for {idle:.3g} s (reply_timeout)")
                )
            elif self._in_flight and idle > self._server.timeout:
                self._finish(ServerTimeout(f"{self._server.address} took nothing for {idle:.3g} s (timeout)"))


def _server_error(text: str) -> ServerError:
    code, colon, rest = text.partition(": ")
    known = colon and code.replace("-", "").isalpha() and code.islower()
    return ServerError(code, rest.strip()) if known else ServerError("", text)


@contextlib.asynccontextmanager
async def exchanging(
    server: ServerOptions, preamble: bytes, items: Any = (), rate: Optional[float] = None
) -> AsyncIterator[Exchange]:
    exchange = Exchange(server, preamble, items, rate)
    try:
        await exchange.start()
        yield exchange
    finally:
        await exchange.close()


async def ask(server: ServerOptions, question: str) -> str:
    """The server's answer to a QUERY, without a scan; empty where it gives none. A token goes first, in a config (of a
    pipeline that all servers have), unless the question has it: servers tell strangers little."""
    answer, token = "", secret(server)
    first = codec.encode_config(with_token("use: passthrough\n", token)) if token and "\ntoken: " not in question else b""
    async with exchanging(server, first + codec.encode_query(question)) as exchange:
        while True:
            event = await exchange.next()
            if event is None:
                return answer
            if isinstance(event, codec.Response):
                answer = event.text
