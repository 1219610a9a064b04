"""The seam between the service and whatever makes speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.speech.types import Deadline, Voice
    from speech_wire import PcmChunk, SynthesisRequest


class Synthesizer(Protocol):
    """Makes speech, and says what it can say."""

    def stream(
        self, model: str, request: SynthesisRequest, deadline: Deadline, request_id: str
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield chunks that follow each other without gap; closing it cancels the model.

        Every chunk has `sample_rate_hz`. Raises SpeechError; a normal end means that the
        model said so.
        """

    async def voices(self, model: str) -> tuple[Voice, ...]:
        """Return the model's voices, empty where it names none; raises SpeechError."""

    async def unready(self) -> dict[str, str]:
        """Return the models that cannot be used now, each with the reason."""
