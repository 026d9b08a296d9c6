"""The client for programs without asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Dict, Iterator, List, Optional, Set, TypeVar, Union

from .delivery import TICK_S, AnyExchange, Delivery, OnText, exchange_of, fetching
from .errors import ConnectionFailed
from .image import Image
from .link.connection import Path, ServerOptions
from .link.detached import Detached, DetachedScan, OnScan, ask_of_scans, read_scans
from .link.exchange import Event, ask
from .pipeline import Pipeline
from .progress import ProgressLike, reporter
from .scan import SCAN_KEYWORDS, ScanOptions, make_scan, shows

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="echotrain", daemon=True)
        self._thread.start()

    def begin(self, what: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    @classmethod
    def run(cls, what: Coroutine[Any, Any, T]) -> T:
        loop = cls()
        try:
            return loop.begin(what).result()
        finally:
            loop.stop()

    def stop(self) -> None:
        self.begin(self._loop.shutdown_asyncgens()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Running:
    """A measurement that is being sent, with its loop."""

    def __init__(self, make: Callable[[], AnyExchange]) -> None:
        self._loop = _Loop()
        self._lock = threading.Lock()

        async def start() -> AnyExchange:
            exchange = make()
            try:
                await exchange.start()
            except BaseException:
                await exchange.close()
                raise
            return exchange

        future = self._loop.begin(start())
        try:
            exchange = future.result()
        except BaseException:
            future.cancel()
            self._loop.stop()
            raise
        self.exchange: Optional[AnyExchange] = exchange
        self.counts = exchange.counts

    def next(self, tick: Optional[Callable[[], None]] = None) -> Optional[Event]:
        """As Exchange.next(); calls `tick` every now and then while it waits."""
        if self.exchange is None:
            raise ConnectionFailed("the client was closed")
        future = self._loop.begin(self.exchange.next())
        try:
            while tick is not None:
                try:
                    return future.result(TICK_S)
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
    local: a server of this process's own, on loopback, for nobody else, from the wheel, the build of these sources or
    PATH. The first client starts it, further ones use it, and it ends with the process.
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
        detach: Union[bool, OnScan] = False,
        resume_for: float = 600.0,
        require_images: bool = True,
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
        detach: the server goes on with the scan when the connection is lost, and this connects again, for
        `resume_for` seconds. A function is called with the scan's ID, for fetch(), resume(), scans() and cancel().
        require_images: NoImages is raised where none came; False for scans that are to give none, as of noise alone.

        Raises ServerError with the server's reason, or ConnectionFailed, after the images that came before. Closing the
        generator early (or leaving the client's `with`) ends the connection; the server then gives the scan up.
        """
        scan = make_scan(source, trajectory, **options)
        make = exchange_of(self, pipeline, scan, rate, detach, resume_for)
        return self._images(Delivery(make, scan.readouts, on_text, require_images), progress)

    @shows(*SCAN_KEYWORDS)
    def submit(
        self,
        source: Any,
        trajectory: Any = None,
        pipeline: Pipeline = None,
        *,
        rate: Optional[float] = None,
        resume_for: float = 600.0,
        **options: Unpack[ScanOptions],
    ) -> str:
        """Sends a scan that the server reconstructs alone; returns its ID once all of it is safe there."""
        scan = make_scan(source, trajectory, **options)
        ids: List[str] = []
        make = exchange_of(self, pipeline, scan, rate, ids.append, resume_for, wait=False)
        for _ in self._images(Delivery(make, scan.readouts), False):
            pass  # fetch() gives them all
        return ids[0]

    @shows(*SCAN_KEYWORDS)
    def resume(
        self,
        scan_id: str,
        source: Any,
        trajectory: Any = None,
        *,
        rate: Optional[float] = None,
        on_text: Optional[OnText] = None,
        progress: ProgressLike = False,
        resume_for: float = 600.0,
        **options: Unpack[ScanOptions],
    ) -> Iterator[Image]:
        """Sends what the server does not have yet of a detached scan, and yields its images from the first one on."""
        scan = make_scan(source, trajectory, **options)

        def make() -> Detached:
            return Detached(self, b"", scan.items, rate, scan_id=scan_id, resume_for=resume_for)

        return self._images(Delivery(make, scan.readouts, on_text, require_images=True), progress)

    def fetch(
        self, scan_id: str, first: int = 0, *, on_text: Optional[OnText] = None, resume_for: float = 600.0
    ) -> Iterator[Image]:
        """Yields a detached scan's images from number `first` on, as they come, until it has ended."""
        return self._images(Delivery(fetching(self, scan_id, first, resume_for), None, on_text), False)

    def scans(self) -> List[DetachedScan]:
        """This client's detached scans."""
        return read_scans(self._ask("echotrain::scans"))

    def scan(self, scan_id: str) -> DetachedScan:
        """One of them. ScanError where there is none."""
        return read_scans(self._ask(f"echotrain::scan/{scan_id}"))[0]

    def cancel(self, scan_id: str) -> bool:
        """Ends a detached scan; of one that has ended, forgets data and images. False where there is none."""
        return self._ask(f"echotrain::cancel/{scan_id}") == "cancelled"

    def _ask(self, what: str) -> str:
        return _Loop.run(ask_of_scans(self, what))

    def _images(self, delivery: Delivery, progress: ProgressLike) -> Iterator[Image]:
        running = _Running(delivery.make)
        self._running.add(running)
        counts = running.counts
        try:
            with reporter(progress) as report:

                def tick() -> None:
                    report(delivery.progress(counts))

                while True:
                    event = running.next(tick if progress else None)
                    image = delivery.take(event, counts)
                    tick()
                    if event is None:
                        break
                    if image is not None:
                        yield image
        finally:
            running.close()
            self._running.discard(running)

    def query(self, name: str) -> str:
        """The server's answer about itself: "echotrain::version", "echotrain::pipelines", "gadgetron::info", ..."""
        return _Loop.run(ask(self, name))


def _keywords(function: Any) -> List[inspect.Parameter]:
    own = inspect.signature(function).parameters.values()
    return [each.replace(kind=each.KEYWORD_ONLY) for each in own if each.name not in _POSITIONAL]


_POSITIONAL = ("self", "source", "trajectory", "pipeline")
_CONNECTION = _keywords(ServerOptions)


class ReconstructOptions(ScanOptions, total=False):
    """The keywords of reconstruct(): those of Client(), of Client.reconstruct() and of make_scan()."""

    host: str
    port: int
    tls: Any
    ca: Optional[Path]
    cert: Optional[Path]
    key: Optional[Path]
    token: Optional[str]
    timeout: float
    reply_timeout: Optional[float]
    local: bool
    rate: Optional[float]
    on_text: Optional[OnText]
    progress: ProgressLike
    detach: Union[bool, OnScan]
    resume_for: float
    require_images: bool


@shows(*_CONNECTION, *_keywords(Client.reconstruct))
def reconstruct(
    source: Any, trajectory: Any = None, pipeline: Pipeline = None, **options: Unpack[ReconstructOptions]
) -> List[Image]:
    """All images of a scan: Client(...).reconstruct(...) in one call, with the arguments of both.

    echotrain.reconstruct("scan.h5", pipeline="radial_2d", progress=True)
    """
    others: Dict[str, Any] = {**options}
    connection = {each.name: others.pop(each.name) for each in _CONNECTION if each.name in others}
    with Client(**connection) as client:
        return list(client.reconstruct(source, trajectory, pipeline, **others))
