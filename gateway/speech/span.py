"""What a request leaves behind in a trace, for whoever traces; the default is nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gateway.errors import SpeechError

Attribute: TypeAlias = "str | float | None"
Headers: TypeAlias = "tuple[tuple[str, str], ...]"


class Span(Protocol):
    """A part of a request's time. Attributes never hold texts or keys."""

    def child(
        self, name: str, *, is_call: bool = False, **attributes: Attribute
    ) -> AbstractContextManager[Span]:
        """Begin a part of this part, which ends with the body, in whatever way that ends.

        `is_call` is one that another server answers.
        """

    def set(self, **attributes: Attribute) -> None:
        """Say more of it; None says nothing."""

    def fail(self, error: SpeechError) -> None:
        """Say that it ended with this error."""

    def headers(self) -> Headers:
        """Return what tells another server that its work is a part of this."""


class NoSpan:
    """Nobody traces."""

    def child(self, name: str, *, is_call: bool = False, **attributes: Attribute) -> NoSpan:  # noqa: ARG002
        """See Span.child."""
        return self

    def __enter__(self) -> NoSpan:  # noqa: PYI034  Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set(self, **attributes: Attribute) -> None:
        """See Span.set."""

    def fail(self, error: SpeechError) -> None:
        """See Span.fail."""

    def headers(self) -> Headers:
        """See Span.headers."""
        return ()


NO_SPAN = NoSpan()
