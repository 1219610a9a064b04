"""An engine that is started again when it dies."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class EngineDownError(RuntimeError):
    """There is no engine just now; another is being started."""

    def __init__(self) -> None:
        super().__init__("its engine died and is being started again; try again in a minute")


class LiveEngine:
    """An AsyncLLM that `start` makes, in a thread since that takes up to a minute.

    `warm_up` runs before anyone gets it. Where no other can be started, `give_up` is called: it
    must end the process, so that whoever watches over it loads the model anew. All of it belongs
    to one event loop.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        warm_up: Callable[[Any], Awaitable[None]],
        give_up: Callable[[], None],
    ) -> None:
        self._start = start
        self._warm_up = warm_up
        self._give_up = give_up
        self._engine: Any = None
        self._restart: asyncio.Task[None] | None = None
        self.restarts = 0

    async def open(self) -> None:
        """Start the engine; raises what its start or its first words raise."""
        engine = await asyncio.to_thread(self._start)
        await self._warm_up(engine)
        self._engine = engine

    async def close(self) -> None:
        """End the engine, one that is being started too."""
        if self._restart is not None:
            await asyncio.wait({self._restart})
        if self._engine is not None:
            await asyncio.to_thread(self._engine.shutdown)

    def get(self) -> Any:
        """Return the engine; raises EngineDownError while there is none."""
        if self._engine is None:
            raise EngineDownError
        return self._engine

    async def check(self) -> None:
        """Look whether the engine lives, which nobody notices while nothing is asked of it."""
        engine = self._engine
        if engine is None:
            return
        try:
            await engine.check_health()
        except Exception as error:  # noqa: BLE001  it says nothing but that the engine is dead
            self.replace(engine, error)

    def replace(self, dead: Any, error: Exception) -> None:
        """Start another engine in the place of one that was found dead; returns at once."""
        if self._engine is not dead:
            return
        self._engine = None
        self.restarts += 1
        log.error("the engine died: %s", error)
        self._restart = asyncio.get_running_loop().create_task(self._start_another(dead))

    async def _start_another(self, dead: Any) -> None:
        try:
            await asyncio.to_thread(dead.shutdown)
            await self.open()
            log.warning("another engine runs in its place")
        except Exception:
            log.exception("no other engine could be started")
            self._give_up()
