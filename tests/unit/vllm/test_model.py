"""The adapter around vLLM's engine, with a scripted one in its place."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from fakes.spark import FakeClock
from fakes.vllm import VOCABULARY, AsyncLLM, RequestOutputKind, SamplingParams
from fakes.vllm_model import PARAMETERS, expected, request, until, whole
from speech_backend.serving import InvalidInputError
from speech_backend.vllm_engine.model import WARM_UP_REQUESTS, VllmModel, until_ended
from speech_backend.vllm_engine.start import OwnedExecutor, sampling_params

pytestmark = pytest.mark.anyio


async def test_the_engine_is_started_as_the_model_is_configured(engine: AsyncLLM) -> None:
    args = engine.args

    assert (args.model, args.dtype) == ("/models/spark/LLM", "bfloat16")
    assert (args.max_model_len, args.gpu_memory_utilization, args.max_num_seqs) == (400, 0.4, 4)
    assert (args.skip_tokenizer_init, args.generation_config) == (True, "vllm")
    assert (args.enable_prefix_caching, args.disable_log_stats) == (False, True)
    assert args.distributed_executor_backend is OwnedExecutor
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "1"
    assert (args.block_size, args.max_cudagraph_capture_size) == (64, 512)


async def test_it_is_warm_before_anyone_asks(engine: AsyncLLM) -> None:
    assert len(engine.asked) == WARM_UP_REQUESTS
    assert len({params.max_tokens for _, params in engine.asked}) == WARM_UP_REQUESTS
    assert not engine.running


async def test_many_at_once_each_get_their_own(model: VllmModel) -> None:
    requests = [request(last, 3 + last % 40, seed=last) for last in range(100)]

    together = await asyncio.gather(*(whole(model, one) for one in requests))

    assert together == [expected(one) for one in requests]


async def test_no_more_run_than_may_and_the_others_wait(model: VllmModel, engine: AsyncLLM) -> None:
    engine.is_held = True
    tasks = [asyncio.create_task(whole(model, request(n))) for n in range(6)]
    await until(lambda: len(engine.waiting) == 6)

    engine.step()
    load = (model.figures.running, model.figures.waiting, model.figures.kv_used)
    engine.is_held = False
    engine.run()
    await asyncio.gather(*tasks)

    assert load == (4, 2, 0.04)
    assert model.figures.running == 0
    assert model.figures.steps > 0


async def test_what_is_written_in_a_pause_comes_together() -> None:
    pauses: list[float] = []

    async def pause(_: object, seconds: float) -> None:
        pauses.append(seconds)
        for _ in range(3 if AsyncLLM.started[-1].is_held else 0):
            AsyncLLM.started[-1].step()

    model = VllmModel(PARAMETERS, FakeClock(), pause)
    await model.live.open()
    held: AsyncLLM = model.live.get()
    held.is_held, asked = True, request(count=10)
    async with aclosing(model.generate(asked)) as answers:
        first = asyncio.ensure_future(anext(answers))
        await until(lambda: held.waiting)
        pauses.clear()
        held.step()
        groups = [(await first).ids.tolist()] + [new.ids.tolist() async for new in answers]
    await model.live.close()

    assert [len(group) for group in groups] == [1, 3, 3, 3]
    assert [i for group in groups for i in group] == expected(asked)
    assert pauses == [0.001] * 3


async def test_the_first_message_has_what_the_first_sound_is_made_of() -> None:
    waits: list[float] = []

    async def pause(_: object, seconds: float) -> None:
        waits.append(round(seconds, 3))
        await asyncio.sleep(0)

    model = VllmModel(PARAMETERS, FakeClock(), pause)
    await model.live.open()
    waits.clear()
    asked = request(count=10, first_ids=7)
    groups = [new.ids.tolist() async for new in model.generate(asked)]
    waits_for_seven, waits = waits, []
    short = [new.ids.tolist() async for new in model.generate(request(count=3, first_ids=7))]
    await model.live.close()

    assert len(groups[0]) == 7
    assert [i for group in groups for i in group] == expected(asked)
    assert short == [expected(request(count=3))]
    assert waits_for_seven[:3] == [0.005, 0.004, 0.003]
    assert waits == [0.001, 0.0]  # As many as it may write.


async def test_a_pause_ends_with_the_request() -> None:
    """Else what was written last, and that it was, would lie there for up to 0.2 s."""
    ends: list[tuple[int, bool]] = []

    async def pause(ended: asyncio.Future[None], _: float) -> None:
        engine = AsyncLLM.started[-1]
        if not engine.is_held:
            return
        while not ended.done():
            engine.step()
            await asyncio.sleep(0)
        ends.append((len(engine.running), ended.done()))

    model = VllmModel(PARAMETERS, FakeClock(), pause)
    await model.live.open()
    held: AsyncLLM = model.live.get()
    held.is_held, asked = True, request(count=10)
    written_ids = asyncio.create_task(whole(model, asked))
    await until(lambda: held.waiting)
    held.step()

    assert await written_ids == expected(asked)
    assert ends == [(0, True)]
    await model.live.close()


async def test_a_pause_is_no_longer_than_it_may_be() -> None:
    ended = asyncio.get_running_loop().create_future()

    await until_ended(ended, 0.0)
    assert not ended.done()

    ended.set_result(None)
    await until_ended(ended, 3600.0)


async def test_the_end_before_the_first_sound_is_seen_soon() -> None:
    waits: list[float] = []

    async def pause(_: object, seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    model = VllmModel(PARAMETERS, FakeClock(), pause)
    await model.live.open()
    waits.clear()
    written_ids = await whole(model, request(count=90, first_ids=84))
    await model.live.close()

    assert len(written_ids) == 90
    assert max(waits[:83]) == 0.02


async def test_without_streaming_all_comes_in_one_answer(model: VllmModel) -> None:
    asked = request(is_streaming=False)

    answers = [new.ids.tolist() async for new in model.generate(asked)]

    assert answers == [expected(asked)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"temperature": 0.0, "top_p": 1.0, "top_k": 0}),
        ({"top_k": 1, "top_p": 0.5}, {"temperature": 0.0}),
        (
            {"top_k": 50, "top_p": 0.25, "temperature": 0.5, "seed": 2**63 - 1},
            {"temperature": 0.5, "top_k": 50, "top_p": 0.25, "seed": 2**63 - 1},
        ),
        ({"seed": 2**64 - 1}, {"seed": 2**63 - 1}),
        ({"seed": 0}, {"seed": 0}),
        ({"end_ids": frozenset(range(129))}, {"min_tokens": 0}),
        ({"end_ids": frozenset(range(128)), "min_new_tokens": 1}, {"min_tokens": 1}),
        ({"top_k": 50}, {"temperature": 1.0, "top_p": 1.0, "top_k": 50}),
        ({"repetition_penalty": 1.25}, {"repetition_penalty": 1.25}),
        ({"min_new_tokens": 4}, {"min_tokens": 4, "max_tokens": 20}),
        ({"end_ids": frozenset([9, 7])}, {"stop_token_ids": [7, 9], "ignore_eos": True}),
        ({"allowed_ids": ((3, 5), (9, 9))}, {"extra_args": {"allowed_ids": ((3, 5), (9, 9))}}),
        ({}, {"extra_args": None, "detokenize": False, "skip_clone": True}),
        ({"is_streaming": True}, {"output_kind": RequestOutputKind.DELTA}),
        ({"is_streaming": False}, {"output_kind": RequestOutputKind.FINAL_ONLY}),
    ],
)
def test_requests_are_asked_in_vllms_words(given: Any, wanted: dict[str, Any]) -> None:
    params: SamplingParams = sampling_params(request(**given))

    assert {name: getattr(params, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"count": 398}, "after 3 input_ids there is room for 397"),
        ({"last": VOCABULARY}, "input_ids are 1 to 1000; allowed are 0 to 999"),
        ({"allowed_ids": ((0, VOCABULARY),)}, "allowed_ids hold 0 to 1000; allowed are 0 to 999"),
        ({"allowed_ids": ((5, 4),)}, "allowed_ids hold 5 to 4"),
        ({"first_ids": -1}, "first_ids is -1; allowed are 0 to 1000"),
        ({"first_ids": 1001}, "first_ids is 1001; allowed are 0 to 1000"),
        ({"top_k": 5, "temperature": 2.5}, r"temperature must be in \[0, 2\], got 2.5"),
        ({"min_new_tokens": 21}, "min_tokens must be less than or equal to max_tokens=20"),
        ({"input_ids": np.array([VOCABULARY - 1], np.int32)}, "vLLM does not take this one"),
    ],
)
async def test_what_cannot_be_asked_is_said_and_others_go_on(
    model: VllmModel, wrong: dict[str, Any], words: str
) -> None:
    right = asyncio.create_task(whole(model, request()))

    with pytest.raises(InvalidInputError, match=words):
        await whole(model, request(**wrong))

    assert await right == expected(request())


async def test_a_request_that_is_left_is_out_of_the_next_step(
    model: VllmModel, engine: AsyncLLM
) -> None:
    engine.is_held = True
    leaving = asyncio.create_task(whole(model, request(1)))
    staying = asyncio.create_task(whole(model, request(2)))
    await until(lambda: len(engine.waiting) == 2)
    engine.step()
    left = engine.running[0]

    leaving.cancel()
    await until(lambda: engine.aborted)

    assert engine.aborted == [left]
    assert [sequence.prompt[-1] for sequence in engine.running] == [2]
    engine.is_held = False
    engine.run()
    assert await staying == expected(request(2))


async def test_one_that_is_left_in_its_pause_is_out_too(given_up: list[bool]) -> None:
    pausing = asyncio.Event()

    async def pause(*_: object) -> None:
        if AsyncLLM.started[-1].is_held:
            pausing.set()
            await asyncio.Event().wait()

    model = VllmModel(PARAMETERS, FakeClock(), pause, lambda: given_up.append(True))
    await model.live.open()
    engine: AsyncLLM = model.live.get()
    engine.is_held = True
    leaving = asyncio.create_task(whole(model, request()))
    await until(lambda: engine.waiting)
    engine.step()
    await pausing.wait()

    leaving.cancel()
    await asyncio.wait({leaving})

    assert leaving.cancelled()
    assert (len(engine.aborted), engine.running) == (1, [])
    await model.live.close()


async def test_no_seed_ends_the_engine(model: VllmModel, engine: AsyncLLM) -> None:
    """An int64 does not hold all that the contract allows."""
    for seed in (2**63, 2**64 - 1):
        asked = request(seed=seed)
        assert await whole(model, asked) == expected(request(seed=seed % 2**63))
    assert not engine.is_dead


def test_more_end_ids_than_the_engine_keeps_back_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="min_length is 2 with 129 end ids; with more"):
        sampling_params(request(end_ids=frozenset(range(129)), min_new_tokens=2))
