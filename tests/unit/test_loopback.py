from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fakes.near import NearStages
from fakes.script import Fail, Hang
from fakes.spark import FakeClock
from fakes.stages import LLM_INPUTS, Behaviour, FakeStages, Pause, Wrote
from speech_backend.loopback import Patience, StageError, StageNames
from speech_backend.serving import InvalidInputError
from speech_backend.stages import Sampling
from speech_wire import DRAWS_SEEDS, INVALID_INPUT

PROMPT = np.array([5, 6, 7], np.int32)
SAMPLING = Sampling(max_new_tokens=40, stop_ids=(9, 8), seed=2**63 + 1)
LONG_SECONDS = 10.0


def read_all(stream: Any) -> list[int]:
    """Read a stream to its end."""
    found: list[int] = []
    while (ids := stream.read(LONG_SECONDS)) is not None:
        found += ids.tolist()
    return found


def write(stages: NearStages, sampling: Sampling = SAMPLING) -> list[int]:
    stream = stages.stream_tokens(PROMPT, sampling)
    try:
        return read_all(stream)
    finally:
        stream.close()


def test_tokens_come_in_order_and_end(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour([Wrote([1, 2]), Wrote([3], padding=4), Wrote([])])

    assert write(stages) == [1, 2, 3]
    assert far.ended.wait()
    assert far.stopped.count == 0


def test_the_model_is_asked_with_its_own_names_and_shapes(
    far: FakeStages, stages: NearStages
) -> None:
    write(stages)

    ((model, _, sent),) = far.requests
    assert model == "llm"
    assert {name: array.ravel().tolist() for name, array in sent.items()} == {
        "input_ids": [5, 6, 7],
        "input_lengths": [3],
        "request_output_len": [40],
        "end_id": [9],
        "pad_id": [9],
        "streaming": [True],
        "temperature": [np.float32(0.8)],
        "runtime_top_k": [50],
        "runtime_top_p": [np.float32(0.95)],
        "random_seed": [2**63 + 1],
    }
    assert sent["input_ids"].shape == (1, 3)
    assert {array.shape for name, array in sent.items() if name != "input_ids"} == {(1, 1)}


def test_a_newer_model_is_asked_with_its_names(far: FakeStages, stages: NearStages) -> None:
    names = {**LLM_INPUTS, "seed": LLM_INPUTS["random_seed"]}
    del names["random_seed"]
    names["exclude_input_in_output"] = names["stop"]
    names["stop_words_list"] = names["input_ids"]
    far.behaviour = Behaviour(llm_inputs=names, batch=0)

    write(stages)

    ((_, _, sent),) = far.requests
    assert sent["seed"].tolist() == [2**63 + 1]
    assert sent["input_ids"].tolist() == [5, 6, 7]
    assert sent["exclude_input_in_output"].tolist() == [True]
    assert sent["stop_words_list"].tolist() == [[8], [1]]


def test_without_a_seed_each_take_has_its_own(far: FakeStages, stages: NearStages) -> None:
    for _ in range(2):
        write(stages, replace(SAMPLING, seed=None))

    first, second = (sent["random_seed"].item() for _, _, sent in far.requests)
    assert first != second


def test_a_model_that_draws_its_own_seeds_is_sent_none(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour(parameters={DRAWS_SEEDS: "true"})

    write(stages, replace(SAMPLING, seed=None))
    write(stages)

    without, seeded = (sent for _, _, sent in far.requests)
    assert "random_seed" not in without
    assert seeded["random_seed"].item() == SAMPLING.seed


def test_a_model_that_takes_no_seed_is_an_error(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour(llm_inputs={"input_ids": LLM_INPUTS["input_ids"]})

    with pytest.raises(StageError, match="'llm' has no input random_seed or seed"):
        stages.stream_tokens(PROMPT, SAMPLING)


def test_the_configuration_is_read_once(far: FakeStages, stages: NearStages) -> None:
    for _ in range(3):
        write(stages)

    assert far.configs.count == 1


def test_a_model_that_is_not_there_is_named(far: FakeStages) -> None:
    stages = NearStages(far.address, StageNames(llm="tensorrt_llm"))

    with pytest.raises(StageError, match="'tensorrt_llm' failed: NOT_FOUND"):
        stages.stream_tokens(PROMPT, SAMPLING)
    stages.close()


def test_what_came_while_nobody_read_is_read_at_once(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour([Wrote([n]) for n in range(200)])
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.join()

    assert stream.read(0).tolist() == list(range(200))
    assert stream.read(0) is None
    stream.close()


def test_a_model_that_has_nothing_yet_gives_nothing_in_time(
    far: FakeStages, stages: NearStages
) -> None:
    far.behaviour = Behaviour([Pause(), Wrote([1])])
    stream = stages.stream_tokens(PROMPT, SAMPLING)

    nothing = stream.read(0.0)

    assert nothing is not None
    assert nothing.dtype == np.int32
    assert nothing.tolist() == []
    stream.close()


def test_closing_stops_the_model_by_a_request_and_cuts_nothing(
    far: FakeStages, stages: NearStages
) -> None:
    far.behaviour = Behaviour([Wrote([1]), Pause(), Wrote([2]), Hang()])
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.read(LONG_SECONDS)

    stream.close()
    stream.close()

    assert far.stopped.wait()
    assert far.ended.wait()
    assert (far.stopped.count, far.cut.count) == (1, 0)


def test_a_model_that_does_not_stop_is_cut(far: FakeStages) -> None:
    far.behaviour = Behaviour([Wrote([1]), Hang()], obeys_stop=False)
    stages = NearStages(far.address, patience=Patience(stop_seconds=0.05))
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.read(LONG_SECONDS)

    stream.close()

    assert far.cut.wait()
    stream.join()
    assert stream.has_ended
    stages.close()


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        ("[request id: 5] Server is stopping, scheduler for model has stopped accepting new", 1),
        ("Request for unknown model: 'llm' has no available versions", 1),
        ("the request was cancelled", 0),
    ],
)
def test_only_a_server_that_ends_and_refuses_the_stop_is_cut_at_once(
    far: FakeStages, words: str, cut: int
) -> None:
    goes_on = Hang() if cut else Wrote([2])
    far.behaviour = Behaviour([Wrote([1]), Pause(), Fail(words), goes_on], obeys_stop=False)
    stages = NearStages(far.address, patience=Patience(stop_seconds=60))
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.read(LONG_SECONDS)

    stream.close()
    stream.join()

    assert far.cut.wait() if cut else far.ended.wait()
    assert far.cut.count == cut
    stages.close()


def test_a_stalled_model_is_an_error_after_what_it_wrote(far: FakeStages) -> None:
    clock, pause = FakeClock(), Pause()
    far.behaviour = Behaviour([pause, Wrote([1]), Pause()])
    stages = NearStages(far.address, patience=Patience(stall_seconds=30), clock=clock)
    stream = stages.stream_tokens(PROMPT, SAMPLING)

    clock.now += 29
    waited = stream.read(0)
    pause.set()
    written = stream.read(LONG_SECONDS)
    clock.now += 29
    waited_again = stream.read(0)
    clock.now += 2
    with pytest.raises(StageError, match=r"'llm' wrote nothing for 31\.0 s"):
        stream.read(0)

    assert [ids.tolist() for ids in (waited, written, waited_again)] == [[], [1], []]
    stream.close()
    stages.close()


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        ([Wrote([1]), Fail("out of memory")], StageError, "model 'llm' failed: out of memory"),
        ([Fail(f"{INVALID_INPUT}too long")], InvalidInputError, "^too long$"),
        ([Wrote([1], request_id="7")], StageError, "answered request '7' instead of"),
    ],
    ids=["failure", "the caller's fault", "another's answer"],
)
def test_an_error_in_the_stream_comes_after_what_was_written(
    far: FakeStages, stages: NearStages, steps: list[Any], error: type[Exception], words: str
) -> None:
    far.behaviour = Behaviour(steps)
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.join()

    if isinstance(steps[-1], Fail) and len(steps) > 1:
        assert stream.read(0).tolist() == [1]
    with pytest.raises(error, match=words):
        stream.read(0)
    stream.close()
    assert far.ended.wait()


def test_a_stream_without_a_final_response_is_an_error(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour([Wrote([1])], sends_final=False)

    with pytest.raises(StageError, match="'llm' ended its stream without a final response"):
        write(stages)


def test_a_server_that_goes_away_is_an_error(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour([Wrote([1]), Pause()])
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.read(LONG_SECONDS)

    far.__exit__()

    with pytest.raises(StageError, match=r"'llm' failed: (UNAVAILABLE|CANCELLED|UNKNOWN)"):
        read_all(stream)
    stream.close()


def test_many_streams_at_once_each_get_their_own(far: FakeStages, stages: NearStages) -> None:
    far.behaviour = Behaviour([Wrote([n]) for n in range(50)])

    with ThreadPoolExecutor(32) as threads:
        written = list(threads.map(lambda _: write(stages), range(64)))

    assert written == [list(range(50))] * 64
    assert len({request_id for _, request_id, _ in far.requests}) == 64
    assert far.configs.count == 1


def test_closing_ends_what_still_runs(far: FakeStages) -> None:
    stages = NearStages(far.address)
    far.behaviour = Behaviour([Wrote([1]), Pause()])
    streams = [stages.stream_tokens(PROMPT, SAMPLING) for _ in range(3)]
    for stream in streams:
        stream.read(LONG_SECONDS)

    stages.close()

    assert all(stream.has_ended for stream in streams)
    assert far.ended.wait(3)
    assert (far.stopped.count, far.cut.count) == (3, 0)
