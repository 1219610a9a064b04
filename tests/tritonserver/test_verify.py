"""`engine verify` on the real thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.__main__ import main

if TYPE_CHECKING:
    import pytest


def test_the_embedded_voice_is_as_it_should_be(
    stack: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", stack.ports.triton, "--json"])

    told = json.loads(capsys.readouterr().out)
    assert [check for check in told["checks"] if not check["passed"]] == []
    assert code == 0
    assert (told["model"], told["triton"]) == ("hibari", "2.51.0")
    assert 0 < told["figures"]["first_audio_seconds"] <= told["figures"]["total_seconds"]
    assert told["figures"]["requests_hibari"] >= 1
