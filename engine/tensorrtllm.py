"""Spark-TTS's language model as a TensorRT-LLM engine, run by the backend tensorrtllm.

What the backend is told differs by release; an engine runs only in the release that built it, so
the engine's own configuration says which. All names are from upstream's config.pbtxt and the
backend's source (inflight_batcher_llm, 0.17 to 1.2). A parameter of it that is neither in
PARAMETERS nor in RELEASES is left out on purpose, and the backend takes its default.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_manifest
from engine.errors import EngineError
from engine.fingerprints import MANIFEST
from engine.spec import IMAGES, release_of
from engine.vocabulary import read_json
from speech_wire import GENERATION_INPUTS, GENERATION_OUTPUTS, ModelSpec, Queue, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODEL = "tensorrt_llm"
ENGINE_FILES = ("config.json", "rank0.engine")
BACKEND = "tensorrtllm"
KNOWN = frozenset(release_of(version) for version in IMAGES.values())
"""The releases after 1.2 have no engines any more."""

OLD_NAMES = ("random_seed", "min_length")
NEW_NAMES = ("seed", "min_tokens")

PARAMETERS = {
    "gpt_model_type": "inflight_fused_batching",
    "max_beam_width": "1",
    "decoding_mode": "top_k_top_p",
    "exclude_input_in_output": "true",
    # A request starts only when its longest output has room: none is ever put aside half spoken.
    "batch_scheduler_policy": "guaranteed_no_evict",
    # Prompts share one token before the text, so there is nothing to use again; unset, it is on.
    "enable_kv_cache_reuse": "false",
    "enable_chunked_context": "false",
    "normalize_log_probs": "false",
    "cancellation_check_period_ms": "100",
    "stats_check_period_ms": "100",
    "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
    "executor_worker_path": "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker",
}

# The backend asks for these without a default; what is empty is off.
GUIDED_DECODING = {
    "guided_decoding_backend": "",
    "tokenizer_dir": "",
    "xgrammar_tokenizer_info_path": "",
}

WAITING = Queue(requests=256, seconds=30.0)
"""Twice what a front speaks at once (`speech_backend.stages.AT_ONCE`); after 30 s without a token
it gives a request up."""


@dataclass(frozen=True, slots=True)
class Release:
    """What the backend of a release of TensorRT-LLM wants, from version `since` on."""

    since: tuple[int, int]
    names: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)


RELEASES = (
    Release((0, 17), OLD_NAMES),
    Release((0, 19), OLD_NAMES, GUIDED_DECODING),
    # Between these two the tensors got other names. A backend ignores those it does not know.
    Release((0, 20), (*OLD_NAMES, *NEW_NAMES), GUIDED_DECODING),
    Release((1, 2), NEW_NAMES, GUIDED_DECODING),
)


@dataclass(frozen=True, slots=True)
class Engine:
    """A folder that trtllm-build wrote: `max_sequence_tokens` is prompt and output together.

    A prompt alone may have `max_prompt_tokens`, since it is read in one step (`max_num_tokens`;
    `max_input_len` is no limit where padding is removed). `vocabulary` is how many ids its model
    has.
    """

    folder: Path
    version: str
    vocabulary: int
    max_batch_size: int
    max_sequence_tokens: int
    max_prompt_tokens: int

    def release(self) -> Release:
        """Return what its release wants; raises EngineError for one that is not known."""
        version = release_of(self.version)
        if version not in KNOWN:
            known = ", ".join(f"{major}.{minor}" for major, minor in sorted(KNOWN))
            raise EngineError(
                f"{self.folder} was built by TensorRT-LLM {self.version}, known are {known}; build "
                "it in the image of one of these"
            )
        return [release for release in RELEASES if release.since <= version][-1]


def read_engine(folder: Path) -> Engine:
    """Read the configuration that lies beside the engine, and its manifest, where it has one.

    Raises EngineError where there is no engine, or one that is not whole or cannot speak.
    """
    _check_files(folder)
    config = read_json(folder / "config.json")
    try:
        model, build = config["pretrained_config"], config["build_config"]
        engine = Engine(
            folder.resolve(),
            _text(config, "version"),
            _count(model, "vocab_size"),
            _count(build, "max_batch_size"),
            _count(build, "max_seq_len"),
            _count(build, "max_num_tokens"),
        )
        _check_build(folder, model, build)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"{folder}/config.json is no configuration of an engine: {error!r}; build it again"
        ) from error
    engine.release()
    return engine


def _check_files(folder: Path) -> None:
    if missing := [name for name in ENGINE_FILES if not (folder / name).exists()]:
        raise EngineError(
            f"{folder} is no engine of TensorRT-LLM: it lacks {', '.join(missing)}; "
            "--engine-dir is the folder that trtllm-build wrote"
        )
    # What trtllm-build wrote on its own has none.
    if (folder / MANIFEST).exists():
        listed = check_manifest(folder, "build it again")["files"]
        if unknown := [name for name in ENGINE_FILES if name not in listed]:
            raise EngineError(
                f"{folder / MANIFEST} does not list {', '.join(unknown)}; build the engine again"
            )
    if (folder / ENGINE_FILES[1]).is_dir():
        raise EngineError(f"{folder / ENGINE_FILES[1]} is a folder; build the engine again")
    if not (folder / ENGINE_FILES[1]).stat().st_size:
        raise EngineError(
            f"{folder} is no whole engine: {ENGINE_FILES[1]} is empty; build it again"
        )


def _text(values: Mapping[str, Any], name: str) -> str:
    text = values[name]
    if not isinstance(text, str):
        raise TypeError(f"{name} is {json.dumps(text)}")
    return text


def _count(values: Mapping[str, Any], name: str) -> int:
    count = values[name]
    if type(count) is not int or count < 1:
        raise ValueError(f"{name} is {json.dumps(count)}")
    return count


def _check_build(folder: Path, model: Mapping[str, Any], build: Mapping[str, Any]) -> None:
    plugins, mapping = build.get("plugin_config", {}), model.get("mapping", {})
    wanted = {
        # Spark-TTS's weights overflow in float16.
        "dtype": (model["dtype"], ("bfloat16", "float32")),
        "kv_cache_type": (build.get("kv_cache_type", "PAGED"), ("PAGED", "paged")),
        "remove_input_padding": (plugins.get("remove_input_padding", True), (True,)),
        "world_size": (mapping.get("world_size", 1), (1,)),
    }
    for name, (given, allowed) in wanted.items():
        if given not in allowed:
            raise EngineError(
                f"{folder} was built with {name} {given}, possible is "
                f"{' or '.join(map(str, allowed))}; convert and build it again"
            )


def tensorrtllm_spec(engine: Engine, kv_cache_fraction: float) -> ModelSpec:
    """Describe the model; its pool of keys and values takes a fraction of the free GPU memory.

    Raises EngineError for a release that is not known.
    """
    release = engine.release()
    return ModelSpec(
        name=MODEL,
        backend=BACKEND,
        inputs=(*_inputs(release), TensorSpec("exclude_input_in_output", "BOOL", (1,))),
        outputs=GENERATION_OUTPUTS,
        max_batch_size=engine.max_batch_size,
        batches_dynamically=True,
        queue=WAITING,
        parameters={
            **PARAMETERS,
            **release.parameters,
            "gpt_model_path": str(engine.folder),
            "kv_cache_free_gpu_mem_fraction": f"{kv_cache_fraction:g}",
        },
    )


def _inputs(release: Release) -> tuple[TensorSpec, ...]:
    others = {*OLD_NAMES, *NEW_NAMES} - set(release.names)
    return tuple(tensor for tensor in GENERATION_INPUTS if tensor.name not in others)
