"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, List, Optional, Set, Union

from .delivery import TICK_S, AnyExchange, Delivery, OnText, exchange_of, fetching
from .image import Image
from .link.connection import ServerOptions
from .link.detached import DetachedScan, OnScan, ask_of_scans, read_scans
from .link.exchange import Event, ask
from .pipeline import Pipeline
from .progress import ProgressLike, reporter
from .scan import SCAN_KEYWORDS, ScanOptions, make_scan, shows

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncClient(ServerOptions):
    """As Client, for asyncio:

        async with echotrain.AsyncClient("host", 9002) as client:
            async for image in client.reconstruct("scan.h5", pipeline="radial_2d"):
                ...

    Readouts may come from an async generator too. To leave a scan early, wrap the generator in contextlib.aclosing
    (Python 3.10), or leave the client's `async with`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._running: Set[AnyExchange] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends what is still running."""
        while self._running:
            await self._running.pop().close()

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
    ) -> AsyncIterator[Image]:
        """As Client.reconstruct(). `progress` is called in the event loop."""
        scan = make_scan(source, trajectory, **options)
        make = exchange_of(self, pipeline, scan, rate, detach, resume_for)
        return self._images(Delivery(make, scan.readouts, on_text, require_images), progress)

    def fetch(
        self, scan_id: str, first: int = 0, *, on_text: Optional[OnText] = None, resume_for: float = 600.0
    ) -> AsyncIterator[Image]:
        """As Client.fetch()."""
        return self._images(Delivery(fetching(self, scan_id, first, resume_for), None, on_text), False)

    async def scans(self) -> List[DetachedScan]:
        """As Client.scans()."""
        return read_scans(await ask_of_scans(self, "echotrain::scans"))

    async def cancel(self, scan_id: str) -> bool:
        """As Client.cancel()."""
        return await ask_of_scans(self, f"echotrain::cancel/{scan_id}") == "cancelled"

    async def query(self, name: str) -> str:
        """As Client.query()."""
        return await ask(self, name)

    async def _images(self, delivery: Delivery, progress: ProgressLike) -> AsyncIterator[Image]:
        exchange = delivery.make()
        self._running.add(exchange)
        try:
            with reporter(progress) as report:

                def tick() -> None:
                    report(delivery.progress(exchange.counts))

                await exchange.start()
                while True:
                    event = await _next(exchange, tick if progress else None)
                    image = delivery.take(event, exchange.counts)
                    tick()
                    if event is None:
                        return
                    if image is not None:
                        yield image
        finally:
            self._running.discard(exchange)
            await exchange.close()


async def _next(exchange: AnyExchange, tick: Optional[Callable[[], None]]) -> Optional[Event]:
    """As Exchange.next(); calls `tick` every now and then while it waits."""
    if tick is None:
        return await exchange.next()
    coming = asyncio.ensure_future(exchange.next())
    try:
        while not (await asyncio.wait([coming], timeout=TICK_S))[0]:
            tick()
        return await coming
    finally:
        coming.cancel()
