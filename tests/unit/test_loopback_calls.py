from __future__ import annotations

from contextlib import closing

import grpc
import numpy as np
import pytest

from fakes.near import NearStages
from fakes.script import Abort
from fakes.stages import Behaviour, FakeStages, Pause
from speech_backend.loopback import Patience, StageError
from speech_backend.serving import InvalidInputError
from speech_wire import INVALID_INPUT, LoopbackAccess

WINDOW = np.array([4, 5, 0], np.int32)
VOICE = np.arange(32, dtype=np.int32)


@pytest.mark.parametrize("batch", [0, 8])
def test_a_window_is_decoded(far: FakeStages, stages: NearStages, batch: int) -> None:
    samples = np.linspace(-1, 1, 640, dtype=np.float32)
    far.behaviour = Behaviour(batch=batch, answer={"waveform": samples[None]})

    decoded = stages.decode_window(WINDOW, 2, range(1, 2), VOICE)

    ((model, _, sent),) = far.requests
    assert model == "vocoder"
    assert {name: array.ravel().tolist() for name, array in sent.items()} == {
        "semantic_tokens": [4, 5, 0],
        "length": [2],
        "kept_tokens": [1, 2],
        "global_tokens": list(range(32)),
    }
    assert sent["semantic_tokens"].shape == ((1, 3) if batch else (3,))
    np.testing.assert_array_equal(decoded, samples)


def test_a_recording_is_tokenised_in_upstreams_types(far: FakeStages, stages: NearStages) -> None:
    """Upstream declares int32[n] and answers with int64; its voice has a batch dimension."""
    far.behaviour = Behaviour(
        answer={
            "global_tokens": VOICE[None].astype(np.int64),
            "semantic_tokens": np.arange(3, dtype=np.int64),
        }
    )

    tokens = stages.tokenise_reference(np.zeros(1000, np.float32))

    ((model, _, sent),) = far.requests
    assert model == "audio_tokenizer"
    assert sent["reference_wav"].shape == (1, 1000)
    assert sent["reference_wav_len"].tolist() == [[1000]]
    assert (tokens.global_tokens.dtype, tokens.semantic_tokens.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(tokens.global_tokens, VOICE)
    assert tokens.semantic_tokens.tolist() == [0, 1, 2]


def test_a_secret_goes_to_its_own_server_whatever_the_repository_was_rendered_for(
    far: FakeStages,
) -> None:
    far.behaviour = Behaviour(answer={"waveform": np.zeros(640, np.float32)})
    access = LoopbackAccess(headers={"triton-grpc-protocol-speech": "s"}, address=far.address)
    with FakeStages() as other, closing(NearStages(other.address, access=access)) as stages:
        stages.decode_window(WINDOW, 2, range(1, 2), VOICE)

        assert other.requests == []
    assert len(far.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "error", "words"),
    [
        (
            Behaviour(answer=Abort(grpc.StatusCode.INTERNAL, "no memory")),
            StageError,
            "model 'vocoder' failed: INTERNAL no memory",
        ),
        (
            Behaviour(answer=Abort(grpc.StatusCode.INTERNAL, f"{INVALID_INPUT}silent")),
            InvalidInputError,
            "^silent$",
        ),
        (Behaviour(answer={"sound": VOICE}), StageError, r"\['sound'\], without 'waveform'"),
        (Behaviour(answer_id="7"), StageError, "answered request '7' instead of"),
    ],
    ids=["failure", "the caller's fault", "no waveform", "another's answer"],
)
def test_a_call_that_fails_says_how(
    far: FakeStages,
    stages: NearStages,
    behaviour: Behaviour,
    error: type[Exception],
    words: str,
) -> None:
    far.behaviour = behaviour

    with pytest.raises(error, match=words):
        stages.decode_window(WINDOW, 2, range(1, 2), VOICE)


def test_a_call_that_takes_too_long_is_an_error(far: FakeStages) -> None:
    stages = NearStages(far.address, patience=Patience(call_seconds=0.05))
    far.behaviour = Behaviour(answer={"waveform": VOICE}, hold=Pause())

    with pytest.raises(StageError, match="'vocoder' failed: DEADLINE_EXCEEDED"):
        stages.decode_window(WINDOW, 2, range(1, 2), VOICE)
    far.behaviour.hold.set()
    stages.close()
