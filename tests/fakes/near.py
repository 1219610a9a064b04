"""The near side of the stages, with an event loop in a thread, for tests that are no tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from speech_backend.loop import LoopThread
from speech_backend.loopback import LoopbackStages

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from speech_backend.loopback.token_call import TokenCall

WAIT_SECONDS = 10


class NearStages:
    """LoopbackStages, whose methods return what they would be awaited for."""

    def __init__(self, *given: Any, **named: Any) -> None:
        async def open_stages() -> LoopbackStages:
            return LoopbackStages(*given, **named)

        self._thread = LoopThread()
        self.stages = self.run(open_stages())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run it in the loop and return its result."""
        return self._thread.run(asyncio.wait_for(work, WAIT_SECONDS))

    def stream_tokens(self, *given: Any) -> NearStream:
        return NearStream(self, self.run(self.stages.stream_tokens(*given)))

    def decode_window(self, *given: Any) -> Any:
        return self.run(self.stages.decode_window(*given))

    def tokenise_reference(self, *given: Any) -> Any:
        return self.run(self.stages.tokenise_reference(*given))

    def close(self) -> None:
        """Close the stages, and end the loop."""
        self.run(self.stages.close())
        self._thread.close()


class NearStream:
    """The same for a stream of tokens."""

    def __init__(self, near: NearStages, call: TokenCall) -> None:
        self.call = call
        self._near = near

    @property
    def has_ended(self) -> bool:
        return self.call.has_ended

    def read(self, timeout_seconds: float) -> Any:
        return self._near.run(self.call.read(timeout_seconds))

    def join(self) -> None:
        """Wait for the stream's end."""
        self._near.run(self.call.ended())

    def close(self) -> None:
        async def close() -> None:
            self.call.close()

        self._near.run(close())
