"""Triton's requests to the front, with its stages behind gRPC."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine.fixture.vocabulary import write_tokenizer
from fakes.pb_utils import FakeRequest, FakeSender, KeepingPbUtils
from fakes.stages import Behaviour, FakeStages, Pause, Wrote
from speech_backend.front import FrontRequests
from speech_backend.tokens import TokenMap
from speech_wire import CANCEL_PARAMETER, INVALID_INPUT, PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_SECONDS = 10
TOKENS = 20
SAMPLES = np.linspace(-1, 1, 320 * TOKENS, dtype=np.float32)
CLONE = SynthesisRequest("Hello.", global_tokens=np.arange(32, dtype=np.int32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checkpoint")
    (made / "LLM").mkdir()
    write_tokenizer(made / "LLM", full=False)
    return made


@pytest.fixture
def written(folder: Path) -> list[int]:
    """Give what the language model writes for an utterance of TOKENS."""
    vocabulary = json.loads((folder / "LLM" / "tokenizer.json").read_text(encoding="utf-8"))
    added = {token["content"]: token["id"] for token in vocabulary["added_tokens"]}
    tokens = TokenMap.from_vocabulary({**vocabulary["model"]["vocab"], **added})
    opened = tokens.marks["start_semantic_token"]
    return [opened, *tokens.semantic_codes.ids(range(TOKENS)).tolist(), tokens.stop_ids[0]]


@pytest.fixture
def pb_utils() -> KeepingPbUtils:
    return KeepingPbUtils()


@pytest.fixture
def front(far: FakeStages, folder: Path, pb_utils: KeepingPbUtils) -> FrontRequests:
    """Start it for two at once; each test waits for the end, which closes it."""
    parameters = {
        "model_dir": str(folder),
        "triton_address": far.address,
        "max_sequence_tokens": "4000",
        "look_ahead": "67",
        "first_chunk": "25",
        **{name: name for name in ("llm", "vocoder", "audio_tokenizer")},
    }
    return FrontRequests(pb_utils, "spark_tts", parameters, at_once=2)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith(("requests", "send"))] == []


def asked(name: str, request: SynthesisRequest = CLONE, **more: Any) -> FakeRequest:
    return FakeRequest(request.to_tensors(), FakeSender(), id=name, **more)


def cancel_of(name: str) -> FakeRequest:
    return asked(name, words=json.dumps({CANCEL_PARAMETER: True}))


def behaviour(*steps: Any) -> Behaviour:
    return Behaviour(steps, answer={"waveform": SAMPLES})


def test_utterances_are_spoken_and_counted(
    front: FrontRequests, far: FakeStages, written: list[int], pb_utils: KeepingPbUtils
) -> None:
    far.behaviour = behaviour(Wrote(written))
    requests = [asked(str(number)) for number in range(5)]

    for request in requests:
        front.accept(request)
    front.close()

    for request in requests:
        (chunk,) = (PcmChunk.from_tensors(tensors) for tensors in request.sender.chunks)
        np.testing.assert_array_equal(chunk.samples, SAMPLES)
        assert (chunk.finish_reason, request.sender.finals) == ("stop", 1)
    assert pb_utils.outcomes() == {"finished": 5}


def test_what_cannot_be_asked_is_the_callers_fault(
    front: FrontRequests, pb_utils: KeepingPbUtils
) -> None:
    wrong = asked("1", SynthesisRequest("No voice."))

    front.accept(wrong)
    front.close()

    (error,) = wrong.sender.errors
    assert error.startswith(f"{INVALID_INPUT}'gender' is missing")
    assert pb_utils.outcomes() == {"invalid": 1}


def test_a_cancel_stops_the_model_by_a_request(
    front: FrontRequests, far: FakeStages, written: list[int], pb_utils: KeepingPbUtils
) -> None:
    far.behaviour = behaviour(Wrote(written[:3]), Pause())
    request, cancel = asked("1"), cancel_of("1")
    front.accept(request)
    assert far.streams.wait()

    front.accept(cancel)
    front.close()

    assert far.ended.wait()
    assert (far.stopped.count, far.cut.count) == (1, 0)
    assert (request.sender.chunks, request.sender.finals, cancel.sender.finals) == ([], 1, 1)
    assert pb_utils.outcomes() == {"cancelled": 1}


def test_those_who_wait_for_their_turn_are_not_yet_asked_for_and_can_be_cancelled(
    front: FrontRequests, far: FakeStages, written: list[int], pb_utils: KeepingPbUtils
) -> None:
    pause = Pause()
    far.behaviour = behaviour(pause, Wrote(written))
    requests = [asked(str(number)) for number in range(4)]
    for request in requests:
        front.accept(request)
    assert far.streams.wait(2)

    front.accept(cancel_of("2"))
    left: Any = requests[2].sender
    assert left.has_ended.wait(WAIT_SECONDS)
    running = far.streams.count
    pause.set()
    front.close()

    assert running == 2
    assert [len(request.sender.chunks) for request in requests] == [1, 1, 0, 1]
    assert pb_utils.outcomes() == {"finished": 3, "cancelled": 1}
    assert far.streams.count == 3
