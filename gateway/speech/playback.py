"""A model of the listener's player: whether speech comes as fast as it is played."""

from __future__ import annotations

from dataclasses import dataclass

START_BUFFER_SECONDS = 0.2
"""How long the player waits after its first audio before it plays."""


@dataclass(slots=True)
class Player:
    """Plays in real time from START_BUFFER_SECONDS after the first audio, and waits when dry.

    It goes on with the next audio at once. Moments are seconds on a monotonic clock. What the
    encoder still holds back (0.1 s at most) counts as sent, and while the listener does not take
    what is there, the player stands still: such a silence is not the service's.
    """

    underruns: int = 0
    underrun_seconds: float = 0.0
    _sent_seconds: float = 0.0
    _dry_at_seconds: float | None = None
    _offered_at_seconds: float | None = None

    def offered(self, now_seconds: float, audio_seconds: float) -> None:
        """Note that audio goes to the listener, `audio_seconds` of it so far in all."""
        self._offered_at_seconds = now_seconds
        more_seconds = audio_seconds - self._sent_seconds
        if more_seconds <= 0:
            return  # The last bytes of a codec: no sound that was not counted before.
        if self._dry_at_seconds is None:
            self._dry_at_seconds = now_seconds + START_BUFFER_SECONDS
        self._wait_until(now_seconds)
        self._dry_at_seconds += more_seconds
        self._sent_seconds = audio_seconds

    def taken(self, now_seconds: float) -> None:
        """Note that the listener has taken what was offered."""
        if self._dry_at_seconds is not None and self._offered_at_seconds is not None:
            self._dry_at_seconds += now_seconds - self._offered_at_seconds
        self._offered_at_seconds = None

    def broke_off(self, now_seconds: float) -> None:
        """Note that the rest will not come: until now the player may have waited for it."""
        if self._offered_at_seconds is None:
            self._wait_until(now_seconds)

    def _wait_until(self, now_seconds: float) -> None:
        if self._dry_at_seconds is not None and now_seconds > self._dry_at_seconds:
            self.underruns += 1
            self.underrun_seconds += now_seconds - self._dry_at_seconds
            self._dry_at_seconds = now_seconds
