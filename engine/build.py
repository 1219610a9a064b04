"""Builds the engine of a checkpoint with trtllm-build, and reads what an engine says of itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_space, make, read_manifest
from engine.convert import check_version
from engine.errors import EngineError
from engine.fingerprints import digest
from engine.gpu import check_gpu, is_named
from engine.options import extra_arguments
from engine.tool import run_tool
from engine.vocabulary import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from engine.spec import EngineSpec

TRTLLM_BUILD = "trtllm-build"


def build_command(spec: EngineSpec, checkpoint: Path, output: Path) -> list[str]:
    """Return what builds the engine."""
    folders = ["--checkpoint_dir", str(checkpoint), "--output_dir", str(output)]
    # Else it would lie wherever this is run.
    folders += ["--output_timing_cache", str(output / "model.cache")]
    return [TRTLLM_BUILD, *folders, *build_options(spec)]


def build_options(spec: EngineSpec) -> list[str]:
    """Return what trtllm-build is told besides its folders."""
    options = ["--max_batch_size", str(spec.max_batch), "--max_input_len", str(spec.max_input)]
    options += ["--max_seq_len", str(spec.max_sequence), "--max_num_tokens", str(spec.max_tokens)]
    options += ["--gemm_plugin", "fp8" if spec.quantization == "fp8" else spec.dtype]
    # Releases from 0.19 on would enable it.
    options += ["--use_paged_context_fmha", "disable"]
    if spec.pruned_head:
        # A prompt's tokens have no rows of their own any more: their embeddings come along.
        options += ["--max_prompt_embedding_table_size", str(spec.max_batch * spec.max_input)]
    return options + extra_arguments(spec.extra_build)


def build(spec: EngineSpec, checkpoint: Path, folder: Path) -> None:
    """Build the engine in `folder`, unless it is there already.

    Raises EngineError without the spec's GPU or version, and for what the tool says when it fails.
    """
    read_manifest(checkpoint)
    made_of = {"checkpoint": digest(checkpoint), "gpu": spec.gpu, "options": build_options(spec)}

    def write(part: Path) -> dict[str, Any]:
        gpu, visible = check_gpu(spec)
        check_version(spec)
        size = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors"))
        check_space(part, size, "the engine")
        run_tool(build_command(spec, checkpoint, part), visible)
        check_engine(spec, part)
        versions = {"tensorrt_llm": spec.trtllm_version, "driver": gpu.driver}
        return {"versions": versions, "gpu": gpu.name}

    make(folder, made_of, write)
    check_engine(spec, folder)


def check_engine(spec: EngineSpec, engine: Path) -> None:
    """Raise EngineError if the engine in a folder is not the one that the spec describes."""
    config = read_json(engine / "config.json")
    for path, expected in expected_config(spec).items():
        found: Any = config
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if found != expected:
            raise EngineError(
                f"{engine} is another engine: its {path} is {json.dumps(found)}, the spec's "
                f"{json.dumps(expected)}; remove the folder and build it again, or change the spec"
            )
    _check_built_on(spec, engine, config)
    files = [engine / f"rank{rank}.engine" for rank in range(spec.world_size)]
    if missing := [path.name for path in files if not path.is_file() or not path.stat().st_size]:
        raise EngineError(f"{engine} lacks {', '.join(missing)}, or they are empty; build it again")


def expected_config(spec: EngineSpec) -> dict[str, Any]:
    """Return what the spec decides of the configuration that trtllm-build writes, by path."""
    return {
        "version": spec.trtllm_version,
        "pretrained_config.dtype": spec.dtype,
        "pretrained_config.quantization.quant_algo": spec.quantization_name,
        "pretrained_config.quantization.kv_cache_quant_algo": spec.kv_cache_name,
        "pretrained_config.mapping.tp_size": spec.tensor_parallel,
        "pretrained_config.mapping.pp_size": spec.pipeline_parallel,
        "build_config.max_batch_size": spec.max_batch,
        "build_config.max_input_len": spec.max_input,
        "build_config.max_seq_len": spec.max_sequence,
        "build_config.max_num_tokens": spec.max_tokens,
        "build_config.plugin_config.use_paged_context_fmha": False,
    }


def built_on(config: dict[str, Any]) -> str | None:
    """Return what an engine's configuration calls its GPU, None where it names none.

    It is the tool's word for it: `L4`, `A100-SXM-80GB`, `Tesla-T4`.
    """
    key: Any = config
    for name in ("build_config", "auto_parallel_config", "cluster_key"):
        key = key.get(name) if isinstance(key, dict) else None
    return None if key is None else str(key)


def _check_built_on(spec: EngineSpec, engine: Path, config: dict[str, Any]) -> None:
    gpu = built_on(config)
    if gpu is not None and not is_named(gpu, spec.gpu):
        raise EngineError(
            f"{engine} was built on {gpu}, not on {spec.gpu}, and an engine runs only on the "
            "GPU that it was built for; build it there, or name that GPU with --gpu"
        )
