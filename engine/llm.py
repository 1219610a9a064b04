"""Spark-TTS's language model as a ModelSpec, where the backend tensorrtllm does not serve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.site import TRANSFORMERS, VLLM
from speech_wire import (
    CANCEL_PARAMETER,
    DRAWS_SEEDS,
    GENERATION_OUTPUTS,
    OWN_GENERATION_INPUTS,
    ModelSpec,
)

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "llm"
MAX_RUNNING = "128"
"""The largest batch; more requests wait."""


def llm_spec(
    model_dir: Path,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    *,
    pruned_head: bool = False,
) -> ModelSpec:
    """Describe the model on transformers; `model_dir` is the checkpoint, with its folder LLM.

    `device` and `dtype` are torch's names, `threads` how many a request is computed with; with
    `pruned_head` only speech is computed once it speaks. Raises EngineError where there is no
    model in the folder.
    """
    parameters = {
        "device": device,
        "dtype": dtype,
        "threads": str(threads),
        "pruned_head": str(pruned_head).lower(),
    }
    return _spec(model_dir, {"engine": TRANSFORMERS, **parameters})


def vllm_spec(model_dir: Path, max_sequence_tokens: int, memory_fraction: float) -> ModelSpec:
    """Describe the model on vLLM, in bfloat16, which the weights were trained in.

    `max_sequence_tokens` is the longest prompt and output together, `memory_fraction` the share
    of the whole GPU's memory for weights, keys and values. Raises EngineError where there is no
    model in the folder.
    """
    parameters = {
        "engine": VLLM,
        "dtype": "bfloat16",
        "max_sequence_tokens": str(max_sequence_tokens),
        "memory_fraction": str(memory_fraction),
        "max_running": MAX_RUNNING,
    }
    return _spec(model_dir, parameters)


def _spec(model_dir: Path, parameters: dict[str, str]) -> ModelSpec:
    if not (model_dir / "LLM" / "config.json").is_file():
        raise EngineError(
            f"{model_dir} is no checkpoint of Spark-TTS: it has no LLM/config.json; "
            "`python -m engine fixture` writes one of random weights"
        )
    return ModelSpec(
        name=MODEL,
        inputs=OWN_GENERATION_INPUTS,
        outputs=GENERATION_OUTPUTS,
        # Only so that tensors have tensorrt_llm's batch dimension: a request is one sequence.
        max_batch_size=1,
        parameters={
            "model_dir": str(model_dir.absolute()),
            **parameters,
            "exclude_input_in_output": "true",
            CANCEL_PARAMETER: "true",
            DRAWS_SEEDS: "true",
        },
    )
