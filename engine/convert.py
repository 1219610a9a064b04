"""Turns Spark-TTS's language model into a TensorRT-LLM checkpoint, with TensorRT-LLM's scripts."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_space, make
from engine.checkpoint import check_language_model
from engine.errors import EngineError
from engine.fingerprints import digest_of, digest_whole
from engine.options import extra_arguments
from engine.pruned_head import prune_head
from engine.spec import release_of
from engine.tool import run_tool
from engine.vocabulary import read_json, read_vocabulary

if TYPE_CHECKING:
    from engine.spec import EngineSpec

PYTHON = "python3"
"""The one on PATH: in NVIDIA's images it has TensorRT-LLM, which this process need not have."""

EXAMPLES = Path("/app/examples")
CONVERT_SCRIPTS = {
    (0, 0): "qwen/convert_checkpoint.py",
    (0, 19): "models/core/qwen/convert_checkpoint.py",
}
"""Where releases keep it, below EXAMPLES, from that one on."""
QUANTIZE_SCRIPT = "quantization/quantize.py"

VERSION_CODE = "import importlib.metadata as m; print(m.version('tensorrt_llm'))"


@dataclass(frozen=True, slots=True)
class Scripts:
    """Where TensorRT-LLM's scripts are: `convert` one file, or else what `examples` holds."""

    examples: Path = EXAMPLES
    convert: Path | None = None

    def find(self, spec: EngineSpec) -> Path:
        """Return the script that makes the spec's checkpoint, whether it exists or not."""
        if self.convert is not None:
            return self.convert
        if spec.quantization == "fp8":
            return self.examples / QUANTIZE_SCRIPT
        release = release_of(spec.trtllm_version)
        return self.examples / [at for since, at in CONVERT_SCRIPTS.items() if since <= release][-1]


def convert_command(spec: EngineSpec, llm: Path, output: Path, script: Path) -> list[str]:
    """Return what makes the checkpoint of the weights in the folder `llm`."""
    folders = ["--model_dir", str(llm), "--output_dir", str(output)]
    return [PYTHON, str(script), *folders, *convert_options(spec)]


def convert_options(spec: EngineSpec) -> list[str]:
    """Return what the script is told besides its folders."""
    options = ["--dtype", spec.dtype]
    options += ["--tp_size", str(spec.tensor_parallel), "--pp_size", str(spec.pipeline_parallel)]
    options += _quantization(spec)
    if spec.calibration:
        options += ["--calib_dataset", spec.calibration]
    return options + extra_arguments(spec.extra_convert)


def _quantization(spec: EngineSpec) -> list[str]:
    if spec.quantization == "fp8":
        cache = ["--kv_cache_dtype", "fp8"] if spec.kv_cache == "fp8" else []
        return ["--qformat", "fp8", *cache]
    weight_only = ["--use_weight_only", "--weight_only_precision"]
    arguments = {
        "none": [],
        "int8": [*weight_only, "int8"],
        "int4": [*weight_only, "int4"],
        "int4_gptq": [*weight_only, "int4_gptq", "--per_group"],
        "smoothquant": ["--smoothquant", f"{spec.smoothquant:g}", "--per_channel", "--per_token"],
    }[spec.quantization]
    return [*arguments, "--int8_kv_cache"] if spec.kv_cache == "int8" else arguments


def convert(spec: EngineSpec, llm: Path, folder: Path, scripts: Scripts) -> None:
    """Make the checkpoint in `folder` of the weights in `llm`, unless it is there already.

    Raises EngineError for weights that are not Spark-TTS's or not in the spec's precision, for
    another version of TensorRT-LLM, and for what the script says when it fails.
    """
    if not spec.pruned_head:
        read_vocabulary(llm)
    config = read_json(llm / "config.json")
    _check_precision(spec, llm, config)
    check_language_model(llm)
    script = scripts.find(spec)
    made_of = {
        "weights": digest_whole(llm),
        "script": script.name,
        "options": convert_options(spec),
        **_content(spec, scripts),
    }

    def write(part: Path) -> dict[str, Any]:
        check_version(spec)
        if not script.is_file():
            raise EngineError(
                f"{script} is not there; it comes with {spec.container}, and elsewhere "
                "--convert-script names it"
            )
        size = sum(path.stat().st_size for path in llm.glob("*.safetensors"))
        check_space(part, size, "the converted checkpoint")
        run_tool(convert_command(spec, llm, part, script))
        _check_checkpoint(spec, part, config["vocab_size"])
        return {"versions": {"tensorrt_llm": spec.trtllm_version}}

    make(folder, made_of, write)


def _content(spec: EngineSpec, scripts: Scripts) -> dict[str, str]:
    """Return digests of what the options only name and what may change under that name."""
    calibration = Path(spec.calibration)
    named = {
        # The image's own scripts are those of its version.
        "script_content": scripts.convert,
        "calibration_content": calibration if spec.calibration and calibration.exists() else None,
    }
    return {name: digest_of(path) for name, path in named.items() if path is not None}


def prune(llm: Path, folder: Path) -> None:
    """Make `folder` the weights of `llm` with the speech tokens' rows alone, unless it is there."""
    make(folder, {"weights": digest_whole(llm)}, lambda part: prune_head(llm, part))


def check_version(spec: EngineSpec) -> None:
    """Raise EngineError unless PYTHON has the spec's TensorRT-LLM."""
    done = _ask_version()
    found = done.stdout.strip()
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise EngineError(
            f"TensorRT-LLM is not installed for {PYTHON} ({words}); run this in {spec.container} "
            "(docker run --gpus all)"
        )
    if found != spec.trtllm_version:
        raise EngineError(
            f"here is TensorRT-LLM {found}, the engine is to be of {spec.trtllm_version}; run this "
            f"in {spec.container}, or ask for --trtllm-version {found}"
        )


def installed_version() -> str | None:
    """Return the TensorRT-LLM that PYTHON has, None without one."""
    return _ask_version().stdout.strip() or None


def _ask_version() -> subprocess.CompletedProcess[str]:
    command = [PYTHON, "-c", VERSION_CODE]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _check_precision(spec: EngineSpec, llm: Path, config: dict[str, Any]) -> None:
    quantized = config.get("quantization_config") or {}
    given = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
    wanted = "gptq" if spec.quantization == "int4_gptq" else None
    if given != wanted:
        raise EngineError(
            f"{llm} holds {given or 'plain'} weights, quantization {spec.quantization} starts from "
            f"{wanted or 'plain'} ones"
        )


def _check_checkpoint(spec: EngineSpec, part: Path, vocabulary: int) -> None:
    config = read_json(part / "config.json")
    quantization = config.get("quantization") or {}
    for name, found, expected in (
        ("vocab_size", config.get("vocab_size"), vocabulary),
        ("dtype", config.get("dtype"), spec.dtype),
        ("quant_algo", quantization.get("quant_algo"), spec.quantization_name),
        ("kv_cache_quant_algo", quantization.get("kv_cache_quant_algo"), spec.kv_cache_name),
    ):
        if found != expected:
            raise EngineError(
                f"the converted checkpoint has {name} {json.dumps(found)}, not "
                f"{json.dumps(expected)}: was the script one for Qwen?"
            )
    files = [part / f"rank{rank}.safetensors" for rank in range(spec.world_size)]
    if missing := [path.name for path in files if not path.is_file()]:
        raise EngineError(f"the script ended without writing {', '.join(missing)}")
