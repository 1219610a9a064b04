"""Where models run and what they find there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_SEQUENCE_TOKENS = 16_384
"""Half of what Qwen2.5-0.5B was made for: five minutes, and 200 MB of keys and values at most."""


@dataclass(frozen=True)
class Site:
    """What models are told of their place, as far as each needs it.

    `model_dir` is a checkpoint; `llm` is `transformers` or the name of a language model with
    tensorrt_llm's tensors; `triton_address` is this server's own gRPC as its models reach it;
    `device` and `dtype` are torch's names, `threads` how many each model may compute with: half
    of the cores, since two stages compute at once, and threads that wait for a busy core make
    torch some seventeen times slower (2.2 s instead of 0.13 s for ten seconds of a tiny codec).
    """

    model_dir: Path | None = None
    llm: str = "transformers"
    triton_address: str = "127.0.0.1:8001"
    max_sequence_tokens: int = MAX_SEQUENCE_TOKENS
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = field(default_factory=lambda: max(1, len(os.sched_getaffinity(0)) // 2))
