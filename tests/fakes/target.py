"""A speech server for the load generator: answers by a script, in the loop's own time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.bench.load import Names, TargetError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from gateway.bench.requests import Take, Utterance


@dataclass
class FakeTarget:
    """`script` gives the steps of a request that comes at that moment.

    A number is a pause in seconds, bytes are a piece, a TargetError is raised.
    """

    script: Callable[[float], Sequence[float | bytes | TargetError]]
    clock: Callable[[], float]
    started_seconds: list[float] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    left: int = 0

    async def prepare(self, _: Sequence[Utterance]) -> Names:
        return Names("fake", None)

    async def speak(self, utterance: Utterance, take: Take) -> AsyncGenerator[bytes, None]:
        assert take.request.utterance is utterance
        self.started_seconds.append(self.clock())
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            for step in self.script(self.started_seconds[-1]):
                if isinstance(step, TargetError):
                    raise step
                if isinstance(step, bytes):
                    yield step
                else:
                    await asyncio.sleep(step)
        except (GeneratorExit, asyncio.CancelledError):
            self.left += 1
            raise
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        pass
