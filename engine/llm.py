"""Spark-TTS's language model as a ModelSpec, for machines without the backend tensorrtllm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import EngineError
from speech_wire import CANCEL_PARAMETER, GENERATION_INPUTS, GENERATION_OUTPUTS, ModelSpec

if TYPE_CHECKING:
    from pathlib import Path


def llm_spec(
    model_dir: Path,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    *,
    pruned_head: bool = False,
) -> ModelSpec:
    """Describe the model; `model_dir` is the checkpoint, with its folder LLM.

    `device` and `dtype` are torch's names, `threads` how many a request is computed with; with
    `pruned_head` only speech is computed once it speaks. Raises EngineError where there is no
    model in the folder.
    """
    if not (model_dir / "LLM" / "config.json").is_file():
        raise EngineError(
            f"{model_dir} is no checkpoint of Spark-TTS: it has no LLM/config.json; "
            "`python -m engine fixture` writes one of random weights"
        )
    return ModelSpec(
        name="llm",
        inputs=GENERATION_INPUTS,
        outputs=GENERATION_OUTPUTS,
        # Only so that tensors have tensorrt_llm's batch dimension: a request is one sequence.
        max_batch_size=1,
        parameters={
            "model_dir": str(model_dir.absolute()),
            "device": device,
            "dtype": dtype,
            "threads": str(threads),
            "pruned_head": str(pruned_head).lower(),
            "exclude_input_in_output": "true",
            CANCEL_PARAMETER: "true",
        },
    )
