"""Two real Tritons behind one gateway: one of them dies or drains under load."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import httpx

from engine import certs
from tritonserver.conftest import body, start_engine
from tritonserver.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLIENTS = 4
SENTENCE = "This is a sentence of the load."


class Load:
    """Clients that ask again and again; every answer is counted, the broken ones too."""

    def __init__(self, stack: Any) -> None:
        self.answers: Counter[str] = Counter()
        self._url = f"{stack.ports.url}/v1/audio/speech"
        self._grown = threading.Condition()
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(CLIENTS)

    def __enter__(self) -> Load:  # noqa: PYI034  Self needs Python 3.11
        self._clients = [self._pool.submit(self._ask_on) for _ in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._pool.shutdown()
        for client in self._clients:
            client.result()

    def wait_more(self, count: int, seconds: float = 60) -> None:
        """Return after so many more answers."""
        with self._grown:
            until = self.answers.total() + count
            assert self._grown.wait_for(lambda: self.answers.total() >= until, seconds)

    def _ask_on(self) -> None:
        body = {"model": "hibari", "voice": "heart", "response_format": "pcm", "input": SENTENCE}
        with httpx.Client(timeout=60) as client:
            while not self._is_over.is_set():
                try:
                    answer = client.post(self._url, json=body)
                    outcome = str(answer.status_code) if answer.content else "empty"
                except httpx.RemoteProtocolError:
                    outcome = "broken"
                with self._grown:
                    self.answers[outcome] += 1
                    self._grown.notify_all()


def states(stack: Any) -> list[str]:
    """Return the states of all Tritons as the gateway sees them."""
    answer = httpx.get(f"{stack.ports.url}/v1/replicas").json()
    return sorted(one["state"] for one in answer["replicas"])


def test_a_killed_server_breaks_only_what_it_was_speaking(
    pair: tuple[Any, Any], until: Callable[..., float]
) -> None:
    stack, other = pair
    until(lambda: states(stack) == ["ready", "ready"], 20)

    with Load(stack) as load:
        load.wait_more(10)
        other.children("tritonserver")[0].kill()
        load.wait_more(30)
        seen = states(stack)

    assert load.answers.keys() <= {"200", "broken"}, load.answers
    assert load.answers["broken"] <= CLIENTS, load.answers
    assert load.answers["200"] >= 36
    assert "ready" in seen
    assert seen != ["ready", "ready"]


def test_a_server_that_drains_loses_no_request(
    pair: tuple[Any, Any], until: Callable[..., float]
) -> None:
    """SIGTERM, as a rolling update sends it: what runs ends, what comes goes to the other."""
    stack, other = pair
    until(lambda: states(stack) == ["ready", "ready"], 20)

    with Load(stack) as load:
        load.wait_more(10)
        other.send(signal.SIGTERM)
        load.wait_more(30)
        code = other.wait()
        load.wait_more(10)

    assert set(load.answers) == {"200"}, load.answers
    assert code == 0


def test_a_server_with_mutual_tls_and_a_secret_is_spoken_to(tmp_path: Path, ports: Any) -> None:
    """Both come from the certificates that the engine makes itself."""
    secret = "correct-horse-battery"  # noqa: S105
    (tmp_path / "secret").write_text(f"{secret}\n", "utf-8")
    certs.make(tmp_path / "pki", ["localhost", "triton.internal"], datetime.now(timezone.utc))
    pki = {path.name: str(path) for path in (tmp_path / "pki").iterdir()}
    own = ("--tls-certificate", pki["server.pem"], "--tls-key", pki["server-key.pem"])
    mutual = ("--tls-client-root", pki["ca.pem"], "--tls-root", pki["ca.pem"])
    shown = ("--tls-own-certificate", pki["client.pem"], "--tls-own-key", pki["client-key.pem"])
    engine = start_engine(ports, *own, *mutual, *shown, "--secret-file", str(tmp_path / "secret"))
    variables = {
        "SPEECH_TRITON_TLS": "private",
        "SPEECH_TRITON_CA": pki["ca.pem"],
        "SPEECH_TRITON_SERVER_NAME": "triton.internal",
        "SPEECH_TRITON_CLIENT_CERT": pki["client.pem"],
        "SPEECH_TRITON_CLIENT_KEY": pki["client-key.pem"],
    }

    def ask(metadata: str) -> httpx.Response:
        options = ("serve", "--port", str(ports.http), "--triton", ports.triton)
        env = variables | {"SPEECH_TRITON_METADATA": metadata, "PATH": "/usr/bin:/bin"}
        gateway = Process(sys.executable, "-I", "-m", "gateway", *options, env=env)
        try:
            gateway.wait_for("Uvicorn running")
            return httpx.post(f"{ports.url}/v1/audio/speech", json=body(SENTENCE), timeout=60)
        finally:
            gateway.stop()

    try:
        spoken = ask(f"triton-grpc-protocol-speech={secret}")
        refused = ask("")
    finally:
        engine.stop()

    assert (spoken.status_code, len(spoken.content) > 24_000) == (200, True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "misconfigured")
