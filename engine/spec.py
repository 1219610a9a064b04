"""What an engine is made of, in one value: weights, precision, limits, GPU, versions, options."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.options import check_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "SparkAudio/Spark-TTS-0.5B"

MAX_POSITIONS = 32_768
LAYERS = 24
TENSOR_PARALLEL = (1, 2)
"""Into how many parts 14 attention heads and the 4 864 columns between them can be split."""

DTYPES = ("bfloat16", "float32")
QUANTIZATIONS = {
    "none": None,
    "int8": "W8A16",
    "int4": "W4A16",
    "int4_gptq": "W4A16_GPTQ",
    "smoothquant": "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN",
    "fp8": "FP8",
}
"""What TensorRT-LLM calls each quantization in the configurations that it writes (`QuantAlgo`)."""
CALIBRATED = ("smoothquant", "fp8")
ALPHA = 0.5
"""Of smoothquant, where none is given."""
USED_BY = {
    "group_size": ("int4_gptq",),
    "disable_weight_only_quant_plugin": ("int8", "int4", "int4_gptq"),
}
"""For which of them an extra convert option counts, where not for all."""
KV_CACHES = {"auto": None, "int8": "INT8", "fp8": "FP8"}

IMAGES = {
    "25.01": "0.17.0",
    "25.02": "0.17.0.post1",
    "25.03": "0.18.0",
    "25.04": "0.18.2",
    "25.05": "0.19.0",
    "25.06": "0.20.0",
    "25.07": "0.20.0",
    "25.08": "0.21.0",
    "25.09": "1.0.0",
    "25.10": "1.0.0",
    "25.11": "1.0.3",
    "25.12": "1.1.0",
    "26.01": "1.1.0",
    "26.02": "1.1.0",
    "26.03": "1.2.0",
    "26.04": "1.2.1",
    "26.05": "1.2.1",
    "26.06": "1.2.1",
    "26.07": "1.2.1",
}
"""TensorRT-LLM's version in nvcr.io/nvidia/tritonserver:<tag>-trtllm-python-py3, by NVIDIA's
compatibility matrix. 0.17 is the first that is rendered here, 1.2.1 the last that has engines."""

CAPABILITIES = {
    "T4": (7, 5),
    "A100": (8, 0),
    "A30": (8, 0),
    "A10": (8, 6),
    "A10G": (8, 6),
    "A40": (8, 6),
    "L2": (8, 9),
    "L4": (8, 9),
    "L20": (8, 9),
    "L40": (8, 9),
    "L40S": (8, 9),
    "4090": (8, 9),
    "H20": (9, 0),
    "H100": (9, 0),
    "H200": (9, 0),
    "B200": (10, 0),
}
"""Compute capability by the word for the GPU in its name (`NVIDIA A100-SXM4-80GB`)."""

RELEASE = re.compile(r"(\d+)\.(\d+)")

BFLOAT16_CAPABILITY = (8, 0)
FP8_CAPABILITY = (8, 9)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine of Spark-TTS's language model; what cannot go together raises EngineError.

    `revision` is a commit, branch or tag of `model` on the Hub, or `local-<digest>` for a folder.
    `quantization` is one of QUANTIZATIONS (of the weights, and
    with smoothquant and fp8 of what is computed with), `kv_cache` one of KV_CACHES; what must be
    calibrated is calibrated with the data set `calibration`. `max_batch` is in requests, the
    other limits are in tokens: of a prompt, of prompt and output, of all prompts computed at
    once. `extra_convert` and `extra_build` are further options as
    (name, value), "" for a switch. The defaults are upstream's, on an L4.
    """

    model: str = MODEL
    revision: str = "main"
    dtype: str = "bfloat16"
    quantization: str = "none"
    kv_cache: str = "auto"
    calibration: str = ""
    smoothquant: float = ALPHA
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    max_batch: int = 16
    max_input: int = 1024
    max_sequence: int = MAX_POSITIONS
    max_tokens: int = 32_768
    pruned_head: bool = False
    gpu: str = "L4"
    trtllm_version: str = "0.17.0.post1"
    image: str = "25.02"
    extra_convert: tuple[tuple[str, str], ...] = ()
    extra_build: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        checks = (_names, _precision, _calibration, _unused, _limits, _parallel)
        if faults := [fault for check in checks for fault in check(self)]:
            raise EngineError("; ".join(faults))
        check_extra("convert_checkpoint.py", self.extra_convert)
        check_extra("trtllm-build", self.extra_build)

    @property
    def container(self) -> str:
        """The image to build and to serve in."""
        return f"nvcr.io/nvidia/tritonserver:{self.image}-trtllm-python-py3"

    @property
    def world_size(self) -> int:
        """How many GPUs the engine runs on."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def quantization_name(self) -> str | None:
        """TensorRT-LLM's name for the quantization, None without one."""
        return QUANTIZATIONS[self.quantization]

    @property
    def kv_cache_name(self) -> str | None:
        """TensorRT-LLM's name for the KV cache's quantization, None without one."""
        return KV_CACHES[self.kv_cache]

    def weights_key(self) -> str:
        """Return the name of the folder of the weights."""
        return f"{self.model.replace('/', '--')}@{self.revision.replace('/', '--')}"

    def checkpoint_key(self) -> str:
        """Return the name of the converted checkpoint's folder; other limits share it."""
        limits = ("max_batch", "max_input", "max_sequence", "max_tokens")
        unused = (*limits, "gpu", "image", "extra_build")
        return self._key(f"{self._kind()}-trtllm{self.trtllm_version}", unused)

    def key(self) -> str:
        """Return the name of the engine's folder: readable, and another one for any other spec."""
        name = f"{self.gpu}-{self._kind()}-b{self.max_batch}-trtllm{self.trtllm_version}"
        return self._key(name, ())

    def _kind(self) -> str:
        parts = [self.dtype] if self.quantization == "none" else [self.quantization]
        parts += [f"kv-{self.kv_cache}"] * (self.kv_cache != "auto")
        return "-".join(parts + ["pruned"] * self.pruned_head)

    def _key(self, name: str, unused: tuple[str, ...]) -> str:
        fields = {field: value for field, value in asdict(self).items() if field not in unused}
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        return f"{name}-{digest[:12]}"


def _names(spec: EngineSpec) -> Iterator[str]:
    for field, given, allowed in (
        ("quantization", spec.quantization, tuple(QUANTIZATIONS)),
        ("KV cache", spec.kv_cache, tuple(KV_CACHES)),
        ("GPU", spec.gpu, tuple(CAPABILITIES)),
        ("image", spec.image, tuple(IMAGES)),
    ):
        if given not in allowed:
            yield f"{field} '{given}' is not known; there are: {', '.join(allowed)}"
    if spec.dtype == "float16":
        yield (
            "dtype 'float16' is not allowed: Spark-TTS's language model overflows in it and "
            "speaks garbage or nothing; take bfloat16"
        )
    elif spec.dtype not in DTYPES:
        yield f"dtype '{spec.dtype}' is not known; there are: {', '.join(DTYPES)}"
    found = IMAGES.get(spec.image, spec.trtllm_version)
    if found != spec.trtllm_version:
        tags = [tag for tag, version in IMAGES.items() if version == spec.trtllm_version]
        yield (
            f"image {spec.image} has TensorRT-LLM {found}, not {spec.trtllm_version}, and an "
            "engine runs only on the version that built it; "
            + (f"take image {', '.join(tags)}" if tags else f"take version {found}")
        )


def _precision(spec: EngineSpec) -> Iterator[str]:
    capability = CAPABILITIES.get(spec.gpu, FP8_CAPABILITY)
    if spec.dtype == "bfloat16" and capability < BFLOAT16_CAPABILITY:
        yield f"{spec.gpu} cannot compute in bfloat16, which needs compute capability 8.0 or later"
    if spec.quantization == "fp8" and capability < FP8_CAPABILITY:
        yield (
            f"{spec.gpu} cannot compute in fp8, which needs compute capability 8.9 or later; "
            "there, int8 halves the weights, too"
        )
    if spec.kv_cache == "fp8" and spec.quantization != "fp8":
        yield "an fp8 KV cache goes with quantization fp8 only; take int8 or auto"
    if spec.kv_cache == "int8" and spec.quantization == "fp8":
        yield "quantization fp8 keeps its KV cache in fp8 or auto, not int8"
    if spec.pruned_head and (spec.quantization, spec.kv_cache) != ("none", "auto"):
        yield (
            "pruned_head is tried without quantization only, not with "
            f"{spec.quantization} and a KV cache of {spec.kv_cache}"
        )
    if spec.quantization == "fp8" and spec.extra_convert:
        yield "quantization fp8 is made by quantize.py, which takes no extra convert options here"


def _calibration(spec: EngineSpec) -> Iterator[str]:
    calibrated = [f"--quantization {spec.quantization}"] * (spec.quantization in CALIBRATED)
    calibrated += [f"--kv-cache {spec.kv_cache}"] * (spec.kv_cache != "auto")
    if calibrated and not spec.calibration:
        yield (
            f"{' with '.join(calibrated)} needs a data set of prompts followed by speech tokens: "
            "name it with --calibration; the tool's own, English news, never touches those tokens"
        )
    if spec.calibration and not calibrated:
        yield f"nothing here is calibrated, so calibration '{spec.calibration}' has no use"
    if not 0 <= spec.smoothquant <= 1:
        yield f"smoothquant is {spec.smoothquant:g}, allowed is 0 to 1"


def _unused(spec: EngineSpec) -> Iterator[str]:
    if spec.smoothquant != ALPHA and spec.quantization != "smoothquant":
        yield (
            f"smoothquant {spec.smoothquant:g} has no effect: it is for quantization smoothquant, "
            f"and here it is {spec.quantization}"
        )
    for name, _ in spec.extra_convert:
        used_by = USED_BY.get(name, (spec.quantization,))
        if spec.quantization not in used_by:
            yield (
                f"extra convert option {name} has no effect: it is for quantization "
                f"{', '.join(used_by)}, and here it is {spec.quantization}"
            )


def _limits(spec: EngineSpec) -> Iterator[str]:
    counts = ("max_batch", "max_input", "max_sequence", "max_tokens")
    if low := [name for name in counts if getattr(spec, name) < 1]:
        # What follows from them would be nonsense.
        yield from (f"{name} is {getattr(spec, name)}, at least 1 is needed" for name in low)
        return
    if spec.max_sequence > MAX_POSITIONS:
        yield f"max_sequence is {spec.max_sequence}, the model was made for {MAX_POSITIONS}"
    if spec.max_input >= spec.max_sequence:
        yield f"max_input ({spec.max_input}) must leave room for output in max_sequence"
    if spec.max_tokens < max(spec.max_batch, spec.max_input):
        yield (
            f"max_tokens ({spec.max_tokens}) must hold a whole prompt of {spec.max_input} and a "
            f"token of each of {spec.max_batch} requests"
        )
    elif spec.max_tokens > (most := spec.max_batch * spec.max_sequence):
        yield (
            f"max_tokens is {spec.max_tokens}, but {spec.max_batch} requests of "
            f"{spec.max_sequence} tokens are {most}, and trtllm-build takes no more; give {most} "
            "or less"
        )


def _parallel(spec: EngineSpec) -> Iterator[str]:
    if spec.tensor_parallel not in TENSOR_PARALLEL:
        allowed = ", ".join(map(str, TENSOR_PARALLEL))
        yield f"tensor_parallel is {spec.tensor_parallel}, the model's heads split into {allowed}"
    if spec.pipeline_parallel < 1 or LAYERS % spec.pipeline_parallel:
        given = spec.pipeline_parallel
        yield f"pipeline_parallel is {given}, which does not divide {LAYERS} layers"


def release_of(version: str) -> tuple[int, int]:
    """Return the two numbers that TensorRT-LLM's version begins with, zeros where it has none."""
    found = RELEASE.match(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
