"""One line for each request: a dotted event and fields, never the text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.errors import InvalidRequestError

if TYPE_CHECKING:
    from gateway.errors import SpeechError
    from gateway.speech.record import SpeechRecord

log = logging.getLogger("speech")


def configure_logging(level: str) -> None:
    """Send log lines to standard error."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(message)s", force=True
    )


def log_record(record: SpeechRecord) -> None:
    """Write the line of a request that has ended."""
    level = logging.WARNING if record.outcome in ("failed", "timed_out") else logging.INFO
    first = record.first_audio_seconds
    log.log(
        level,
        "speech.%s request_id=%s caller=%s model=%s voice=%s format=%s characters=%d "
        "first_audio_seconds=%s audio_seconds=%.3f total_seconds=%.3f finish_reason=%s "
        "error=%s detail=%s",
        record.outcome,
        record.job.request_id,
        ascii(record.job.caller),
        record.job.model,
        ascii(record.job.voice),
        record.job.audio_format,
        len(record.job.text),
        "none" if first is None else f"{first:.4f}",
        record.audio_seconds,
        record.total_seconds,
        record.finish_reason or "none",
        record.error.code if record.error else "none",
        _detail(record.error),
    )


def _detail(error: SpeechError | None) -> str:
    if error is None:
        return "none"
    if isinstance(error, InvalidRequestError):
        return f"param={error.param}"  # The message may quote the text.
    return ascii(error.detail or error.message)
