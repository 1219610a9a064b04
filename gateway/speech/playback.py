"""A model of the listener's player: whether speech comes as fast as it is played."""

from __future__ import annotations

from dataclasses import dataclass

START_BUFFER_SECONDS = 0.2
"""How long the player waits after its first audio before it plays."""


@dataclass(slots=True)
class Player:
    """Plays in real time from START_BUFFER_SECONDS after the first audio, and waits when dry.

    It goes on with the next audio at once. Moments are seconds on a monotonic clock. What the
    encoder still holds back (0.1 s at most) counts as sent. While the listener takes what is
    there, the player plays on; should it run dry meanwhile, that is not the service's fault.
    """

    underruns: int = 0
    underrun_seconds: float = 0.0
    _sent_seconds: float = 0.0
    _more_seconds: float = 0.0
    _dry_at_seconds: float | None = None
    _is_offered: bool = False

    def offered(self, now_seconds: float, audio_seconds: float) -> None:
        """Note that audio goes to the listener, `audio_seconds` of it so far in all."""
        self._is_offered = True
        self._more_seconds = audio_seconds - self._sent_seconds
        self._sent_seconds = audio_seconds
        if self._more_seconds > 0:  # Else they are a codec's last bytes, without new sound.
            self._wait_until(now_seconds)

    def taken(self, now_seconds: float) -> None:
        """Note that the listener has taken what was offered."""
        self._is_offered = False
        if self._more_seconds > 0:
            begins_at_seconds = now_seconds + START_BUFFER_SECONDS
            if self._dry_at_seconds is not None:
                begins_at_seconds = max(self._dry_at_seconds, now_seconds)
            self._dry_at_seconds = begins_at_seconds + self._more_seconds

    def broke_off(self, now_seconds: float) -> None:
        """Note that the rest will not come: until now the player may have waited for it."""
        if not self._is_offered:
            self._wait_until(now_seconds)

    def _wait_until(self, now_seconds: float) -> None:
        if self._dry_at_seconds is not None and now_seconds > self._dry_at_seconds:
            self.underruns += 1
            self.underrun_seconds += now_seconds - self._dry_at_seconds
            self._dry_at_seconds = now_seconds
