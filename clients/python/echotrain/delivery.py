"""The events of a scan on their way to the caller: what both clients do with them."""

from __future__ import annotations

import logging
import warnings
from typing import Callable, List, Optional, Union

from . import codec
from .errors import NoImages, ServerWarning
from .image import Image
from .link.connection import ServerOptions, secret
from .link.detached import Detached, OnScan
from .link.exchange import Event, Exchange
from .link.feeder import Counts
from .pipeline import Pipeline, encode_pipeline
from .progress import Progress
from .scan import Scan

OnText = Callable[[str, str], None]
AnyExchange = Union[Exchange, Detached]

log = logging.getLogger("echotrain")

TICK_S = 0.1  # between two calls for progress while nothing comes
_MOST_REASONS = 5


class Delivery:
    """One scan's: its exchange, its images so far, and what the server says.

    make: makes the exchange, in the event loop that runs it. readouts: of the scan, None where that is not known.
    require_images: a scan that ends without any raises NoImages.
    """

    def __init__(
        self,
        make: Callable[[], AnyExchange],
        readouts: Optional[int] = None,
        on_text: Optional[OnText] = None,
        require_images: bool = False,
    ) -> None:
        self.make, self.readouts, self.on_text, self.require_images = make, readouts, on_text, require_images
        self.images = 0
        self._reasons: List[str] = []

    def progress(self, counts: Counts) -> Progress:
        return Progress(counts.readouts, self.readouts, self.images, counts.bytes)

    def take(self, event: Optional[Event], counts: Counts) -> Optional[Image]:
        """The image, if it is one. Texts go to the caller; without a callback, warnings become ServerWarning, and all
        else goes to the log `echotrain`. NoImages at the end."""
        if isinstance(event, Image):
            self.images += 1
            return event
        if isinstance(event, codec.Text):
            self._tell(event)
        elif event is None and self.require_images and not self.images:
            raise NoImages(counts.readouts, self._reasons)
        return None

    def _tell(self, text: codec.Text) -> None:
        if text.level == "WARNING" and len(self._reasons) < _MOST_REASONS:
            self._reasons.append(text.text)
        if self.on_text is not None:
            self.on_text(text.level, text.text)
        elif text.level == "WARNING":
            warnings.warn(text.text, ServerWarning, stacklevel=4)  # of who asks for images
        else:
            log.info("%s", text.text)


def exchange_of(
    server: ServerOptions,
    pipeline: Pipeline,
    scan: Scan,
    rate: Optional[float],
    detach: Union[bool, OnScan],
    resume_for: float,
    wait: bool = True,
) -> Callable[[], AnyExchange]:
    """Returns a function that makes a scan's exchange. Wrong arguments are refused now."""
    begin = encode_pipeline(pipeline, secret(server)) + codec.encode_header(scan.xml)
    if not detach:
        return lambda: Exchange(server, begin, scan.items, rate)
    on_scan = detach if callable(detach) else None
    return lambda: Detached(server, begin, scan.items, rate, resume_for=resume_for, wait=wait, on_scan=on_scan)


def fetching(server: ServerOptions, scan_id: str, first: int, resume_for: float) -> Callable[[], AnyExchange]:
    """As exchange_of(), for images from number `first` on of a scan that the server has."""
    return lambda: Detached(server, b"", None, None, scan_id=scan_id, images=first, resume_for=resume_for)
