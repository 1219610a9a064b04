"""POST /v1/audio/speech: body → job → stream → response."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import quote

import fastapi
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gateway.api.deps import State, StateDep
from gateway.api.disconnect import unless_disconnected
from gateway.api.openapi import ERRORS, REQUESTS, SPEECH
from gateway.api.response import RESPONSE_OF, WholeSpeech
from gateway.api.route import SpeechRoute
from gateway.api.schemas import Segment, SpeechBody, SpeechPreview, TextOptions
from gateway.errors import InvalidRequestError, UnknownModelError
from gateway.speech.deadline import Deadline
from gateway.speech.languages import language_of
from gateway.speech.span import NO_SPAN
from gateway.speech.types import SpeechJob
from gateway.text.policy import TextPolicy

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.speech.service import SpeechStream

router = APIRouter(tags=["speech"])

Given = TypeVar("Given")
Body = Annotated[SpeechBody, fastapi.Body(openapi_examples=REQUESTS)]
CLIENT_CLOSED_REQUEST = 499


async def create_speech(body: Body, request: Request, state: StateDep) -> Response:
    """Speak `input`; the response starts with the first audio."""
    job = make_job(body, request, state)
    request.state.is_accepted = True  # From here on its record tells how it ends.
    stream = await unless_disconnected(state["service"].open(job), request.receive)
    if stream is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    headers = _headers(body, stream)
    if body.stream:
        return RESPONSE_OF[body.stream_format](stream, headers)
    audio = await unless_disconnected(stream.whole(), request.receive)
    if audio is None:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return WholeSpeech(audio, stream, headers)


for path, is_documented in {"/v1/audio/speech": True, "/audio/speech": False}.items():
    router.add_api_route(
        path,
        create_speech,
        methods=["POST"],
        response_class=StreamingResponse,
        responses=SPEECH,
        include_in_schema=is_documented,
        route_class_override=SpeechRoute,
    )


@router.post("/v1/audio/speech/preview", responses=ERRORS)
async def preview_speech(body: Body, request: Request, state: StateDep) -> SpeechPreview:
    """Show what would be spoken, segment by segment, without speaking it."""
    job = make_job(body, request, state)
    segments = await state["service"].segments(job)
    return SpeechPreview(
        model=job.model,
        characters=sum(map(len, segments)),
        segments=[Segment(text=text, characters=len(text)) for text in segments],
    )


def _headers(body: SpeechBody, stream: SpeechStream) -> dict[str, str]:
    headers = {
        "x-sample-rate": str(stream.sample_rate_hz),
        "x-channels": "1",
        # A proxy that keeps or changes the body would hold the audio back.
        "x-accel-buffering": "no",
        "cache-control": "no-store, no-transform",
        "content-disposition": f'inline; filename="speech.{body.response_format}"',
    }
    if ignored := _ignored(body):
        headers["x-speech-ignored"] = ignored
    return headers


def make_job(body: SpeechBody, request: Request, state: State) -> SpeechJob:
    """Check what a schema cannot; raises InvalidRequestError or UnknownModelError."""
    settings, aliases = state["settings"], state["aliases"]
    model = aliases.model(body.model)
    if model not in settings.models:
        raise UnknownModelError.among(body.model, [*settings.models, *aliases.models])
    if body.stream_format == "sse" and not body.stream:
        raise InvalidRequestError(
            "'stream' is false, but 'stream_format' is 'sse', which is a stream", param="stream"
        )
    if len(body.input) > settings.max_input_characters:
        raise InvalidRequestError(
            f"'input' has {len(body.input)} characters, at most "
            f"{settings.max_input_characters} are allowed (SPEECH_MAX_INPUT_CHARACTERS)",
            param="input",
            code="string_above_max_length",
        )
    if all(unicodedata.category(character)[0] in "CZ" for character in body.input):
        raise InvalidRequestError(
            "'input' has nothing but white space and invisible characters", param="input"
        )
    return SpeechJob(
        request_id=request.state.request_id,
        model=model,
        voice=body.voice_id,
        text=body.input,
        audio_format=body.response_format,
        deadline=Deadline.after(settings.request_timeout_seconds),
        text_policy=_text_policy(body.text_options, settings),
        seed=body.seed,
        speed=body.speed,
        pause_seconds=_given(body.text_options.pause_seconds, settings.segment_pause_seconds),
        language=language_of(body.language),
        caller=request.state.caller,
        span=getattr(request.state, "span", NO_SPAN),
    )


def _text_policy(options: TextOptions, settings: Settings) -> TextPolicy:
    return TextPolicy(
        sanitize=_given(options.sanitize, settings.text_sanitize),
        urls=_given(options.urls, settings.text_urls),
        normalize=_given(options.normalize, settings.text_normalize),
        split=_given(options.split, settings.text_split),
        first_segment_characters=settings.first_segment_characters,
        segment_characters=settings.segment_characters,
    )


def _given(value: Given | None, otherwise: Given) -> Given:
    return otherwise if value is None else value


def _ignored(body: SpeechBody) -> str:
    names = body.model_extra or {}
    # A header takes ASCII alone.
    ignored = [quote(name, safe="-_.~ /:")[:64] for name in names]
    # Some clients send the word "None" for instructions that were not set.
    if body.instructions and body.instructions != "None":
        ignored.insert(0, "instructions")
    return ", ".join(ignored[:16])
