"""A window that shows images while the scan runs (needs matplotlib: pip install 'echotrain[view]')."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional

from ..image import Image
from ..picture import Window, mosaic, shown, window_of
from ..plot import require_matplotlib

_PAUSE_S = 0.04


def can_show(pyplot: Any) -> bool:
    """True if matplotlib has windows here."""
    drawing_only = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
    return str(pyplot.get_backend()).lower() not in drawing_only


class Viewer:
    """Shows the newest image; one that comes too soon after another is shown only if no newer one follows.

    The window of grey levels is the widest of the series so far, so that frames can be compared.
    """

    def __init__(self, title: str) -> None:
        self._pyplot = require_matplotlib()
        self._figure, self._axes = self._pyplot.subplots(num=title)
        self._axes.set_axis_off()
        self._artist: Any = None
        self._windows: Dict[int, Window] = {}
        self._pending: Optional[Image] = None
        self._drawn = 0.0
        self.images = 0

    @property
    def open(self) -> bool:
        """True until the user closes the window."""
        return bool(self._pyplot.fignum_exists(self._figure.number))

    def add(self, image: Image) -> None:
        self.images += 1
        values = shown(image.data).reshape(-1, *image.data.shape[-2:])
        low, high = window_of(values, image.image_type)
        known = self._windows.get(image.series, (low, high))
        self._windows[image.series] = min(low, known[0]), max(high, known[1])
        self._pending = image
        self.update()

    def update(self, at_once: bool = False) -> None:
        """Draws the image that waits, and handles the window's events. Call it now and then."""
        if self._pending is not None and (at_once or time.monotonic() - self._drawn > _PAUSE_S):
            self._draw(self._pending)
            self._pending = None
            self._drawn = time.monotonic()
        if self.open:
            self._figure.canvas.flush_events()

    def _draw(self, image: Image) -> None:
        values = mosaic(shown(image.data).reshape(-1, *image.data.shape[-2:]))
        low, high = self._windows[image.series]
        if self._artist is None or self._artist.get_array().shape != values.shape:
            self._axes.clear()
            self._axes.set_axis_off()
            self._artist = self._axes.imshow(values, cmap="gray", interpolation="nearest")
        self._artist.set_data(values)
        self._artist.set_clim(low, high)
        self._axes.set_title(f"{image!r}"[1:-1], fontsize="small")
        self._figure.canvas.draw_idle()
        if self.images == 1:
            self._pyplot.show(block=False)

    def save(self, path: str) -> None:
        """Saves what the window shows as a picture file."""
        self._figure.savefig(path)

    def wait(self) -> None:
        """Waits until the user closes the window."""
        self._pyplot.show(block=True)
