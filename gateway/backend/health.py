"""Whether a Triton may be used, as its probes and calls tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from gateway.backend.classify import CONSEQUENCES, Effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.errors import SpeechError

State: TypeAlias = Literal["connecting", "ready", "draining", "ejected"]

STRIKES = 5
"""Failed calls in a row that eject a Triton whose probes find nothing."""
SILENT_PROBES = 3
"""Probes in a row without an answer before a Triton counts as not ready: it may only be busy."""
FIRST_EJECTION_SECONDS = 1.0
LONGEST_EJECTION_SECONDS = 60.0
FIRST_SHARE = 0.1
DRAIN_SECONDS = 30.0
"""How long a Triton that said it is going away is not taken for one that is just gone."""


class Health:
    """The state of one Triton: a machine without input or output but its clock.

    connecting: no probe has found it ready; ready; draining: it takes nothing new and finishes
    what it has; ejected: its probes are fine, but its calls fail, so it is left out for a time
    that doubles with each ejection, until a call succeeds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, slow_start_seconds: float = 0.0
    ) -> None:
        self._clock = clock
        self._slow_start_seconds = slow_start_seconds
        self._state: State = "connecting"
        self._since_seconds = clock()
        self._strikes = 0
        self._silent_probes = 0
        self._is_leaving = False
        self._pause_seconds = FIRST_EJECTION_SECONDS
        self._ejected_until_seconds = 0.0
        self.answers = False
        """The last probe found it ready."""
        self.ejections = 0
        self.successes = 0
        """Calls that came to their end."""
        self._last_error = ""
        self._last_error_at_seconds = 0.0

    @property
    def last_error(self) -> str:
        """What failed last, "" for nothing yet."""
        return self._last_error

    @last_error.setter
    def last_error(self, words: str) -> None:
        self._last_error = words
        self._last_error_at_seconds = self._clock()

    @property
    def last_error_seconds(self) -> float | None:
        """How long ago that was, or was last so; None for nothing yet."""
        return self._clock() - self._last_error_at_seconds if self._last_error else None

    @property
    def state(self) -> State:
        """What it is now."""
        return self._state

    @property
    def state_seconds(self) -> float:
        """How long it has been that."""
        return self._clock() - self._since_seconds

    @property
    def share(self) -> float:
        """What it should have of its part of the load: all of it, or less when it is just ready.

        It has no streams then, so that it would get all new ones at once, cold and perhaps ill.
        """
        if self._state != "ready" or self.state_seconds >= self._slow_start_seconds:
            return 1.0
        return max(FIRST_SHARE, self.state_seconds / self._slow_start_seconds)

    @property
    def is_stuck(self) -> bool:
        """Its connection is there, and nothing comes through it."""
        return self._silent_probes >= SILENT_PROBES

    def probed(self, error: SpeechError | None) -> None:
        """Take a probe's result; None: it is ready."""
        if self._is_leaving:
            return
        self._silent_probes = self._silent_probes + 1 if error and error.fault == "silent" else 0
        if error is None:
            self.answers = True
            if not self._is_held():
                self._become("ready")
            return
        self.last_error = error.message
        if error.fault == "silent" and not self.is_stuck:
            return
        self.answers = False
        is_draining = self._state == "draining" and self.state_seconds < DRAIN_SECONDS
        if not (is_draining or self._is_held()):
            self._become("connecting")

    def succeeded(self) -> None:
        """Take a call that came to its end."""
        self.successes += 1
        self._strikes = 0
        if self._state == "ready":
            self._pause_seconds = FIRST_EJECTION_SECONDS

    def failed(self, error: SpeechError, *, may_eject: bool) -> None:
        """Take a failed call; it ejects only if it may, else a lost Triton waits for its probe."""
        effect = CONSEQUENCES[error.fault].effect
        if effect is Effect.NONE:
            return
        self.last_error = error.message
        # What else was under way when it was ejected, or began to drain, tells nothing new.
        if self._state != "ready":
            return
        self._strikes += 1
        if effect is Effect.DRAIN:
            self._become("draining")
        elif (effect is Effect.EJECT or self._strikes >= STRIKES) and may_eject:
            self._eject()
        elif error.fault in ("lost", "untrusted"):
            self.answers = False
            self._become("connecting")

    def renewed(self) -> Health:
        """Return that of the same Triton behind a new connection: what its calls told stays."""
        health = Health(self._clock, self._slow_start_seconds)
        health.ejections, health.last_error = self.ejections, self.last_error
        health._pause_seconds = self._pause_seconds
        if self._is_held():
            health._ejected_until_seconds = self._ejected_until_seconds
            health._become("ejected")
        return health

    def leave(self) -> None:
        """Drain for good: it is no longer among those that there are."""
        self.answers = False
        self._become("draining")
        self._is_leaving = True

    def _is_held(self) -> bool:
        return self._state == "ejected" and self._clock() < self._ejected_until_seconds

    def _eject(self) -> None:
        self.ejections += 1
        pause_seconds = min(self._pause_seconds, LONGEST_EJECTION_SECONDS)
        self._pause_seconds = 2 * pause_seconds
        self._ejected_until_seconds = self._clock() + pause_seconds
        self._become("ejected")

    def _become(self, state: State) -> None:
        if state != self._state:
            self._state = state
            self._since_seconds = self._clock()
            self._strikes = 0
