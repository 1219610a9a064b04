"""The language model with a pruned head against the whole one with a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from speech_backend.language_model import LanguageModel, Picker
from speech_backend.prompts import Prompter
from speech_backend.tokens import TokenMap
from speech_wire import GenerationRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from speech_backend.prompts import Prompt

pytestmark = pytest.mark.spark

VOICE = np.arange(32)
MOST = 60


class MaskedModel(LanguageModel):
    """The whole output layer, of which the mask leaves what the pruned one has."""

    def __init__(self, checkpoint: Path, tokens: TokenMap) -> None:
        super().__init__(checkpoint)
        codes = tokens.semantic_codes
        allowed = [*codes.ids(range(codes.count)).tolist(), *tokens.stop_ids]
        self._mask = torch.full((self._model.config.vocab_size,), -torch.inf)
        self._mask[allowed] = 0
        self._start_id = tokens.marks["start_semantic_token"]

    def generate(self, request: GenerationRequest) -> Any:
        self._speaks = self._start_id in request.input_ids
        for token_id in super().generate(request):
            yield token_id
            self._speaks = self._speaks or token_id == self._start_id

    def _logits(self, *args: Any, **_: Any) -> torch.Tensor:
        logits = super()._logits(*args, speaks=False)
        return logits + self._mask if self._speaks else logits


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Tokenizer:
    return Tokenizer.from_file(str(checkpoint / "LLM" / "tokenizer.json"))


@pytest.fixture(scope="module")
def tokens(tokenizer: Tokenizer) -> TokenMap:
    return TokenMap.from_vocabulary(tokenizer.get_vocab())


@pytest.fixture(scope="module")
def prompter(tokenizer: Tokenizer, tokens: TokenMap) -> Prompter:
    return Prompter(tokens, lambda text: tokenizer.encode(text).ids)


@pytest.fixture(scope="module")
def pruned(checkpoint: Path) -> LanguageModel:
    return LanguageModel(checkpoint, pruned_head=True)


@pytest.fixture(scope="module")
def masked(checkpoint: Path, tokens: TokenMap) -> LanguageModel:
    return MaskedModel(checkpoint, tokens)


MAKERS: dict[str, Callable[[Prompter], Prompt]] = {
    "create": lambda prompter: prompter.create_voice("Who is this?", "female", None, None),
    "clone": lambda prompter: prompter.clone("Who is this?", VOICE),
    "continue": lambda prompter: prompter.continue_reference(
        "Who is this?", "It is me.", VOICE, np.arange(5, 8192, 160)
    ),
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "as Spark-TTS": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
    "of all ids": {"temperature": 1.5, "top_p": 0.99},
    "hot": {"temperature": 40.0, "top_p": 1.0},
    "likeliest": {"top_k": 1},
    "penalty": {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "repetition_penalty": 1.3},
    "minimum": {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_new_tokens": 50},
}


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("maker", MAKERS)
def test_the_ids_are_those_of_the_whole_head_with_a_mask(
    pruned: LanguageModel,
    masked: LanguageModel,
    prompter: Prompter,
    tokens: TokenMap,
    maker: str,
    sampling: str,
) -> None:
    prompt = MAKERS[maker](prompter)
    for seed in range(2):
        ends = frozenset(tokens.stop_ids)
        request = GenerationRequest(prompt.ids, MOST, ends, seed=seed, **SAMPLINGS[sampling])

        assert list(pruned.generate(request)) == list(masked.generate(request))


def test_once_it_speaks_it_writes_speech_alone(
    checkpoint: Path, pruned: LanguageModel, prompter: Prompter, tokens: TokenMap
) -> None:
    """At a temperature at which the whole head writes anything."""
    prompt = MAKERS["continue"](prompter)
    request = GenerationRequest(prompt.ids, MOST, temperature=40.0, top_p=1.0)

    written = list(pruned.generate(request))

    allowed = {*tokens.stop_ids}
    assert all(one in tokens.semantic_codes or one in allowed for one in written)
    whole = list(LanguageModel(checkpoint).generate(request))
    assert not all(one in tokens.semantic_codes or one in allowed for one in whole)


def test_a_voice_is_still_made_up(
    pruned: LanguageModel, prompter: Prompter, tokens: TokenMap
) -> None:
    prompt = MAKERS["create"](prompter)
    request = GenerationRequest(
        prompt.ids, MOST, frozenset(tokens.stop_ids), **SAMPLINGS["as Spark-TTS"]
    )

    written = list(pruned.generate(request))

    assert sum(one in tokens.global_codes for one in written) == 32
    assert tokens.marks["start_semantic_token"] in written


class WatchedModel(LanguageModel):
    """Notes for each id whether it was written with the pruned head."""

    def _logits(self, *args: Any, speaks: bool) -> torch.Tensor:
        self.pruned = [*getattr(self, "pruned", ()), speaks]
        return super()._logits(*args, speaks=speaks)


@pytest.mark.parametrize("maker", MAKERS)
def test_the_head_is_pruned_from_the_mark_on_that_opens_the_speech(
    checkpoint: Path, prompter: Prompter, tokens: TokenMap, maker: str
) -> None:
    prompt = MAKERS[maker](prompter)
    model = WatchedModel(checkpoint, pruned_head=True)
    request = GenerationRequest(
        prompt.ids, MOST, frozenset(tokens.stop_ids), **SAMPLINGS["as Spark-TTS"]
    )

    written = list(model.generate(request))

    start = tokens.marks["start_semantic_token"]
    before = 0 if start in prompt.ids else written.index(start) + 1
    assert model.pruned == [False] * before + [True] * (len(written) - before)
    assert len(written) > before


def test_triton_says_whether_it_is_pruned(checkpoint: Path) -> None:
    parameters = {
        "model_dir": str(checkpoint),
        "device": "cpu",
        "dtype": "float32",
        "threads": str(torch.get_num_threads()),
    }

    for told, expected in ((None, False), ("false", False), ("true", True)):
        given = parameters if told is None else {**parameters, "pruned_head": told}
        model = LanguageModel.from_parameters(given)

        assert (model._speech_head is not None) is expected


def test_the_picker_never_takes_what_cannot_be() -> None:
    logits = torch.full((20,), -torch.inf)
    logits[[3, 7]] = torch.tensor([0.0, -1.0])
    picker = Picker(GenerationRequest(np.zeros(1, np.int32), 1, temperature=5.0, top_k=10))

    drawn = {picker.pick(logits.clone(), torch.zeros(0), 0) for _ in range(200)}

    assert drawn == {3, 7}
