from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.spark import TOKENS, FakeStages, listen, mark, sound, speech
from speech_backend.guards import ModelOutputError
from speech_backend.pipeline import POLL_SECONDS, SparkSpeaker
from speech_backend.prompts import Prompter
from speech_backend.serving import InvalidInputError
from speech_backend.windows import RESERVE_SECONDS, WINDOW_LENGTHS, WindowPlan
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

VOICE = np.arange(32, dtype=np.int32)
CODES = list(range(1000, 1400))
OPEN, END = mark("start_semantic_token"), mark("im_end")
TEXT = "A sentence of some length."
CLONE = SynthesisRequest(TEXT, global_tokens=VOICE)
MADE = [*TOKENS.global_codes.ids(VOICE + 100).tolist(), OPEN]


def cloned(codes: list[int], *end: int, **options: Any) -> FakeStages:
    return FakeStages([OPEN, *speech(codes), *end], **options)


def speaker(stages: FakeStages, room: int = 4096, plan: WindowPlan | None = None) -> SparkSpeaker:
    prompter = Prompter(TOKENS, lambda text: list(text.encode()))
    return SparkSpeaker(stages, TOKENS, prompter, room, plan)


def speak(stages: FakeStages, request: SynthesisRequest = CLONE, **options: Any) -> list[PcmChunk]:
    return listen(speaker(stages, **options).synthesize(request, stages.clock))


def at_each_chunk(stages: FakeStages, look: Callable[[], Any]) -> list[Any]:
    """Return what `look` sees when each chunk comes."""

    async def looking() -> AsyncGenerator[Any, None]:
        async with aclosing(speaker(stages).synthesize(CLONE, stages.clock)) as chunks:
            async for _ in chunks:
                yield look()

    return listen(looking())


def joined(chunks: list[PcmChunk]) -> np.ndarray[Any, Any]:
    position = 0
    for chunk in chunks:
        assert chunk.sample_offset == position
        assert chunk.sample_rate_hz == 16_000
        assert chunk.samples.dtype == np.float32
        position += len(chunk.samples)
    return np.concatenate([chunk.samples for chunk in chunks])


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 8191), min_size=1, max_size=400),
    st.integers(1, 40),
    st.floats(0, 0.1),
    st.floats(0, 0.01),
)
def test_what_is_streamed_is_what_would_be_decoded_at_once(
    codes: list[int], group: int, seconds_per_id: float, cost: float
) -> None:
    stages = cloned(
        codes,
        END,
        group=group,
        seconds_per_id=seconds_per_id,
        decode_seconds=lambda length: cost * length,
    )

    assert np.array_equal(joined(speak(stages)), sound(codes, VOICE))
    assert set(stages.lengths) <= set(WINDOW_LENGTHS)


def test_the_first_chunk_comes_as_soon_as_its_tokens_and_their_look_ahead() -> None:
    stages = cloned(CODES, END)
    times = at_each_chunk(stages, lambda: stages.clock.now)

    assert times[0] == pytest.approx(100 + 0.003 * (1 + 25 + 67))


@pytest.mark.parametrize("group", [1, 1000], ids=["steadily", "at once"])
def test_only_the_last_chunk_says_why_the_speech_ends(group: int) -> None:
    chunks = speak(cloned(CODES, END, group=group))

    assert len(chunks) > 2
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.global_tokens is None for chunk in chunks)


def test_a_window_that_is_ready_does_not_wait_for_more_tokens() -> None:
    stages = cloned(CODES, END, group=200)
    times = at_each_chunk(stages, lambda: stages.clock.now)

    assert times[0] == times[1]


def test_a_model_whose_stop_id_is_left_out_has_ended_by_itself() -> None:
    chunks = speak(cloned(CODES))

    assert np.array_equal(joined(chunks), sound(CODES, VOICE))
    assert chunks[-1].finish_reason == "stop"


def test_a_text_that_is_cut_at_its_limit_says_so() -> None:
    request = SynthesisRequest("Yes.", global_tokens=VOICE, max_new_tokens=101)
    chunks = speak(cloned(CODES, END), request)

    assert np.array_equal(joined(chunks), sound(CODES[:100], VOICE))
    assert chunks[-1].finish_reason == "length"


def test_a_model_that_goes_round_is_stopped_at_once_and_what_it_said_is_heard() -> None:
    codes = [*CODES[:50], *[7] * 1000]
    stages = cloned(codes)
    request = SynthesisRequest(TEXT, global_tokens=VOICE, max_new_tokens=3000)
    chunks = speak(stages, request)

    assert np.array_equal(joined(chunks), sound(codes[: 50 + 151], VOICE))
    assert chunks[-1].finish_reason == "length"
    assert stages.clock.now < 100 + 0.003 * 210
    assert stages.streams[0].closed


def test_the_model_is_stopped_before_the_rest_is_decoded() -> None:
    stages = cloned(CODES, END, *speech(CODES))
    closed_at_chunk = at_each_chunk(stages, lambda: stages.streams[0].closed)

    assert closed_at_chunk[0] == 0
    assert closed_at_chunk[-1] == 1


def test_a_slow_decode_does_not_hold_the_model_up() -> None:
    """While a window is decoded the stream goes on, and the next read brings all of it."""
    stages = cloned(CODES, END, decode_seconds=lambda _: 0.5)
    speak(stages)

    assert len(stages.lengths) < 6
    assert stages.clock.now == pytest.approx(100 + 0.003 * 93 + 0.5 * len(stages.lengths))


def test_a_made_voice_comes_with_the_first_chunk() -> None:
    stages = FakeStages([*MADE, *speech(CODES), END])
    request = SynthesisRequest(TEXT, gender="female", pitch="high", speed_label="low")
    chunks = speak(stages, request)

    assert np.array_equal(joined(chunks), sound(CODES, VOICE + 100))
    assert chunks[0].global_tokens is not None
    assert chunks[0].global_tokens.tolist() == (VOICE + 100).tolist()
    assert all(chunk.global_tokens is None for chunk in chunks[1:])


def test_a_recording_is_tokenised_and_its_transcript_gone_on_from() -> None:
    stages = FakeStages([*speech(CODES), END])
    recording = np.zeros(3200, np.float32)
    request = SynthesisRequest(TEXT, reference_text="I said.", reference_wav=recording)
    chunks = speak(stages, request)

    assert stages.recordings == [3200]
    assert stages.prompts[0][-11:] == [OPEN, *speech(range(10))]
    assert np.array_equal(joined(chunks), sound(CODES, [7] * 32))


def test_a_recording_without_transcript_is_cloned_by_its_voice() -> None:
    stages = cloned(CODES, END)
    speak(stages, SynthesisRequest(TEXT, reference_wav=np.zeros(3200, np.float32)))

    assert stages.prompts[0][-2:] == [151_665 + 7, mark("end_global_token")]


def test_the_model_is_asked_as_the_request_says_and_else_as_upstream_does() -> None:
    given = {"seed": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "max_new_tokens": 900}
    plain, chosen = cloned(CODES, END), cloned(CODES, END)
    speak(plain)
    speak(chosen, SynthesisRequest(TEXT, global_tokens=VOICE, **given))

    sampling = plain.samplings[0]
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.8, 50, 0.95)
    assert sampling.seed is None
    assert 200 < sampling.max_new_tokens < 500
    assert {name: getattr(chosen.samplings[0], name) for name in given} == given
    assert chosen.samplings[0].stop_ids == TOKENS.stop_ids


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "'gender' is missing, allowed are female, male"),
        ({"global_tokens": VOICE, "gender": "male"}, "make a new voice; leave them out"),
        ({"global_tokens": VOICE, "reference_text": "I said."}, "no semantic tokens"),
        ({"reference_text": "I said.", "gender": "male"}, "came without a voice"),
        ({"semantic_tokens": VOICE}, "came without a voice"),
        ({"global_tokens": VOICE, "reference_wav": np.zeros(9, np.float32)}, "not both"),
        ({"global_tokens": VOICE, "max_new_tokens": 0}, "max_new_tokens is 0, at least 1"),
        ({"global_tokens": VOICE, "temperature": 0.0}, r"temperature is 0\.0, above 0"),
        ({"global_tokens": VOICE, "temperature": float("nan")}, "temperature is nan, above 0"),
        ({"global_tokens": VOICE, "top_k": 0}, "top_k is 0, at least 1"),
        ({"global_tokens": VOICE, "top_p": 1.5}, r"top_p is 1\.5, above 0 and at most 1"),
        ({"global_tokens": VOICE, "max_new_tokens": 5000}, "the model holds 4096; send a shorter"),
    ],
)
def test_what_cannot_be_asked_is_the_callers_error_before_the_model_is_called(
    fields: dict[str, Any], message: str
) -> None:
    stages = cloned(CODES, END)

    with pytest.raises(InvalidInputError, match=message):
        speak(stages, SynthesisRequest(TEXT, **fields))
    assert stages.streams == []


def broken_vocoder(stages: FakeStages) -> FakeStages:
    stages.decode_error = RuntimeError("the vocoder is gone")
    return stages


@pytest.mark.parametrize(
    ("stages", "error", "message"),
    [
        (cloned([], END), ModelOutputError, "without any speech"),
        (cloned(CODES, 14_990), ModelOutputError, r"wrote id 14990 \(text\) in its speech"),
        (cloned(CODES, error=OSError("lost")), OSError, "lost"),
        (broken_vocoder(cloned(CODES, END)), RuntimeError, "the vocoder is gone"),
    ],
    ids=["no speech", "text", "stream", "vocoder"],
)
def test_every_failure_is_raised_and_closes_the_stream(
    stages: FakeStages, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        speak(stages)
    assert stages.streams[0].closed


def test_samples_that_are_too_few_are_an_error_not_a_short_text() -> None:
    stages = cloned(CODES, END)
    decode: Callable[..., Any] = stages.decode_window

    async def decode_less(*window: Any) -> Any:
        return (await decode(*window))[:-1]

    stages.decode_window = decode_less  # type: ignore[method-assign]

    with pytest.raises(ModelOutputError, match=r"made \[7999\] samples of 25 tokens"):
        speak(stages)


def test_a_window_falls_due_while_no_tokens_come() -> None:
    """Ten seconds pass after the tokens of a first and half of a second chunk."""
    stages = cloned(CODES, END, stops=[(0.1, 1 + 25 + 67 + 30), (10.0, 402)])
    times = at_each_chunk(stages, lambda: stages.clock.now)

    sounds_until = times[0] + 25 / 50
    assert sounds_until - RESERVE_SECONDS <= times[1] <= sounds_until - POLL_SECONDS + 1e-9


@pytest.mark.parametrize("seconds_per_id", [0.07, 1.0])
def test_it_is_looked_every_tenth_of_a_second(seconds_per_id: float) -> None:
    stages = cloned(CODES[:100], END, seconds_per_id=seconds_per_id)
    speak(stages)

    waited = stages.streams[0].timeouts
    assert max(waited) == POLL_SECONDS
    assert len(waited) >= (stages.clock.now - 100) / POLL_SECONDS
