"""The language model against transformers' own `generate`, and the random one's speech."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    Qwen2ForCausalLM,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from fakes.pb_utils import FakePbUtils, FakeRequest, FakeSender
from speech_backend.generation import CODEC
from speech_backend.guards import OutputReader
from speech_backend.language_model import LanguageModel, Picker
from speech_backend.prompts import Prompter
from speech_backend.serving import InvalidInputError, serve
from speech_backend.tokens import TOKENS_PER_SECOND, TokenMap
from speech_wire import GenerationRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from speech_backend.prompts import Prompt

pytestmark = pytest.mark.spark

VOICE = np.arange(32)
MOST = 1500


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> LanguageModel:
    return LanguageModel(checkpoint)


@pytest.fixture(scope="module")
def theirs(checkpoint: Path) -> Any:
    return Qwen2ForCausalLM.from_pretrained(checkpoint / "LLM", local_files_only=True)


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Tokenizer:
    return Tokenizer.from_file(str(checkpoint / "LLM" / "tokenizer.json"))


@pytest.fixture(scope="module")
def tokens(tokenizer: Tokenizer) -> TokenMap:
    return TokenMap.from_vocabulary(tokenizer.get_vocab())


@pytest.fixture(scope="module")
def prompter(tokenizer: Tokenizer, tokens: TokenMap) -> Prompter:
    return Prompter(tokens, lambda text: tokenizer.encode(text).ids)


def sampled(prompt: Prompt, tokens: TokenMap, seed: int = 0) -> GenerationRequest:
    """Ask as Spark-TTS's own runtimes do."""
    return GenerationRequest(
        prompt.ids,
        MOST,
        frozenset(tokens.stop_ids),
        temperature=0.8,
        top_k=50,
        top_p=0.95,
        seed=seed,
    )


MAKERS: dict[str, Callable[[Prompter], Prompt]] = {
    "create": lambda prompter: prompter.create_voice("Who is this?", "female", None, None),
    "clone": lambda prompter: prompter.clone("Who is this?", VOICE),
    "continue": lambda prompter: prompter.continue_reference(
        "Who is this?", "It is me.", VOICE, np.arange(5, 8192, 160)
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_the_random_model_speaks_for_some_seconds_and_ends(
    model: LanguageModel, prompter: Prompter, tokens: TokenMap, maker: str
) -> None:
    prompt = MAKERS[maker](prompter)
    seconds = []
    for seed in range(6):
        reader = OutputReader(tokens, prompt, MOST)
        ids = np.array(list(model.generate(sampled(prompt, tokens, seed))), np.int32)

        codes = reader.read(ids)

        assert reader.finish_reason == "stop"
        assert reader.voice().shape == (32,)
        assert len(set(codes)) > 0.6 * len(codes)
        seconds.append(len(codes) / TOKENS_PER_SECOND)
    assert 1 < np.mean(seconds) < 5


@pytest.mark.parametrize(
    "options",
    [{}, {"repetition_penalty": 1.3}, {"min_new_tokens": 60}],
    ids=["plain", "penalty", "minimum"],
)
def test_the_likeliest_ids_are_those_of_transformers_generate(
    model: LanguageModel, theirs: Any, prompter: Prompter, options: dict[str, Any]
) -> None:
    prompt = MAKERS["clone"](prompter)
    # The circle that the likeliest ids run into begins here; the output may end there.
    free = list(model.generate(GenerationRequest(prompt.ids, 90)))
    end_id = next(token_id for token_id in free if free.count(token_id) > 1)
    is_ended = "min_new_tokens" in options
    expected = theirs.generate(
        torch.from_numpy(prompt.ids.astype(np.int64))[None],
        do_sample=False,
        max_new_tokens=90,
        eos_token_id=end_id if is_ended else -1,
        pad_token_id=0,
        **{"temperature": None, "top_k": None, "top_p": None, **options},
    )[0, len(prompt.ids) :]

    ends = frozenset([end_id] if is_ended else [])
    request = GenerationRequest(prompt.ids, 90, ends, top_k=1, **options)

    assert (expected.tolist() == free) is (not options)
    assert list(model.generate(request)) == expected.tolist()


def test_ids_are_drawn_as_transformers_draws_them() -> None:
    """The probabilities that ids are drawn from, counted over many draws."""
    logits = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 2
    expected = logits[None]
    for warper in (TemperatureLogitsWarper(0.8), TopKLogitsWarper(20), TopPLogitsWarper(0.9)):
        expected = warper(None, expected)
    expected = expected.softmax(-1)[0]
    picker = Picker(
        GenerationRequest(np.zeros(1, np.int32), 1, temperature=0.8, top_k=20, top_p=0.9, seed=0)
    )

    draws = [picker.pick(logits.clone(), torch.zeros(0), 0) for _ in range(4000)]

    counts = torch.bincount(torch.tensor(draws), minlength=40)
    assert counts[expected == 0].sum() == 0
    assert (counts[expected > 0] > 0).sum() >= (expected > 0.002).sum()
    assert (counts / 4000 - expected).abs().max() < 0.03


def test_a_seed_gives_the_same_ids_whatever_else_runs(
    model: LanguageModel, prompter: Prompter, tokens: TokenMap
) -> None:
    prompt = MAKERS["clone"](prompter)
    requests = [replace(sampled(prompt, tokens, seed), max_new_tokens=60) for seed in range(8)]
    alone = [list(model.generate(request)) for request in requests]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda request: list(model.generate(request)), requests))

    assert together == alone
    assert len({tuple(ids) for ids in alone}) == 8


def test_without_a_seed_each_take_is_another(model: LanguageModel, prompter: Prompter) -> None:
    request = GenerationRequest(MAKERS["clone"](prompter).ids, 40, temperature=0.8, top_k=50)

    takes = {tuple(model.generate(request)) for _ in range(2)}

    assert len(takes) == 2


@pytest.mark.parametrize("top_k", [1, 50])
def test_nothing_is_written_but_what_is_allowed(
    model: LanguageModel, prompter: Prompter, top_k: int
) -> None:
    """Here three ids that the model would hardly ever write."""
    request = GenerationRequest(
        MAKERS["clone"](prompter).ids, 40, top_k=top_k, allowed_ids=((3, 4), (9, 9))
    )

    ids = list(model.generate(request))

    assert len(ids) == 40
    assert set(ids) <= {3, 4, 9}


def test_the_output_ends_at_its_length(model: LanguageModel) -> None:
    request = GenerationRequest(np.array([1, 2], np.int32), 7)

    assert len(list(model.generate(request))) == 7


def test_a_copy_in_bfloat16_speaks_too(
    checkpoint: Path, prompter: Prompter, tokens: TokenMap
) -> None:
    prompt = MAKERS["create"](prompter)
    reader = OutputReader(tokens, prompt, MOST)
    model = LanguageModel(checkpoint, dtype="bfloat16")

    reader.read(np.array(list(model.generate(sampled(prompt, tokens))), np.int32))

    assert reader.finish_reason == "stop"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"input_ids": np.array([1, -1], np.int32)}, "input_ids are -1 to 1; allowed are 0 to"),
        ({"input_ids": np.array([10**6], np.int32)}, "input_ids are 1000000 to"),
        ({"end_ids": frozenset([-1])}, "end ids hold -1; allowed are 0 to"),
        ({"max_new_tokens": 0}, "request_output_len is 0, at least 1"),
        ({"max_new_tokens": 32_768}, "after 2 input_ids there is room for 32766"),
        ({"temperature": 0.0}, "temperature is 0.0, above 0"),
        ({"temperature": float("nan")}, "temperature is nan, above 0"),
        ({"top_k": -1}, "runtime_top_k is -1"),
        ({"top_p": 1.1}, "runtime_top_p is 1.1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, above 0"),
    ],
)
def test_what_cannot_be_asked_is_said(
    model: LanguageModel, wrong: dict[str, Any], words: str
) -> None:
    request = replace(GenerationRequest(np.array([1, 2], np.int32), 5), **wrong)

    with pytest.raises(InvalidInputError, match=words):
        next(model.generate(request))


def test_an_unknown_dtype_is_refused(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match="dtype is 'float16', allowed are float32, bfloat16"):
        LanguageModel(checkpoint, dtype="float16")


def groups(model: LanguageModel, seconds_per_id: float, *, is_streaming: bool) -> list[int]:
    """Return how many ids each answer to a request for 10 has; a look at the clock takes a step."""
    now = iter(np.arange(100) * seconds_per_id)
    request = GenerationRequest(np.array([1, 2], np.int32), 10, is_streaming=is_streaming)
    return [len(new.ids) for new in model.answer(request, clock=lambda: float(next(now)))]


def test_ids_that_come_fast_share_answers_but_the_first_is_sent_at_once(
    model: LanguageModel,
) -> None:
    assert groups(model, 0.004, is_streaming=True) == [1, 5, 4]


def test_ids_that_come_slowly_are_sent_one_by_one(model: LanguageModel) -> None:
    assert groups(model, 0.03, is_streaming=True) == [1] * 10


def test_without_streaming_all_ids_come_in_one_answer(model: LanguageModel) -> None:
    assert groups(model, 0.03, is_streaming=False) == [10]


def tensors(**more: Any) -> dict[str, Any]:
    return {
        "input_ids": np.array([[1, 2]], np.int32),
        "input_lengths": np.array([[2]], np.int32),
        "request_output_len": np.array([[30]], np.int32),
        "streaming": np.array([[True]]),
        **more,
    }


def test_a_request_is_answered_in_tensorrt_llms_tensors(model: LanguageModel) -> None:
    request = FakeRequest(tensors())

    outcome = serve(FakePbUtils(), request, model.answer, threading.Event(), CODEC)

    sent = [chunk["output_ids"] for chunk in request.sender.chunks]
    lengths = [chunk["sequence_length"].item() for chunk in request.sender.chunks]
    expected = model.generate(GenerationRequest(np.array([1, 2], np.int32), 30))
    assert (outcome, request.sender.finals) == ("finished", 1)
    assert np.concatenate(sent, axis=2).ravel().tolist() == list(expected)
    assert lengths == [ids.shape[2] for ids in sent]


def test_a_request_that_is_cancelled_stops(model: LanguageModel) -> None:
    request = FakeRequest(
        tensors(request_output_len=np.array([[30_000]], np.int32)), FakeSender(cancel_after=2)
    )

    outcome = serve(FakePbUtils(), request, model.answer, threading.Event(), CODEC)

    assert (outcome, len(request.sender.chunks)) == ("cancelled", 2)
    assert request.sender.finals == 1
