"""The client for programs without asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
import warnings
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Iterator, List, Optional, Set, TypeVar, Union

from . import codec
from .connection import ServerOptions, secret
from .errors import ConnectionFailed, ServerWarning
from .exchange import Event, Exchange
from .image import Image
from .pipeline import Pipeline, encode_pipeline
from .progress import Progress, ProgressLike, reporter
from .scan import SCAN_KEYWORDS, Scan, ScanOptions, make_scan, shows

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
OnText = Callable[[str, str], None]

log = logging.getLogger("echotrain")

_TICK_S = 0.1


def preamble(pipeline: Pipeline, token: str, scan: Scan) -> bytes:
    """The messages that are sent before the first readout."""
    return encode_pipeline(pipeline, token) + codec.encode_header(scan.xml)


def deliver_text(text: codec.Text, on_text: Optional[OnText], stacklevel: int) -> None:
    """Calls the callback; without one, warnings become ServerWarning, and all else goes to the log `echotrain`."""
    if on_text is not None:
        on_text(text.level, text.text)
    elif text.level == "WARNING":
        warnings.warn(text.text, ServerWarning, stacklevel=stacklevel)
    else:
        log.info("%s", text.text)


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="echotrain", daemon=True)
        self._thread.start()

    def begin(self, what: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def stop(self) -> None:
        self.begin(self._loop.shutdown_asyncgens()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Running:
    """A measurement that is being sent, with its loop."""

    def __init__(self, server: ServerOptions, begin: bytes, items: Any, rate: Optional[float]) -> None:
        self._loop = _Loop()
        self._lock = threading.Lock()
        self.exchange: Optional[Exchange] = None

        async def start() -> Exchange:
            exchange = Exchange(server, begin, items, rate)
            try:
                await exchange.start()
            except BaseException:
                await exchange.close()
                raise
            return exchange

        future = self._loop.begin(start())
        try:
            self.exchange = future.result()
        except BaseException:
            future.cancel()
            self._loop.stop()
            raise

    def next(self, tick: Optional[Callable[[], None]] = None) -> Optional[Event]:
        """As Exchange.next(); calls `tick` every now and then while it waits."""
        if self.exchange is None:
            raise ConnectionFailed("the client was closed")
        future = self._loop.begin(self.exchange.next())
        try:
            while tick is not None:
                try:
                    return future.result(_TICK_S)
                except concurrent.futures.TimeoutError:
                    if future.done():
                        break
                    tick()
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        with self._lock:
            exchange, self.exchange = self.exchange, None
        if exchange is None:
            return
        try:
            self._loop.begin(exchange.close()).result()
        finally:
            self._loop.stop()


class Client(ServerOptions):
    """A server to send scans to. Every reconstruct() has a connection of its own; several may run at a time.

    tls: connect with TLS (True, or an ssl.SSLContext); `ca` names certificates to trust (default: the system's),
    `cert` and `key` the client's own, for servers that want one.
    token: for servers that want one (default: ECHOTRAIN_TOKEN in the environment).
    timeout: seconds to connect, and for the server to take what is sent.
    reply_timeout: seconds without anything from the server once everything has been sent; None waits for as long
    as the server reconstructs.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._running: Set[_Running] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what is still running."""
        for running in list(self._running):
            running.close()
        self._running.clear()

    @shows(*SCAN_KEYWORDS)
    def reconstruct(
        self,
        source: Any,
        trajectory: Any = None,
        pipeline: Pipeline = None,
        *,
        rate: Optional[float] = None,
        on_text: Optional[OnText] = None,
        progress: ProgressLike = False,
        **options: Unpack[ScanOptions],
    ) -> Iterator[Image]:
        """Sends a scan and yields its images as they come.

        source, trajectory and the options that describe them: see make_scan(). Wrong arguments are refused at once,
        before anything is sent.
        pipeline: a name that the server knows; or your own, as a mapping, YAML text or a .yaml file's path; None:
        the server's default.
        rate: readouts per second (None: as fast as the server takes them).
        on_text: called with (level, text) for what the server says; without it its warnings become ServerWarning.
        progress: True shows it on stderr; or a function, called with a Progress now and then.

        Raises ServerError with the server's reason, or ConnectionFailed, after the images that came before. Closing the
        generator early (or leaving the client's `with`) ends the connection; the server then gives the scan up.
        """
        scan = make_scan(source, trajectory, **options)
        begin = preamble(pipeline, secret(self), scan)
        return self._images(scan, begin, rate, on_text, progress)

    def _images(
        self, scan: Scan, begin: bytes, rate: Optional[float], on_text: Optional[OnText], progress: ProgressLike
    ) -> Iterator[Image]:
        running = _Running(self, begin, scan.items, rate)
        self._running.add(running)
        counts = running.exchange.counts if running.exchange is not None else None
        images = 0
        try:
            with reporter(progress) as report:

                def tick() -> None:
                    if counts is not None:
                        report(Progress(counts.readouts, scan.readouts, images, counts.bytes))

                while True:
                    event = running.next(tick if progress else None)
                    images += isinstance(event, Image)
                    tick()
                    if event is None:
                        break
                    if isinstance(event, Image):
                        yield event
                    elif isinstance(event, codec.Text):
                        deliver_text(event, on_text, 3)
        finally:
            running.close()
            self._running.discard(running)

    def query(self, name: str) -> str:
        """The server's answer about itself: "echotrain::version", "echotrain::pipelines", "gadgetron::info", ..."""
        running = _Running(self, codec.encode_query(name), (), None)
        try:
            answer: Union[str, None] = None
            while True:
                event = running.next()
                if event is None:
                    return answer or ""
                if isinstance(event, codec.Response):
                    answer = event.text
        finally:
            running.close()


_CONNECTION = [each.replace(kind=each.KEYWORD_ONLY) for each in inspect.signature(ServerOptions).parameters.values()]


@shows(*_CONNECTION, *SCAN_KEYWORDS)
def reconstruct(source: Any, trajectory: Any = None, pipeline: Pipeline = None, **options: Any) -> List[Image]:
    """All images of a scan: Client(...).reconstruct(...) in one call, with the arguments of both.

    echotrain.reconstruct("scan.h5", pipeline="radial_2d", progress=True)
    """
    connection = {each.name: options.pop(each.name) for each in _CONNECTION if each.name in options}
    with Client(**connection) as client:
        return list(client.reconstruct(source, trajectory, pipeline, **options))
