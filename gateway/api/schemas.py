"""Wire shapes of the OpenAI speech API: fields, types, ranges, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_INSTRUCTIONS_CHARACTERS = 4096
REQUIRED = ("model", "input", "voice")
Name = Annotated[str, Field(min_length=1, max_length=256)]


class VoiceReference(BaseModel):
    """A voice named by object, as OpenAI's custom voices are."""

    model_config = ConfigDict(strict=True)

    id: Name


class SpeechBody(BaseModel):
    """Body of POST /v1/audio/speech: OpenAI's fields, and some that local servers share.

    `seed` is for models that take one; with `stream` false the answer is made whole before it
    is sent. Fields beyond these are ignored and named in a header.
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
    stream: bool = True

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        # Many clients send null for what their user has not set.
        if not isinstance(body, dict):
            return body
        return {k: v for k, v in body.items() if v is not None or k in REQUIRED}

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
