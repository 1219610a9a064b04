"""Wire shapes of the OpenAI speech API: fields, types, ranges, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from gateway.text.policy import Urls

MAX_INSTRUCTIONS_CHARACTERS = 4096
REQUIRED = ("model", "input", "voice")
Language = Annotated[
    str, Field(max_length=35, pattern=r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*|[Aa]uto|[abefhijpz])$")
]
Name = Annotated[str, Field(min_length=1, max_length=256)]


class VoiceReference(BaseModel):
    """A voice named by object, as OpenAI's custom voices are."""

    model_config = ConfigDict(strict=True)

    id: Name


class TextOptions(BaseModel):
    """How this one text is prepared; what is not given is as the service's settings say."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)

    sanitize: bool | None = None
    """Take out markup, emoji and what cannot be spoken."""
    urls: Urls | None = None
    """What sanitising leaves of a web address: its domain, all of it, or nothing."""
    normalize: bool | None = None
    """Write numbers, dates, units and the like as words (English and Chinese)."""
    split: bool | None = None
    """Speak sentence by sentence, the first one early."""
    pause_seconds: float | None = Field(default=None, ge=0, le=5)
    """Silence between two segments, 0.01 at least, before any change of speed."""


class SpeechBody(BaseModel):
    """Body of POST /v1/audio/speech: OpenAI's fields, and some that local servers share.

    Fields beyond these are ignored and named in the header `x-speech-ignored`.
    """

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    model: Name = Field(examples=["hibari"])
    """One of GET /v1/models."""
    input: str = Field(min_length=1, examples=["Hello, this is a test."])
    """The text; OpenAI's limit of 4 096 characters is a setting here."""
    voice: Annotated[str, Field(max_length=256)] | VoiceReference = Field(examples=["heart"])
    """One of GET /v1/audio/voices, as a name or as {"id": name}."""
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    """All are 24 kHz mono and streamed."""
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    """At the same pitch."""
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTIONS_CHARACTERS)
    """Not used by the models here."""
    stream_format: Literal["audio", "sse"] = "audio"
    """The audio itself, or events whose deltas joined are the audio."""
    seed: int | None = Field(default=None, ge=0, lt=2**64)
    """For models that take one: the same seed and text give the same samples."""
    stream: bool = True
    """If false the answer is made whole before it is sent: its length is known, and every
    failure has a status."""
    language: Language | None = Field(
        default=None, validation_alias=AliasChoices("language", "lang_code"), examples=["en"]
    )
    """Language of the text, by default the voice's; `lang_code` is the same."""
    text_options: TextOptions = TextOptions()

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


class Segment(BaseModel):
    """A piece of text that the model gets at once."""

    text: str
    characters: int


class SpeechPreview(BaseModel):
    """What would be spoken; the segments joined are the whole text."""

    model: str
    characters: int
    segments: list[Segment]


class ErrorDetail(BaseModel):
    """What OpenAI's SDKs read out of an error body."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """OpenAI's error body."""

    error: ErrorDetail
