"""Where models run and what they find there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TRANSFORMERS = "transformers"
VLLM = "vllm"
TENSORRTLLM = "tensorrtllm"
LANGUAGE_MODELS = (TRANSFORMERS, VLLM, TENSORRTLLM)
"""The three language models that are rendered here; any other name is that of a model which is in
the repository already."""

MAX_SEQUENCE_TOKENS = 16_384
"""Half of what Qwen2.5-0.5B was made for: five minutes, and 200 MB of keys and values at most."""

LOOK_AHEAD = 67
"""All that the codec sees to the right: streamed speech is then the same as if made at once."""

FIRST_CHUNK = 25

KV_CACHE_FRACTION = 0.5
"""Of the GPU memory that is free once the engine is loaded; codec and wav2vec2 need 3 GB too. A
token takes 12 288 bytes in bfloat16, so an L4's 11 GB hold 54 sequences of 16 384."""


@dataclass(frozen=True)
class Site:
    """What models are told of their place, as far as each needs it.

    `model_dir` is a checkpoint; `llm` is TRANSFORMERS, VLLM, TENSORRTLLM or the name of a language
    model with tensorrt_llm's tensors; `engine_dir` is what trtllm-build wrote, for TENSORRTLLM, and
    `kv_cache_fraction` its share of the free GPU memory, or VLLM's of all of it; without
    `max_sequence_tokens` it is the engine's, else MAX_SEQUENCE_TOKENS; `triton_address` is this
    server's own gRPC as its models reach it; `instances` are the processes of each stage that has
    not one; `device` and `dtype` are torch's names, `threads` how many each model may compute with:
    half of the cores, since two stages compute at once, and threads that wait for a busy core make
    torch some seventeen times slower (2.2 s instead of 0.13 s for ten seconds of a tiny codec).
    With `pruned_head` TRANSFORMERS computes nothing but speech once it speaks, with `compile` the
    vocoder's kernels are joined. `look_ahead` and `first_chunk` are of Spark-TTS's windows, in
    tokens of 20 ms (`speech_backend.windows`).
    """

    model_dir: Path | None = None
    llm: str = TRANSFORMERS
    engine_dir: Path | None = None
    kv_cache_fraction: float = KV_CACHE_FRACTION
    triton_address: str = "127.0.0.1:8001"
    max_sequence_tokens: int | None = None
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = field(default_factory=lambda: max(1, len(os.sched_getaffinity(0)) // 2))
    instances: Mapping[str, int] = field(default_factory=dict)
    pruned_head: bool = False
    compile: bool = False
    look_ahead: int = LOOK_AHEAD
    first_chunk: int = FIRST_CHUNK
