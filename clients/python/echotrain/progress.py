"""Showing how far a scan is: with the package rich where it is installed, else in a line on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Callable, Iterator, NamedTuple, Optional, Union


class Progress(NamedTuple):
    readouts: int  # sent
    total: Optional[int]  # None where it is not known
    images: int  # received
    bytes: int  # sent

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total}"
        return f"{self.readouts}{total} readouts, {self.images} images"


Report = Callable[[Progress], None]
ProgressLike = Union[bool, Report]


@contextlib.contextmanager
def reporter(wanted: ProgressLike) -> Iterator[Report]:
    """The function to call with every Progress."""
    if callable(wanted):
        yield wanted
    elif not wanted:
        yield lambda progress: None
    else:
        try:
            import rich.console
            import rich.progress
        except ImportError:
            with _plain() as report:
                yield report
            return
        with rich.progress.Progress(
            rich.progress.BarColumn(),
            rich.progress.TextColumn("{task.description}"),
            rich.progress.TimeElapsedColumn(),
            console=rich.console.Console(stderr=True),
        ) as bar:
            task = bar.add_task("", total=None)
            yield lambda progress: bar.update(
                task, total=progress.total, completed=progress.readouts, description=str(progress)
            )


@contextlib.contextmanager
def _plain() -> Iterator[Report]:
    """A line that rewrites itself on a terminal; elsewhere a new line every two seconds and at the end."""
    terminal = sys.stderr.isatty()
    pause = 0.1 if terminal else 2.0
    shown = time.monotonic() if not terminal else 0.0
    last: Optional[Progress] = None

    def report(progress: Progress) -> None:
        nonlocal shown, last
        last = progress
        if time.monotonic() - shown < pause:
            return
        shown = time.monotonic()
        print(f"\r{progress}" if terminal else str(progress), end="" if terminal else "\n", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        if last is not None:
            print(f"\r{last}" if terminal else str(last), file=sys.stderr, flush=True)
