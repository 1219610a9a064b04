"""What gpu_llm asks of the language model, and how it listens."""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer

from speech_backend.prompts import Prompter
from speech_backend.tokens import TokenMap
from speech_backend.vllm_engine.start import sampling_params
from speech_wire import GenerationRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from speech_backend.prompts import Prompt
    from speech_backend.vllm_engine.model import VllmModel

VARIANTS = (
    ("bare engine", False, {}),
    ("adapter", True, {}),
    ("bare engine, seeds", False, {"seeded": True}),
    ("adapter, seeds", True, {"seeded": True}),
    ("bare engine, semantic ids", False, {"semantic": True}),
    ("adapter, semantic ids", True, {"semantic": True}),
    ("adapter, seeds, semantic ids", True, {"seeded": True, "semantic": True}),
)
WORDS = ("quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards")
NAMES = map(str, itertools.count())


@dataclass
class Run:
    """What one request wrote, and when; `gaps` are between the two likeliest ids, in log p."""

    ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def add(self, ids: Sequence[int]) -> None:
        """Note what has just come."""
        self.ids += ids
        self.times.append(time.monotonic())


class Asks:
    """Requests for the checkpoint in a folder."""

    def __init__(self, folder: Path) -> None:
        tokenizer = Tokenizer.from_file(str(folder / "LLM" / "tokenizer.json"))
        self._tokens = TokenMap.from_vocabulary(tokenizer.get_vocab())
        self._prompter = Prompter(
            self._tokens, lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        )
        self._random = np.random.default_rng(5)

    def greedy(self, count: int, new_ids: int) -> list[GenerationRequest]:
        """Return requests for the likeliest ids, which have no end of their own."""
        return [
            GenerationRequest(self._prompt().ids, new_ids, top_k=1, is_streaming=True)
            for _ in range(count)
        ]

    def sampled(
        self,
        count: int,
        new_ids: int,
        *,
        prompt_ids: int = 0,
        seeded: bool = False,
        semantic: bool = False,
    ) -> list[GenerationRequest]:
        """Return requests that sample as Spark-TTS's runtimes do."""
        codes = self._tokens.semantic_codes
        allowed = ((codes.first_id, codes.first_id + codes.count - 1),) if semantic else ()
        sampling = {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "is_streaming": True}
        return [
            GenerationRequest(
                self._padded(prompt_ids),
                new_ids,
                seed=seed + 1 if seeded else None,
                allowed_ids=allowed,
                **sampling,
            )
            for seed in range(count)
        ]

    def impossible(self, room: int) -> dict[str, GenerationRequest]:
        """Return what must be refused, by name."""
        right = self.greedy(1, 60)[0]
        length = len(right.input_ids)
        return {
            "a prompt that is too long": replace(right, input_ids=np.ones(room, np.int32)),
            "an output that is too long": replace(right, max_new_tokens=room - length + 1),
            "an id that is none": replace(right, input_ids=np.full(5, 10**6, np.int32)),
            "a temperature of 3": replace(right, top_k=5, temperature=3.0),
        }

    def _prompt(self) -> Prompt:
        text = " ".join(self._random.choice(WORDS, self._random.integers(5, 40)))
        voice = self._random.integers(0, 4096, 32).astype(np.int32)
        spoken = self._random.integers(0, 8192, 100).astype(np.int32)
        if self._random.random() < 0.5:
            return self._prompter.clone(text, voice)
        return self._prompter.continue_reference(text, "It is me.", voice, spoken)

    def _padded(self, length: int) -> Any:
        ids = self._prompt().ids
        return np.concatenate([np.ones(max(0, length - len(ids)), np.int32), ids])


async def adapted(model: VllmModel, request: GenerationRequest) -> Run:
    """Listen to the adapter."""
    run = Run()
    async with aclosing(model.generate(request)) as answers:
        async for new in answers:
            run.add(new.ids.tolist())
    return run


async def bare(engine: Any, request: GenerationRequest, log_probabilities: int = 0) -> Run:
    """Listen to the engine itself."""
    run, params = Run(), sampling_params(request)
    if log_probabilities:
        params.logprobs = log_probabilities
    prompt = {"type": "token", "prompt_token_ids": request.input_ids.tolist()}
    async for output in engine.generate(prompt, params, f"bare-{next(NAMES)}"):
        (written,) = output.outputs
        run.add(written.token_ids)
        for token_id, found in zip(written.token_ids, written.logprobs or (), strict=False):
            best = sorted((one.logprob for one in found.values()), reverse=True)
            run.log_p.append(found[token_id].logprob)
            run.gaps.append(best[0] - best[1])
    return run


async def with_gaps(engine: Any, request: GenerationRequest) -> Run:
    """Listen to the engine alone, with how sure it was of each id."""
    return await bare(engine, request, log_probabilities=2)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return where two outputs differ, up to the end of the shorter one."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


def pace(runs: Sequence[Run], began: float) -> dict[str, float]:
    """Return how fast requests that began together wrote."""
    ids = sum(len(run.ids) for run in runs)
    ended = max(run.times[-1] for run in runs)
    steps = [(run.times[-1] - run.times[0]) / (len(run.ids) - 1) for run in runs]
    messages = sum(len(run.times) for run in runs)
    return {
        "first id ms": 1000 * statistics.median(run.times[0] - began for run in runs),
        "ms between ids": 1000 * statistics.median(steps),
        "ids a second": ids / (ended - began),
        "messages a second": messages / (ended - began),
    }


def table(found: Any) -> str:
    """Return figures as a table in Markdown."""
    if isinstance(found, str):
        return found
    rows = found if isinstance(found, list) else [found]
    lines = [" | ".join(rows[0]), " | ".join("---" for _ in rows[0])]
    for row in rows:
        shown = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append(" | ".join(shown))
    return "\n".join(f"| {line} |" for line in lines)


def compared(run: Run, right: torch.Tensor, rounded: torch.Tensor) -> dict[str, Any]:
    """Compare ids and log p with transformers' in float32 and in bfloat16, both float[ids, all]."""
    ids = torch.tensor(run.ids)
    off = (right.argmax(-1) != ids).nonzero().ravel().tolist()
    top = right.topk(2).values
    chosen = right.gather(1, ids[:, None]).ravel()
    near = rounded.gather(1, ids[:, None]).ravel()
    return {
        "ids": len(ids),
        "first other than float32's": off[0] if off else None,
        "others": len(off),
        "its gap there": (top[off[0], 0] - top[off[0], 1]).item() if off else None,
        "others than transformers' bfloat16": int((rounded.argmax(-1) != ids).sum()),
        "error of log p": (torch.tensor(run.log_p) - chosen).abs().max().item(),
        "error of transformers": (near - chosen).abs().max().item(),
    }
