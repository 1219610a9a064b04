"""Log lines: a dotted event and fields, one line for each request, never the text.

Whoever logs gives the event as the message and the fields as `extra={"fields": {…}}`.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gateway.errors import InvalidRequestError, SpeechError, UnauthenticatedError
from gateway.speech.span import NO_SPAN

if TYPE_CHECKING:
    from gateway.speech.record import SpeechRecord

log = logging.getLogger("speech")
refusals = logging.getLogger("speech.refusals")

LogFormat: TypeAlias = Literal["text", "json"]
UNCOMPLETED = "ASGI callable returned without completing response."
BARE = re.compile(r"[A-Za-z0-9_.:/@+,-]+")


class TextFormatter(logging.Formatter):
    """`time LEVEL event key=value …`; a value that is more than a word is in double quotes."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """Add the fields."""
        words = (f"{name}={_word(value)}" for name, value in _fields(record).items())
        return " ".join((super().formatMessage(record), *words))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC), `level`, `event`, the fields; null for what is not."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII."""
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        entry = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: _encodable(value) for name, value in entry.items()}, default=str)


FORMATTERS: dict[LogFormat, type[logging.Formatter]] = {
    "text": TextFormatter,
    "json": JsonFormatter,
}


def configure_logging(level: str, log_format: LogFormat) -> None:
    """Send log lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[log_format]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It tells of each request that succeeds, such as that for Triton's metrics page.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def configure_command_logging() -> None:
    """Have warnings of a command read as the service's do, without those that it prints itself."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(TextFormatter())
        logging.lastResort.addFilter(_is_untold)


def _is_untold(record: logging.LogRecord) -> bool:
    return record.getMessage() != "discovery.failed"


def _is_news(record: logging.LogRecord) -> bool:
    # A stream that breaks off must not end cleanly, so its response is left without its end. The
    # request's own line tells why, and uvicorn would add an error that tells nothing more.
    return record.getMessage() != UNCOMPLETED


def log_record(record: SpeechRecord) -> None:
    """Write the line of a request that has ended."""
    level = logging.WARNING if record.outcome in ("failed", "timed_out") else logging.INFO
    fields = _described(record) | {"detail": _detail(record.error)}
    log.log(level, "speech.%s", record.outcome, extra={"fields": fields})
    if record.error is not None and record.error.said:
        # What the model says may quote the text.
        told = {"request_id": record.job.request_id, "words": record.error.said}
        log.debug("speech.model_said", extra={"fields": told})


def log_refusal(error: SpeechError, status: int, asked: dict[str, str | None]) -> None:
    """Write the line of a request that never was a job; `asked` is what is known of it."""
    is_ours = status >= SpeechError.status
    event = "unauthenticated" if isinstance(error, UnauthenticatedError) else "refused"
    told = {"status": status, "error": error.code, "param": error.param, "detail": _detail(error)}
    level = logging.WARNING if is_ours else logging.INFO
    refusals.log(level, "speech.%s", event, extra={"fields": asked | told})


def trace_record(record: SpeechRecord) -> None:
    """Say the same in the request's span, where it has one."""
    span = record.job.span
    if span is NO_SPAN:
        return
    span.set(outcome=record.outcome, **_described(record))
    if record.error is not None:
        span.fail(record.error)


def _described(record: SpeechRecord) -> dict[str, str | float | None]:
    job, error = record.job, record.error
    return {
        "request_id": job.request_id,
        "caller": job.caller,
        "model": job.model,
        "voice": job.voice,
        "format": job.audio_format,
        "characters": len(job.text),
        "replica": ",".join(record.context.replicas) or None,
        "stage": record.stage,
        "first_chunk_seconds": record.first_chunk_seconds,
        "first_audio_seconds": record.first_audio_seconds,
        "audio_seconds": record.audio_seconds,
        "total_seconds": record.total_seconds,
        "underrun_seconds": record.player.underrun_seconds,
        "finish_reason": record.finish_reason,
        "error": error.code if error else None,
        "param": error.param if error else None,
    }


def _detail(error: SpeechError | None) -> str | None:
    if error is None or isinstance(error, InvalidRequestError):
        return None  # The message may quote the text.
    return error.detail or error.message


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return {name: round(v, 4) if isinstance(v, float) else v for name, v in fields.items()}


def _word(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value)
    return text if BARE.fullmatch(text) else json.dumps(text)


def _encodable(value: Any) -> Any:
    # Half a character is no Unicode: most readers of JSON refuse it.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
