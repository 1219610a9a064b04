"""The running service, and how the tests of this folder tell its model what to do.

`make test-clients` runs them in an environment of their own (`.venv-clients`), which has the
clients and not the service; other environments leave them out.
"""

from __future__ import annotations

import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
SERVICE_PYTHON = ROOT / ".venv" / "bin" / "python"

collect_ignore_glob = [] if find_spec("litellm") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.clients)


class Service:
    """The service in its own process; see service.py."""

    said: Mapping[str, str] = {"model": "tts-1", "voice": "alloy", "input": "Hello from a client."}
    """The usual request."""
    samples = 48_000
    """What the model says to it: two seconds."""
    decoded_samples: Any = pytest.approx(49_150, abs=1_150)
    """The same through a codec, whose delay and padding are up to 94 ms (2 256 samples)."""
    first_samples = 12_000
    """What comes before it waits or fails."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [SERVICE_PYTHON, Path(__file__).with_name("service.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url: str = self._answer()
        self.base_url = f"{self.url}/v1"

    def play(self, name: str) -> None:
        """Tell the model what to do with the next requests: a name from service.py."""
        self._ask(f"play {name}")

    def release(self) -> None:
        """Let the model go on after the first samples."""
        self._ask("release")

    def heard(self) -> list[dict[str, str]]:
        """Return the texts and voices that reached the model since `play`."""
        heard: list[dict[str, str]] = self._ask("heard")
        return heard

    def stop(self) -> int:
        """End the service and return its exit code."""
        self._process.communicate(timeout=30)
        return self._process.returncode

    def _ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="session")
def _running() -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("SPEECH_", "OPENAI_"))]:
            patch.delenv(name)
        patch.setenv("NO_PROXY", "127.0.0.1")
        running = Service()
        yield running
        assert running.stop() == 0


@pytest.fixture
def service(_running: Service) -> Service:
    """Give the service; its model speaks until a test says otherwise."""
    _running.play("speak")
    return _running
