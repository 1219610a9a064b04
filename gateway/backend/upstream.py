"""Counts what becomes of the calls to each replica, for whoever wants to read it."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    NoConnectionError,
    OverloadedError,
    SpeechError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

ERROR_CLASSES: dict[type[SpeechError], str] = {
    InvalidRequestError: "invalid_input",
    OverloadedError: "overloaded",
    MisconfiguredError: "misconfigured",
    BackendFailedError: "failed",
    BackendUnavailableError: "unavailable",
    NoConnectionError: "no_connection",
    BackendTimeoutError: "timeout",
}
"""What the classification can make of a replica's errors, in a word each."""


class UpstreamCounts:
    """Open streams by model and replica, failures by model, replica and class."""

    def __init__(self) -> None:
        self.in_flight = Counter[tuple[str, str]]()
        self.errors = Counter[tuple[str, str, str]]()

    def start_at_zero(self, models: Iterable[str], replica: str) -> None:
        """Know a replica before it is called: a rate misses an error that comes with its series."""
        for model in models:
            self.in_flight[model, replica] += 0
            for name in ERROR_CLASSES.values():
                self.errors[model, replica, name] += 0

    def forget(self, replica: str) -> None:
        """Drop what was counted of a replica that is gone: tunnels have a new name each time."""
        for counts in (self.in_flight, self.errors):
            for names in [names for names in counts if names[1] == replica]:
                del counts[names]

    @contextmanager
    def call(self, model: str, replica: str) -> Generator[None, None, None]:
        """Count the SpeechError that leaves the body."""
        try:
            yield
        except SpeechError as error:
            name = ERROR_CLASSES.get(type(error), "failed")
            self.errors[model, replica, name] += 1
            raise

    @contextmanager
    def stream(self, model: str, replica: str) -> Generator[None, None, None]:
        """Count the body as an open stream, and its SpeechError as `call` does."""
        self.in_flight[model, replica] += 1
        try:
            with self.call(model, replica):
                yield
        finally:
            self.in_flight[model, replica] -= 1
