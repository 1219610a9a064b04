"""Wire shapes of the OpenAI speech API: fields, types, ranges, and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_INSTRUCTIONS_CHARACTERS = 4096
Name = Annotated[str, Field(min_length=1, max_length=256)]


class VoiceReference(BaseModel):
    """A voice named by object, as OpenAI's custom voices are."""

    model_config = ConfigDict(strict=True)

    id: Name


class SpeechBody(BaseModel):
    """Body of POST /v1/audio/speech: OpenAI's fields, and `seed` for models that take one.

    Fields beyond these are ignored and named in a header.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    model: Name = Field(examples=["hibari"])
    input: str = Field(min_length=1, examples=["Hello, this is a test."])
    voice: Annotated[str, Field(max_length=256)] | VoiceReference = Field(examples=["heart"])
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTIONS_CHARACTERS)
    stream_format: Literal["audio", "sse"] = "audio"
    seed: int | None = Field(default=None, ge=0, lt=2**64)

    @property
    def voice_id(self) -> str:
        """The voice's name, whichever way it was given."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


class ErrorDetail(BaseModel):
    """What OpenAI's SDKs read out of an error body."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """OpenAI's error body."""

    error: ErrorDetail
