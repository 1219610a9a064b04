"""Log lines: one for each request, readable by machines whatever callers send, never the text."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fakes.clock import Clock
from fakes.records import make_record
from fakes.statistics import FakeMetricsPage
from gateway.backend.classify import classify
from gateway.errors import BackendFailedError, InvalidRequestError
from gateway.telemetry.logging import FORMATTERS, UNCOMPLETED, log_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.telemetry.logging import LogFormat

ODD = ("ali\nce", 'quote" x=1', "\ud800", "声", "back\\slash", "\x7f\x1b[31m", "", "a b")


@pytest.fixture
def lines() -> Iterator[dict[LogFormat, io.StringIO]]:
    """Give what is logged, in each format."""
    log = logging.getLogger("speech")
    streams = {name: io.StringIO() for name in FORMATTERS}
    handlers = [logging.StreamHandler(stream) for stream in streams.values()]
    for handler, formatter in zip(handlers, FORMATTERS.values(), strict=True):
        handler.setFormatter(formatter())
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield streams
    log.setLevel(logging.NOTSET)
    for handler in handlers:
        log.removeHandler(handler)


def as_json(lines: dict[LogFormat, io.StringIO]) -> dict[str, Any]:
    """Return the one line, which half a character must not make unreadable."""
    [line] = lines["json"].getvalue().splitlines()
    entry: dict[str, Any] = json.loads(line)
    json.dumps(entry, ensure_ascii=False).encode()
    return entry


def as_text(lines: dict[LogFormat, io.StringIO]) -> str:
    """Return the one line after its time."""
    [line] = lines["text"].getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    return line.split(" ", 2)[2]


def test_a_finished_request_is_one_line(lines: dict[LogFormat, io.StringIO]) -> None:
    clock = Clock()
    record = make_record(clock)
    record.admitted()
    record.context.asks("10.0.0.1:8001")
    clock.now = 100.25
    record.arrived(None)
    record.received(1.5, 0.5, "stop")
    record.sent()
    record.outcome = "finished"
    clock.now = 102.123456
    record.close()

    log_record(record)

    assert as_text(lines) == (
        "INFO speech.finished request_id=req_1 caller=anonymous model=hibari voice=heart "
        "format=pcm characters=9 replica=10.0.0.1:8001 stage=streaming first_chunk_seconds=0.25 "
        "first_audio_seconds=0.25 audio_seconds=1.5 total_seconds=2.1235 underrun_seconds=0.0 "
        "finish_reason=stop error=none param=none detail=none"
    )
    entry = as_json(lines)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "info",
        "event": "speech.finished",
        "request_id": "req_1",
        "caller": "anonymous",
        "model": "hibari",
        "voice": "heart",
        "format": "pcm",
        "characters": 9,
        "replica": "10.0.0.1:8001",
        "stage": "streaming",
        "first_chunk_seconds": 0.25,
        "first_audio_seconds": 0.25,
        "audio_seconds": 1.5,
        "total_seconds": 2.1235,
        "underrun_seconds": 0.0,
        "finish_reason": "stop",
        "error": None,
        "param": None,
        "detail": None,
    }


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_odd_names_and_reasons_stay_in_their_line(
    lines: dict[LogFormat, io.StringIO], odd: str
) -> None:
    record = make_record(Clock(), caller=odd, voice=odd)
    record.fail(BackendFailedError("words", detail=f"{odd} inside"))
    record.close()

    log_record(record)

    entry, text = as_json(lines), as_text(lines)
    shown = odd if odd != "\ud800" else "\\ud800"
    assert (entry["caller"], entry["voice"]) == (shown, shown)
    assert entry["detail"] == f"{shown} inside"
    assert entry["level"] == "warning"
    assert text.startswith("WARNING speech.failed request_id=req_1 caller=")
    assert f" voice={json.dumps(odd)} " in text


def test_an_error_that_may_quote_the_text_is_named_and_not_repeated(
    lines: dict[LogFormat, io.StringIO],
) -> None:
    record = make_record(Clock())
    record.fail(InvalidRequestError("'input' is 'A secret.'", param="input", detail="A secret."))
    record.close()

    log_record(record)

    entry = as_json(lines)
    assert (entry["error"], entry["param"], entry["detail"]) == ("invalid_value", "input", None)
    assert all("secret" not in stream.getvalue() for stream in lines.values())


def test_what_a_model_says_is_for_debugging_alone(lines: dict[LogFormat, io.StringIO]) -> None:
    record = make_record(Clock())
    record.fail(classify(None, "ValueError: cannot read 'A secret.'"))
    record.close()

    log_record(record)

    assert as_json(lines)["detail"] == "the speech model failed"
    assert all("secret" not in stream.getvalue() for stream in lines.values())
    logging.getLogger("speech").setLevel(logging.DEBUG)
    log_record(record)
    told = json.loads(lines["json"].getvalue().splitlines()[-1])
    assert (told["event"], told["level"]) == ("speech.model_said", "debug")
    assert told["words"] == "ValueError: cannot read 'A secret.'"
    assert told["request_id"] == "req_1"


def test_requests_of_our_own_are_no_lines() -> None:
    """Triton's metrics page is asked for every few seconds."""
    with FakeMetricsPage() as page:
        script = (
            "import httpx; from gateway.telemetry.logging import configure_logging; "
            f"configure_logging('info', 'json'); httpx.get('http://{page.address}/metrics')"
        )
        done = subprocess.run(
            [sys.executable, "-I", "-c", script], capture_output=True, check=True, timeout=30
        )

    assert done.stderr == b""


def test_what_uvicorn_says_of_a_broken_stream_is_no_line() -> None:
    script = (
        "import logging; from gateway.telemetry.logging import configure_logging; "
        "configure_logging('info', 'json'); error = logging.getLogger('uvicorn.error').error; "
        f"error({UNCOMPLETED!r}); error('something else')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, check=True, timeout=30
    )

    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["something else"]


def test_lines_of_others_are_events_without_fields(lines: dict[LogFormat, io.StringIO]) -> None:
    try:
        int("boom")
    except ValueError:
        logging.getLogger("speech.other").exception("it is %s", "broken")

    entry = as_json(lines)
    assert (entry["level"], entry["event"]) == ("error", "it is broken")
    assert entry["exception"].endswith("'boom'")
    text = lines["text"].getvalue()
    assert "ERROR it is broken\nTraceback" in text
    assert text.endswith("'boom'\n")


@pytest.mark.parametrize(("given", "kept"), [({}, "NONE"), ({"GRPC_VERBOSITY": "INFO"}, "INFO")])
def test_grpc_is_told_to_be_quiet_before_it_is_imported(given: dict[str, str], kept: str) -> None:
    program = (
        "import os, sys, gateway.settings.grpc_log; print('grpc' in sys.modules, end=' ');"
        "import gateway.__main__; print(os.environ['GRPC_VERBOSITY'])"
    )
    plain = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=plain | given,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["False", kept]
