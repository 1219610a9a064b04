"""Spark-TTS's language model, a Qwen2, run step by step with transformers.

Every request has its own cache and its own random numbers and is computed alone, so its tokens
are the same whatever else runs; a batch would round its sums differently. Requests share the
weights, and torch releases the interpreter's lock while it computes. On two busy cores, ids a
second with 1, 4 and 16 requests: a tiny model 465, 567, 530; one of the real size in float32 3.5,
4.2, 3.8 (one batch of 16: 51), so it is for trials and tests, and speech in real time (50) is for
vLLM and tensorrt_llm.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import DynamicCache, Qwen2ForCausalLM

from speech_backend.limits import check_generation
from speech_backend.spark import read_token_map
from speech_wire import GenerationRequest, NewIds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from speech_backend.tokens import TokenMap

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""float16 is not among them: Spark-TTS's weights overflow in it."""

GROUP_SECONDS = 0.02
"""Ids that come faster than this share a response; one of speech is heard for as long."""

WARM_UP_IDS = 64


class SpeechHead:
    """The output layer's rows for what the model may write once it speaks: experimental.

    They are 8 194 of 166 000, a third of all weights that an id costs. All other ids get minus
    infinity, as from the whole layer with a mask.
    """

    def __init__(self, weight: torch.Tensor, tokens: TokenMap) -> None:
        codes = tokens.semantic_codes
        ids = [*codes.ids(range(codes.count)).tolist(), *tokens.stop_ids]
        self.start_id = tokens.marks["start_semantic_token"]
        self._ids = torch.tensor(ids, device=weight.device)
        self._rows = weight[self._ids]
        self._vocabulary = len(weight)

    def logits(self, state: torch.Tensor) -> torch.Tensor:
        """Return what comes after `state`, float32[vocabulary]."""
        logits = torch.full((self._vocabulary,), -torch.inf, device=state.device)
        logits[self._ids] = torch.nn.functional.linear(state, self._rows).float()
        return logits


class LanguageModel:
    """Goes on from ids. Any number of threads."""

    def __init__(
        self,
        model_dir: Path,
        device: torch.device | str = "cpu",
        dtype: str = "float32",
        *,
        pruned_head: bool = False,
    ) -> None:
        """Load the folder `LLM/` of a Spark-TTS checkpoint; `dtype` is one of DTYPES.

        With `pruned_head`, what comes after `<|start_semantic_token|>` is speech or its end, and
        costs less to compute; until then a voice is written as ever.
        """
        if dtype not in DTYPES:
            raise ValueError(f"dtype is '{dtype}', allowed are {', '.join(DTYPES)}")
        model = Qwen2ForCausalLM.from_pretrained(model_dir / "LLM", local_files_only=True)
        self._model = model.to(device=device, dtype=DTYPES[dtype]).eval()
        self._speech_head: SpeechHead | None = None
        if pruned_head:
            weight = self._model.lm_head.weight.detach()
            self._speech_head = SpeechHead(weight, read_token_map(model_dir))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> LanguageModel:
        """Load and warm up what Triton's configuration says.

        `threads` is how many each request is computed with, and they are torch's of this process.
        """
        torch.set_num_threads(int(parameters["threads"]))
        model = cls(
            Path(parameters["model_dir"]),
            parameters["device"],
            parameters["dtype"],
            pruned_head=parameters.get("pruned_head") == "true",
        )
        model.warm_up()
        return model

    def warm_up(self) -> None:
        """Compute a few tokens, so that the first request costs what the second does."""
        ids = np.zeros(WARM_UP_IDS, np.int32)
        for _ in self.generate(GenerationRequest(ids, max_new_tokens=2)):
            pass

    def answer(
        self, request: GenerationRequest, clock: Callable[[], float] = time.monotonic
    ) -> Generator[NewIds, None, None]:
        """Yield what `generate` does: the first id at once, then those of GROUP_SECONDS together.

        A model that takes longer for an id gives each by itself.
        """
        ids: list[int] = []
        due = clock() if request.is_streaming else float("inf")
        for token_id in self.generate(request):
            ids.append(token_id)
            if clock() >= due:
                yield NewIds(np.array(ids, np.int32))
                ids = []
                due = clock() + GROUP_SECONDS
        if ids:
            yield NewIds(np.array(ids, np.int32))

    def generate(self, request: GenerationRequest) -> Generator[int, None, None]:
        """Yield id after id, the one that ends the output included.

        Raises InvalidInputError, before anything is computed, for what cannot be asked.
        """
        config = self._model.config
        check_generation(request, config.vocab_size, config.max_position_embeddings)
        device = self._model.device
        picker = Picker(request)
        cache = DynamicCache()
        new = torch.from_numpy(request.input_ids.astype(np.int64)).to(device)
        seen = new
        start_id = -1 if self._speech_head is None else self._speech_head.start_id
        speaks = start_id in request.input_ids
        for count in range(request.max_new_tokens):
            token_id = picker.pick(self._logits(new, cache, speaks=speaks), seen, count)
            yield token_id
            speaks = speaks or token_id == start_id
            if token_id in request.end_ids:
                return
            new = torch.tensor([token_id], device=device)
            if request.repetition_penalty != 1:
                seen = torch.cat([seen, new])

    @torch.inference_mode()
    def _logits(self, ids: torch.Tensor, cache: DynamicCache, *, speaks: bool) -> torch.Tensor:
        """Return what comes after `ids`, float32[vocabulary]."""
        # By position (after mask and positions): releases differ in what they call the cache.
        states = self._model.model(ids[None], None, None, cache, use_cache=True)
        state = states.last_hidden_state[0, -1]
        if speaks and self._speech_head is not None:
            return self._speech_head.logits(state)
        return self._model.lm_head(state).float()


class Picker:
    """Picks a request's ids, with random numbers of its own."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._ends = sorted(request.end_ids)
        self._random = torch.Generator()
        if request.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(request.seed)
        self._allowed = torch.tensor(
            [i for first, last in request.allowed_ids for i in range(first, last + 1)]
        )

    @torch.inference_mode()
    def pick(self, logits: torch.Tensor, seen: torch.Tensor, count: int) -> int:
        """Return the next id after `count` new ones; `seen` are all ids so far."""
        request = self._request
        if request.repetition_penalty != 1:
            scores = logits[seen]
            penalty = request.repetition_penalty
            logits[seen] = torch.where(scores < 0, scores * penalty, scores / penalty)
        if count < request.min_new_tokens:
            logits[self._ends] = -torch.inf
        if len(self._allowed):
            kept = logits[self._allowed]
            logits.fill_(-torch.inf)
            logits[self._allowed] = kept
        if request.top_k == 1 or request.top_k == request.top_p == 0:
            return int(logits.argmax())
        largest, ids = logits.topk(min(request.top_k or len(logits), len(logits)))
        # From here on in double precision on the CPU: it draws the same on every device.
        probabilities = (largest.double().cpu() / request.temperature).softmax(0)
        before = probabilities.cumsum(0) - probabilities
        if request.top_p > 0:
            probabilities = probabilities[before < request.top_p]
        total = probabilities.cumsum(0)
        drawn = torch.rand((), dtype=torch.float64, generator=self._random) * total[-1]
        index = torch.searchsorted(total, drawn, right=True).clamp(max=len(total) - 1)
        return int(ids[index])
