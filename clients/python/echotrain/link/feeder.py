"""Readouts on their way to the socket: taken from any iterable in a thread of its own, so that an
iterable that waits for a scanner (or reads a file) does not keep images from being received."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, AsyncIterable, AsyncIterator, Iterable, List, Optional

from .. import codec
from ..messages import Acquisition

_AHEAD_BYTES = 32 << 20
_CHUNK_BYTES = 1 << 20


class Counts:
    """Counts of what the connection has been given so far."""

    def __init__(self) -> None:
        self.readouts = 0
        self.bytes = 0


class Chunk:
    """Whole messages, and how many of them are readouts."""

    def __init__(self) -> None:
        self.parts: List[bytes] = []
        self.bytes = 0
        self.readouts = 0

    def add(self, message: Any) -> None:
        data = codec.encode(message)
        self.parts.append(data)
        self.bytes += len(data)
        self.readouts += isinstance(message, Acquisition) or type(message).__name__ == "Acquisition"


class Feeder:
    """Encodes an iterable's items in a thread, a bounded number of bytes ahead; `chunks()` gives all that is ready."""

    def __init__(self, items: Iterable[Any], rate: Optional[float]) -> None:
        self._items, self._rate = items, rate
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._changed = threading.Condition()
        self._waiting: List[Chunk] = []
        self._bytes = 0
        self._stopped = False
        self._finished = False
        self._failure: Optional[BaseException] = None
        threading.Thread(target=self._run, name="echotrain-feeder", daemon=True).start()

    def stop(self) -> None:
        """Takes no further item. Does not wait for an item that is still to come: the thread ends after it."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Gives chunks until the items end; raises what the iterable raised."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            with self._changed:
                waiting, self._waiting, self._bytes = self._waiting, [], 0
                finished = self._finished
                self._changed.notify_all()
            for chunk in waiting:
                yield chunk
            if finished:
                if self._failure is not None:
                    raise self._failure
                return

    def _run(self) -> None:
        begin = time.monotonic()
        count = 0
        try:
            for item in self._items:
                if self._rate:
                    self._sleep_until(begin + count / self._rate)
                count += 1
                if not self._put(item):
                    break
        except BaseException as error:  # raised again where the caller asks for images
            self._failure = error
        close = getattr(self._items, "close", None)
        if callable(close) and self._stopped:
            close()
        with self._changed:
            self._finished = True
        self._wake()

    def _sleep_until(self, due: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or time.monotonic() >= due, max(0.0, due - time.monotonic()))

    def _put(self, item: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < _AHEAD_BYTES or self._stopped)
            if self._stopped:
                return False
        alone = Chunk()
        alone.add(item)
        with self._changed:
            if self._waiting and self._waiting[-1].bytes < _CHUNK_BYTES:
                last = self._waiting[-1]
                last.parts += alone.parts
                last.bytes += alone.bytes
                last.readouts += alone.readouts
            else:
                self._waiting.append(alone)
            first = self._bytes == 0
            self._bytes += alone.bytes
        if first:
            self._wake()
        return True

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:  # the loop has ended, so nobody takes more
            self.stop()


async def async_chunks(items: AsyncIterable[Any], rate: Optional[float]) -> AsyncIterator[Chunk]:
    """The same from an async iterable, one item a chunk."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    count = 0
    async for item in items:
        if rate:
            await asyncio.sleep(max(0.0, begin + count / rate - loop.time()))
        count += 1
        chunk = Chunk()
        chunk.add(item)
        yield chunk
