"""The client for programs with asyncio."""

from __future__ import annotations

from typing import Any, AsyncIterator, Optional, Set

from . import codec
from .arrays import AxisNames, Numbers
from .client import OnText, deliver_text, preamble
from .connection import Path, Server
from .exchange import Exchange, exchanging
from .header import HeaderLike
from .image import Image
from .pipeline import Pipeline
from .scan import Scan, make_scan


class AsyncClient:
    """As Client, for asyncio:

        async with echotrain.AsyncClient("host", 9002) as client:
            async for image in client.reconstruct("scan.h5", pipeline="radial_2d"):
                ...

    Readouts may come from an async generator too. To leave a scan early, wrap the generator in contextlib.aclosing (Python
    3.10), or leave the client's `async with`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9002,
        *,
        tls: Any = False,
        ca: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        token: Optional[str] = None,
        timeout: float = 60.0,
        reply_timeout: Optional[float] = None,
    ) -> None:
        self.server = Server(host, port, tls, ca, cert, key, token, timeout, reply_timeout)
        self._running: Set[Exchange] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends what is still running."""
        while self._running:
            await self._running.pop().close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.server.address}{' with TLS' if self.server.tls else ''}>"

    def reconstruct(
        self,
        source: Any,
        trajectory: Any = None,
        pipeline: Pipeline = None,
        *,
        header: Optional[HeaderLike] = None,
        density: Any = None,
        matrix: Optional[Numbers] = None,
        fov: Optional[Numbers] = None,
        trajectory_type: Optional[str] = None,
        trajectory_unit: Optional[str] = None,
        axes: Optional[AxisNames] = None,
        noise: Any = None,
        group: str = "dataset",
        rate: Optional[float] = None,
        on_text: Optional[OnText] = None,
    ) -> AsyncIterator[Image]:
        """As Client.reconstruct()."""
        scan = make_scan(
            source,
            trajectory,
            header=header,
            density=density,
            matrix=matrix,
            fov=fov,
            trajectory_type=trajectory_type,
            trajectory_unit=trajectory_unit,
            axes=axes,
            noise=noise,
            group=group,
        )
        return self._images(scan, preamble(pipeline, self.server.secret(), scan), rate, on_text)

    async def _images(
        self, scan: Scan, begin: bytes, rate: Optional[float], on_text: Optional[OnText]
    ) -> AsyncIterator[Image]:
        async with exchanging(self.server, begin, scan.items, rate) as exchange:
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
        async with exchanging(self.server, codec.encode_query(name)) as exchange:
            answer = ""
            while True:
                event = await exchange.next()
                if event is None:
                    return answer
                if isinstance(event, codec.Response):
                    answer = event.text
