"""The seam between the service and whatever makes speech."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gateway.speech.span import NO_SPAN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import numpy as np
    import numpy.typing as npt

    from gateway.errors import SpeechError
    from gateway.speech.deadline import Deadline
    from gateway.speech.span import Span
    from gateway.speech.types import ReplicaStatus, TextLimits, Voice, VoiceTokens
    from speech_wire import PcmChunk, SynthesisRequest


@dataclass(slots=True)
class CallContext:
    """What goes with every segment of a request to the synthesizer, and what it notes there."""

    request_id: str
    deadline: Deadline
    span: Span = NO_SPAN
    replicas: list[str] = field(default_factory=list)
    """Those that were asked to speak, in the order in which they first were."""

    def asks(self, replica: str) -> None:
        """Note that this replica is asked to speak."""
        if replica not in self.replicas:
            self.replicas.append(replica)


class Synthesizer(Protocol):
    """Makes speech, and says what it can say."""

    def stream(
        self, model: str, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield chunks that follow each other without gap; closing it cancels the model.

        Every chunk has `sample_rate_hz`. Raises SpeechError; a normal end means that the
        model said so.
        """

    async def voices(self, model: str, *, is_fresh: bool = False) -> tuple[Voice, ...]:
        """Return the model's voices, empty where it names none; raises SpeechError.

        They are remembered from the last time unless `is_fresh`.
        """

    async def takes(self, model: str, tensor: str, deadline: Deadline | None = None) -> bool:
        """Whether the model has an input of this name; raises SpeechError.

        With a request's deadline, that holds for all that is spoken for this request.
        """

    async def text_limits(self, model: str) -> TextLimits:
        """Return what the model says of the text that it takes."""

    async def checkpoint(self, model: str, deadline: Deadline | None = None) -> str:
        """Return what the model calls its weights, "" where it says nothing.

        With a request's deadline, that holds for all that is spoken for this request.
        """

    async def tokenizer(self) -> str:
        """Return the name of what tokenises recordings, with its weights'; raises SpeechError."""

    async def tokenise(self, samples: npt.NDArray[np.float32], context: CallContext) -> VoiceTokens:
        """Return the tokens of a recording, float32 mono at 16 kHz; raises SpeechError."""

    async def unready(self) -> dict[str, SpeechError]:
        """Return the models that cannot be used now, each with the reason."""

    def statuses(self) -> tuple[ReplicaStatus, ...]:
        """Return what there is to speak with, and the state of each."""

    def address_problem(self) -> str:
        """Return why it cannot be told now what there is to speak with, "" while it can."""
