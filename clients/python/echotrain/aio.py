"""The client for programs with asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Optional, Set

from . import codec
from .client import OnText, deliver_text, preamble
from .connection import ServerOptions, secret
from .exchange import Exchange, exchanging
from .image import Image
from .pipeline import Pipeline
from .scan import SCAN_KEYWORDS, Scan, ScanOptions, make_scan, shows

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
        self._running: Set[Exchange] = set()

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
        **options: Unpack[ScanOptions],
    ) -> AsyncIterator[Image]:
        """As Client.reconstruct()."""
        scan = make_scan(source, trajectory, **options)
        return self._images(scan, preamble(pipeline, secret(self), scan), rate, on_text)

    async def _images(
        self, scan: Scan, begin: bytes, rate: Optional[float], on_text: Optional[OnText]
    ) -> AsyncIterator[Image]:
        async with exchanging(self, begin, scan.items, rate) as exchange:
            self._running.add(exchange)
            try:
                while True:
                    event = await exchange.next()
                    if event is None:
                        return
                    if isinstance(event, Image):
                        yield event
                    elif isinstance(event, codec.Text):
                        deliver_text(event, on_text, 3)
            finally:
                self._running.discard(exchange)

    async def query(self, name: str) -> str:
        """As Client.query()."""
        async with exchanging(self, codec.encode_query(name)) as exchange:
            answer = ""
            while True:
                event = await exchange.next()
                if event is None:
                    return answer
                if isinstance(event, codec.Response):
                    answer = event.text
