"""Addresses at which no Triton speaks: refused, silent, a black hole."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from fakes.service import RunningService
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENT = {"first_audio_timeout_seconds": 30.0, "request_timeout_seconds": 60.0}
SOON_SECONDS = 4.0
"""Less than any timeout but the one under test, which is 0.3 s."""


@pytest.fixture
def silent() -> Iterator[int]:
    """Give a port that takes TCP connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def black_hole() -> Iterator[int]:
    """Give a port that does not answer at all: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


@pytest.mark.parametrize("hole", ["silent", "black_hole"])
def test_an_address_that_says_nothing_is_a_503_after_the_connect_timeout(
    request: pytest.FixtureRequest, hole: str
) -> None:
    address = f"127.0.0.1:{request.getfixturevalue(hole)}"

    started_at = time.monotonic()
    with RunningService(address, connect_timeout_seconds=0.3, **PATIENT) as service:
        answer = service.say()
        took_seconds = time.monotonic() - started_at
        probe = service.client.get("/readyz")

    error = answer.json()["error"]
    words = "no connection to Triton within 0.3 s"
    assert (answer.status_code, error["code"]) == (503, "backend_unavailable")
    assert answer.headers["retry-after-ms"] == "1000"
    assert error["message"] == f"{words} (SPEECH_CONNECT_TIMEOUT_SECONDS)"
    assert 0.3 <= took_seconds < SOON_SECONDS
    assert words in probe.json()["models"]["hibari"]


def test_a_triton_that_falls_silent_between_two_requests_is_the_same_503(
    triton: FakeTriton,
) -> None:
    """The model is known by then, so the stream itself is what finds no connection."""
    with RunningService(triton, connect_timeout_seconds=0.3, **PATIENT) as service:
        assert service.say().status_code == 200
        triton.stop()
        with socket.create_server(("127.0.0.1", triton.port)):
            started_at = time.monotonic()
            answer = service.say()
            took_seconds = time.monotonic() - started_at

    assert answer.status_code == 503
    assert "within 0.3 s" in answer.json()["error"]["message"]
    assert took_seconds < SOON_SECONDS


def test_a_connection_that_is_refused_is_a_503_at_once(triton: FakeTriton) -> None:
    triton.stop()

    with RunningService(triton, connect_timeout_seconds=30.0, **PATIENT) as service:
        started_at = time.monotonic()
        answer = service.say()
        took_seconds = time.monotonic() - started_at

    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "Triton cannot be reached"
    assert took_seconds < SOON_SECONDS


def test_a_triton_that_comes_to_a_silent_address_is_used() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    triton = FakeTriton(port=listener.getsockname()[1])
    with RunningService(triton, connect_timeout_seconds=0.3) as service:
        with listener:
            assert service.say().status_code == 503
        with triton:
            give_up_at = time.monotonic() + 10
            while service.say().status_code != 200:
                assert time.monotonic() < give_up_at
