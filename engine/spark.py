"""Spark-TTS's models: the front that callers know, and the stages behind it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.checkpoint import BICODEC_WEIGHTS, check_checkpoint
from engine.errors import EngineError
from engine.llm import llm_spec, vllm_spec
from engine.site import LOOK_AHEAD, MAX_SEQUENCE_TOKENS, TENSORRTLLM, TRANSFORMERS, VLLM
from engine.spec import MAX_POSITIONS
from engine.tensorrtllm import read_engine, tensorrtllm_spec
from engine.vocabulary import read_json
from speech_wire import CANCEL_PARAMETER, INPUTS, OUTPUTS, ModelSpec, Queue, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.site import Site

SAMPLE_RATE_HZ = "16000"

SPOKEN_TOKENS = 60
"""Of a character at most (`speech_backend.prompts`): a digit is a word of 0.4 s, three times that
if it is acted, 50 tokens a second."""

WRITTEN_TOKENS = 4
"""Of a character at most, in UTF-8."""

SILENCE_TOKENS = 101
PROMPT_TOKENS = 59
"""The prompt's marks and the voice are 47 at most."""

REFERENCE_TOKENS = 30 * (50 + 15)
"""The longest recording that the gateway takes: 50 tokens a second, and 15 of its transcript."""

SHORTEST_TEXT = 16

MAX_FIRST_CHUNK = 250
"""The largest chunk of all."""

MAX_WINDOWS_AT_ONCE = 16
WAITING = Queue(requests=256, seconds=60.0)
"""Twice what a front speaks at once (`speech_backend.stages.AT_ONCE`); after 60 s it does not wait
for a window any more."""

HASHED_BYTES = 2**20


def spark_specs(site: Site) -> tuple[ModelSpec, ...]:
    """Return the stages and then the front; raises EngineError without a complete checkpoint."""
    if site.model_dir is None:
        raise EngineError(
            "model 'spark_tts' needs a checkpoint: --model-dir with the folder of Spark-TTS-0.5B"
        )
    folder = site.model_dir.resolve()
    check_checkpoint(folder, needs_llm=site.llm in (TRANSFORMERS, VLLM))
    _check_windows(site)
    llm, room = _language_model(site, folder)
    stages = (*llm, _vocoder(site, folder), _audio_tokenizer(site, folder))
    front = _front(site, folder, llm[0].name if llm else site.llm, room)
    return (*_with_instances(stages, site.instances), front)


@dataclass(frozen=True)
class Room:
    """What a language model holds: prompt and output together, and the prompt alone."""

    sequence_tokens: int
    prompt_tokens: int

    def max_text_characters(self) -> int:
        """Return how long a text may be so that it fits with its speech and a reference.

        It is for the worst text, all digits, and the longest reference: then nothing that is
        sent is refused for its length. Raises EngineError where too little is left.
        """
        given = PROMPT_TOKENS + REFERENCE_TOKENS
        rest = self.sequence_tokens - given - SILENCE_TOKENS
        characters = min(
            rest // (SPOKEN_TOKENS + WRITTEN_TOKENS), (self.prompt_tokens - given) // WRITTEN_TOKENS
        )
        if characters < SHORTEST_TEXT:
            least = given + SHORTEST_TEXT * WRITTEN_TOKENS
            raise EngineError(
                f"sequences of {self.sequence_tokens} tokens with prompts of {self.prompt_tokens} "
                "are too short for a text, its speech and a reference of 30 s: at least "
                f"{least + SILENCE_TOKENS + SHORTEST_TEXT * SPOKEN_TOKENS} and {least} are needed, "
                f"{MAX_SEQUENCE_TOKENS} and 8192 are usual (trtllm-build --max_seq_len, "
                "--max_num_tokens)"
            )
        return characters


def _language_model(site: Site, folder: Path) -> tuple[tuple[ModelSpec, ...], Room]:
    """Return the model, or none where there is one already, and what it holds."""
    most = site.max_sequence_tokens
    if site.pruned_head and site.llm != TRANSFORMERS:
        raise EngineError(
            f"--pruned-head is for --llm {TRANSFORMERS}; an engine would have to be built so"
        )
    if site.llm == VLLM:
        if site.device == "cpu":
            raise EngineError(f"--llm {VLLM} needs a CUDA GPU: --device cuda")
        most = _sequence_tokens(folder, most)
        return (vllm_spec(folder, most, site.kv_cache_fraction),), Room(most, most)
    if site.llm != TENSORRTLLM:
        # What the codec computes in half precision, the language model does in its own.
        dtype = "bfloat16" if site.dtype == "float16" else site.dtype
        compute = (site.device, dtype, site.threads)
        own = (llm_spec(folder, *compute, pruned_head=site.pruned_head),)
        most = _sequence_tokens(folder, most)
        return own if site.llm == TRANSFORMERS else (), Room(most, most)
    if site.engine_dir is None:
        raise EngineError(
            f"--llm {TENSORRTLLM} needs --engine-dir, the folder that trtllm-build wrote"
        )
    engine = read_engine(site.engine_dir)
    rows = read_json(folder / "LLM" / "config.json").get("vocab_size")
    if engine.vocabulary != rows:
        raise EngineError(
            f"the engine in {engine.folder} has a vocabulary of {engine.vocabulary}, the language "
            f"model in {folder} one of {rows}: it is another model's; build one of these weights"
        )
    if most is not None and most > engine.max_sequence_tokens:
        raise EngineError(
            f"--max-sequence-tokens is {most}, the engine in {engine.folder} was built for "
            f"{engine.max_sequence_tokens} (trtllm-build --max_seq_len)"
        )
    spec = tensorrtllm_spec(engine, site.kv_cache_fraction)
    return (spec,), Room(most or engine.max_sequence_tokens, engine.max_prompt_tokens)


def _sequence_tokens(folder: Path, wanted: int | None) -> int:
    """Return how long a sequence may be; raises EngineError for more than the model was made for.

    vLLM would not start, and transformers would speak what it has never learnt.
    """
    made_for = read_json(folder / "LLM" / "config.json").get("max_position_embeddings")
    most = made_for if isinstance(made_for, int) else MAX_POSITIONS
    if wanted is not None and wanted > most:
        raise EngineError(
            f"--max-sequence-tokens is {wanted}, the language model in {folder} was made for {most}"
        )
    return wanted or min(MAX_SEQUENCE_TOKENS, most)


def _check_windows(site: Site) -> None:
    if not 1 <= site.look_ahead <= LOOK_AHEAD:
        raise EngineError(f"--look-ahead is {site.look_ahead}, allowed are 1 to {LOOK_AHEAD}")
    if not 1 <= site.first_chunk <= MAX_FIRST_CHUNK:
        raise EngineError(
            f"--first-chunk is {site.first_chunk}, allowed are 1 to {MAX_FIRST_CHUNK}"
        )


def _with_instances(
    specs: tuple[ModelSpec, ...], instances: Mapping[str, int]
) -> tuple[ModelSpec, ...]:
    # A request that stops another must reach the process that has it, so those models have one.
    possible = {spec.name for spec in specs if not spec.decoupled}
    if wrong := sorted(set(instances) - possible):
        raise EngineError(
            f"model '{wrong[0]}' cannot have several instances; these can: "
            f"{', '.join(sorted(possible))}"
        )
    return tuple(replace(spec, instances=instances.get(spec.name, 1)) for spec in specs)


def _front(site: Site, folder: Path, llm: str, room: Room) -> ModelSpec:
    inputs = {"voice", "speed"}
    return ModelSpec(
        name="spark_tts",
        inputs=tuple(spec for spec in INPUTS if spec.name not in inputs),
        outputs=OUTPUTS,
        parameters={
            "model_dir": str(folder),
            "triton_address": site.triton_address,
            "llm": llm,
            "vocoder": "vocoder",
            "audio_tokenizer": "audio_tokenizer",
            "look_ahead": str(site.look_ahead),
            "first_chunk": str(site.first_chunk),
            "max_sequence_tokens": str(room.sequence_tokens),
            "max_text_characters": str(room.max_text_characters()),
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "checkpoint": _checkpoint(folder),
            CANCEL_PARAMETER: "true",
        },
    )


def _vocoder(site: Site, folder: Path) -> ModelSpec:
    return ModelSpec(
        name="vocoder",
        inputs=(
            TensorSpec("semantic_tokens", "INT32", (-1,), optional=False),
            TensorSpec("length", "INT32", (1,), optional=False),
            TensorSpec("kept_tokens", "INT32", (2,), optional=False),
            TensorSpec("global_tokens", "INT32", (32,), optional=False),
        ),
        outputs=(TensorSpec("waveform", "FP32", (-1,), optional=False),),
        decoupled=False,
        max_batch_size=MAX_WINDOWS_AT_ONCE,
        batches_dynamically=True,
        queue=WAITING,
        parameters={**_compute(site, folder), "compile": str(site.compile).lower()},
    )


def _audio_tokenizer(site: Site, folder: Path) -> ModelSpec:
    return ModelSpec(
        name="audio_tokenizer",
        inputs=(
            TensorSpec("reference_wav", "FP32", (-1,), optional=False),
            TensorSpec("reference_wav_len", "INT32", (1,), optional=False),
        ),
        outputs=(
            TensorSpec("global_tokens", "INT32", (32,), optional=False),
            TensorSpec("semantic_tokens", "INT32", (-1,), optional=False),
        ),
        decoupled=False,
        parameters=_compute(site, folder),
    )


def _compute(site: Site, folder: Path) -> dict[str, str]:
    return {
        "model_dir": str(folder),
        "device": site.device,
        "dtype": site.dtype,
        "threads": str(site.threads),
        "checkpoint": _checkpoint(folder),
    }


def _checkpoint(folder: Path) -> str:
    """Return what tells these weights from others: tokens of one codec mean nothing to another.

    The names and places of all tensors and the first of their values, instead of gigabytes.
    """
    weights = folder / BICODEC_WEIGHTS
    with weights.open("rb") as file:
        head = file.read(HASHED_BYTES)
    return hashlib.sha256(head + str(weights.stat().st_size).encode()).hexdigest()[:16]
