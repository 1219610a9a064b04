"""Clocks of tests: one that stands still, and a loop whose time passes only in its waits."""

from __future__ import annotations

import asyncio
import selectors
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waiting costs no time, and every moment is exact; for what waits on timers alone.

    >>> in_virtual_time(lambda clock: sleeper(clock))
    """

    def __init__(self) -> None:
        self._now_seconds = 0.0
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now_seconds

    def _pass(self, seconds: float) -> None:
        self._now_seconds += seconds


class _Selector(selectors.DefaultSelector):
    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            assert timeout is not None, "nothing will ever happen"
            self._wait(timeout)
        return events


def in_virtual_time(make: Callable[[Callable[[], float]], Coroutine[Any, Any, Any]]) -> Any:
    """Run the coroutine that `make` returns for the loop's clock, and return what it returns."""
    with closing(VirtualLoop()) as loop:
        return loop.run_until_complete(make(loop.time))
