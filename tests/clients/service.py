"""The service in front of a fake Triton, told by lines what the model does next.

The clients need packages that conflict with the service's, so it runs in a process of its own, in
the environment of `make run`. Each line of stdin is a command, each is answered by one line of
JSON: `play NAME`, `release`, `heard`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.service import RunningService
from fakes.triton import Fail, FakeTriton, Gate, Script, tone, tones

SAMPLES, FIRST_SAMPLES = 48_000, 12_000


class Stage:
    """What the model can be told to do, and what it was asked for since."""

    def __init__(self, triton: FakeTriton) -> None:
        self._triton = triton
        self._gate = Gate()
        self._heard_before = 0

    def play(self, name: str) -> None:
        """Let the model follow one of these scripts from now on; all speech is two seconds."""
        self._gate = Gate()
        first = tone(FIRST_SAMPLES)
        rest = tone(SAMPLES - FIRST_SAMPLES, start=FIRST_SAMPLES)
        steps: dict[str, list[Any]] = {
            "speak": tones(20, SAMPLES // 20),
            "wait after the first": [first, self._gate, rest],
            "fail": [Fail("out of memory")],
            "fail after the first": [first, Fail("out of memory")],
        }
        self._triton.script = Script(steps[name], voices=({"id": "heart", "language": "en"},))
        self._heard_before = len(self._triton.seen.requests)

    def release(self) -> None:
        """Let the model go on."""
        self._gate.open()

    def heard(self) -> list[dict[str, str | None]]:
        """Return what reached the model since the last `play`."""
        requests = self._triton.seen.requests[self._heard_before :]
        return [{"text": request.target_text, "voice": request.voice} for request in requests]


def main() -> None:
    """Serve until stdin ends."""
    # The clients say OpenAI's names, some let no other pass; here they stand for hibari and heart.
    settings = {"api_keys": "clients:client-key", "cors_origins": "*"}
    with FakeTriton() as triton, RunningService(triton, **settings) as service:
        stage = Stage(triton)
        stage.play("speak")
        print(json.dumps(service.base_url), flush=True)
        for line in sys.stdin:
            command, *arguments = line.strip().split(" ", maxsplit=1)
            print(json.dumps(getattr(stage, command)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
