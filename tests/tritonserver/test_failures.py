"""Everything that dies, dies loudly and comes back by itself."""

from __future__ import annotations

import asyncio
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_TEXT = " ".join(f"This is sentence {n} of a long story about the sea." for n in range(75))
RECOVERY_SECONDS = 30
CLIENT = """
import sys, httpx
with httpx.stream("POST", sys.argv[1], json={"model": "hibari", "voice": "heart",
                  "response_format": "pcm", "input": sys.argv[2],
                  "text_options": {"split": False}}) as response:
    for piece in response.iter_bytes():
        print(len(piece), flush=True)
"""


def url(stack: Any) -> str:
    return f"{stack.ports.url}/v1/audio/speech"


def request(text: str) -> dict[str, Any]:
    """Return a request for one call of the model: what is broken off is never between two."""
    body = {"model": "hibari", "voice": "heart", "response_format": "pcm", "input": text}
    return body | {"text_options": {"split": False}}


def break_mid_stream(stack: Any, harm: Callable[[], None]) -> float:
    """Do harm after the first audio; return the seconds until the body broke."""
    with httpx.stream("POST", url(stack), json=request(LONG_TEXT), timeout=60) as response:
        pieces = response.iter_bytes()
        next(pieces)
        harm()
        harmed = time.monotonic()
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    return time.monotonic() - harmed


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that only waits to be reaped does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_killed_client_is_seen_by_the_model_within_200_ms(stack: Any, until: Any) -> None:
    """SIGKILL of the client mid-stream cancels the model; median of five."""

    def cancelled() -> float:
        return stack.metric("speech_model_requests_total", of_triton=True, outcome="cancelled")

    def kill_one() -> float:
        before = cancelled()
        command = [sys.executable, "-c", CLIENT, url(stack), LONG_TEXT]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            client.stdout.readline()
            client.kill()
            return until(lambda: cancelled() == before + 1, 10)

    seen_after = [kill_one() for _ in range(5)]

    assert statistics.median(seen_after) < 0.2, seen_after
    until(lambda: stack.metric("speech_requests_in_flight") == 0, 5)


def test_hundreds_of_aborts_at_once_leave_the_server_whole(stack: Any, until: Any) -> None:
    """Sixteen clients that hang up early, again and again: nothing crashes, nothing is left."""
    server = stack.engine.children("tritonserver")[0].pid
    before = ended(stack)

    async def hang_up(client: httpx.AsyncClient, after_seconds: float | None) -> None:
        with suppress(asyncio.TimeoutError):
            async with client.stream("POST", url(stack), json=request(LONG_TEXT)) as response:
                pieces = response.aiter_bytes()
                if after_seconds is None:
                    await anext(pieces)
                else:
                    await asyncio.wait_for(anext(pieces), after_seconds)

    async def hang_up_often() -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            for n in range(40):
                pause = None if n % 2 else n / 1000
                await asyncio.gather(*(hang_up(client, pause) for _ in range(16)))

    asyncio.run(hang_up_often())

    until(lambda: stack.metric("speech_requests_in_flight") == 0, 10)
    until(lambda: ended(stack) > before and stack.ask("Still here.").status_code == 200, 10)
    assert stack.engine.children("tritonserver")[0].pid == server


def ended(stack: Any) -> float:
    """How many requests have ended in the model."""
    outcomes = ("finished", "cancelled", "failed", "invalid")
    name = "speech_model_requests_total"
    return sum(stack.metric(name, of_triton=True, outcome=outcome) for outcome in outcomes)


def test_stopped_server_is_restarted(own_stack: Any, until: Any) -> None:
    """A server that answers nothing at all is replaced, without waiting for a probe."""
    server = own_stack.engine.children("tritonserver")[0]

    server.suspend()
    own_stack.engine.wait_for("engine.restarting_server", 30)
    until(lambda: own_stack.ask("Back again.").status_code == 200, RECOVERY_SECONDS)

    assert not lives(server)


def test_killed_stub_breaks_the_body_and_the_model_comes_back(
    own_stack: Any, until: Any, regions: Any
) -> None:
    """The stream ends within the gap timeout, then requests work again, with no operator."""
    server = own_stack.engine.children("tritonserver")[0].pid

    def kill_stub() -> None:
        own_stack.engine.children("triton_python_backend_stub")[0].kill()

    broke_after = break_mid_stream(own_stack, kill_stub)
    until(lambda: own_stack.ask("Back again.").status_code == 200, RECOVERY_SECONDS)

    assert broke_after < own_stack.gap_seconds + 1
    assert own_stack.metric("speech_requests_total", outcome="timed_out") == 1
    assert own_stack.engine.children("tritonserver")[0].pid == server
    assert own_stack.engine.stop() == 0
    assert not regions()


def test_killed_tritonserver_breaks_the_body_and_a_new_one_is_found(
    own_stack: Any, until: Any
) -> None:
    """The engine dies loudly, /readyz says so, and the gateway serves once Triton is back."""
    stub = own_stack.engine.children("triton_python_backend_stub")[0]

    def kill_server() -> None:
        own_stack.engine.children("tritonserver")[0].kill()

    break_mid_stream(own_stack, kill_server)
    dead = own_stack.engine
    exit_code = dead.wait()
    refused = own_stack.ask("Anyone?")
    ready = httpx.get(f"{own_stack.ports.url}/readyz").status_code
    own_stack.restart_engine()
    until(lambda: own_stack.ask("Back again.").status_code == 200, RECOVERY_SECONDS)

    assert not lives(stub)
    assert exit_code == 3
    assert any("tritonserver ended with exit code -9" in line for line in dead.lines)
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    assert ready == 503
    assert own_stack.metric("speech_requests_total", outcome="failed") >= 1


def test_killed_engine_leaves_nothing_that_the_next_one_does_not_clean(
    own_stack: Any, until: Any, regions: Any
) -> None:
    """SIGKILL of the engine mid-stream takes all with it; the next start removes the memory."""
    family = psutil.Process(own_stack.engine.pid).children(recursive=True)
    left = regions()

    break_mid_stream(own_stack, lambda: own_stack.engine.send(signal.SIGKILL))
    until(lambda: not any(lives(process) for process in family), 20)
    own_stack.restart_engine()

    assert left
    assert not left & regions()


def test_hanging_stub_is_found_by_a_probe_that_really_speaks(own_stack: Any, until: Any) -> None:
    """A stopped process still looks alive and ready; only a word that never comes tells."""
    own_stack.engine.stop()
    own_stack.restart_engine("--probe-every", "1", "--probe-timeout", "2")

    stub = own_stack.engine.children("triton_python_backend_stub")[0]
    stub.suspend()
    own_stack.engine.wait_for("engine.probe_failed model=hibari")
    until(lambda: own_stack.ask("Back again.").status_code == 200, RECOVERY_SECONDS)

    assert not lives(stub)
    assert own_stack.engine.stop() == 0


def test_stub_that_dies_while_a_probe_waits_is_still_noticed(own_stack: Any, until: Any) -> None:
    """A probe that stands behind long requests does not hold up the watch, nor the stop."""
    own_stack.engine.stop()
    own_stack.restart_engine("--probe-every", "0.5", "--probe-timeout", "60")
    # The gateway may still hold the channel to the old server, and would refuse some at once.
    until(lambda: own_stack.ask("Back again.").status_code == 200, RECOVERY_SECONDS)

    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(own_stack.ask, LONG_TEXT) for _ in range(12)]
        until(lambda: own_stack.metric("speech_requests_in_flight") == 12, 10)
        own_stack.engine.children("triton_python_backend_stub")[0].kill()
        own_stack.engine.wait_for("engine.model_reloaded model=hibari", 15)
        assert own_stack.ask("Back again.").status_code == 200
        for answer in answers:
            answer.exception()
