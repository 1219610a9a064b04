"""Writes a Triton model repository from ModelSpecs, through Triton's own protobuf."""

from __future__ import annotations

import shutil
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from engine.artefacts import swap_together, unfinished
from engine.errors import EngineError
from engine.tensorrtllm import BACKEND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from speech_wire import ModelSpec, TensorSpec

CONFIG = "config.pbtxt"
TRITON_TYPES = {
    "BOOL": model_config_pb2.TYPE_BOOL,
    "BYTES": model_config_pb2.TYPE_STRING,
    "FP32": model_config_pb2.TYPE_FP32,
    "INT32": model_config_pb2.TYPE_INT32,
    "INT64": model_config_pb2.TYPE_INT64,
    "UINT64": model_config_pb2.TYPE_UINT64,
}


def model_config(spec: ModelSpec) -> model_config_pb2.ModelConfig:
    """Return Triton's configuration of a model."""
    config = model_config_pb2.ModelConfig(
        name=spec.name, backend=spec.backend, max_batch_size=spec.max_batch_size
    )
    config.model_transaction_policy.decoupled = spec.decoupled
    for tensor in spec.inputs:
        config.input.add(**_tensor(tensor), optional=tensor.optional)
    for tensor in spec.outputs:
        config.output.add(**_tensor(tensor))
    config.instance_group.add(
        count=spec.instances, kind=model_config_pb2.ModelInstanceGroup.KIND_CPU
    )
    if spec.batches_dynamically:
        # Without a delay: what came while the last batch was computed makes the next.
        config.dynamic_batching.SetInParent()
        # Of whatever length: else a batch ends where the next one in line has another.
        for tensor in config.input:
            tensor.allow_ragged_batch = -1 in tensor.dims
    if spec.backend == BACKEND:
        _fit_tensorrtllm(config)
    if spec.queue is not None:
        policy = config.dynamic_batching.default_queue_policy
        policy.max_queue_size = spec.queue.requests
        policy.default_timeout_microseconds = round(spec.queue.seconds * 1e6)
        policy.timeout_action = model_config_pb2.ModelQueuePolicy.REJECT
    for key, value in spec.parameters.items():
        config.parameters[key].string_value = value
    return config


def _fit_tensorrtllm(config: model_config_pb2.ModelConfig) -> None:
    """Give single numbers their batch dimension alone, and let lengths differ within a batch."""
    for tensor in config.input:
        if list(tensor.dims) == [1]:
            tensor.reshape.SetInParent()
        else:
            tensor.allow_ragged_batch = True


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "data_type": TRITON_TYPES[spec.dtype], "dims": spec.shape}


def render_specs(specs: Sequence[ModelSpec], repository: Path) -> list[Path]:
    """Write the models with our own sources, all of them or none; return their folders."""
    own = [model_source(spec.name) if spec.backend == "python" else None for spec in specs]
    return render_models(zip(specs, own, strict=True), repository)


def render_model(spec: ModelSpec, source: Path | None, repository: Path) -> Path:
    """Write one model, see `render_models`."""
    return render_models([(spec, source)], repository)[0]


def render_models(models: Iterable[tuple[ModelSpec, Path | None]], repository: Path) -> list[Path]:
    """Write `<repository>/<name>/` with config.pbtxt and version 1 of its source (a model.py).

    A model that its backend runs without a source of ours has none. All are written beside and
    then renamed, so that a server sees neither half a model nor half of those that belong together.
    """
    writers = {spec.name: _writer(spec, source, repository) for spec, source in models}
    swap_together(repository, writers)
    return [repository / name for name in writers]


def _writer(spec: ModelSpec, source: Path | None, repository: Path) -> Callable[[Path], None]:
    if source is not None and not source.is_file():
        raise EngineError(f"model '{spec.name}' has no source at {source}")
    folder = repository / spec.name
    if folder.exists() and not (folder / CONFIG).is_file():
        raise EngineError(f"{folder} holds no model and is not replaced; render elsewhere")
    # Protobuf's text leaves out a zero, and Triton would then complete the batch size itself.
    zero = "max_batch_size: 0\n" if spec.max_batch_size == 0 else ""
    text = zero + text_format.MessageToString(model_config(spec))

    def write(part: Path) -> None:
        (part / "1").mkdir()
        if source is not None:
            shutil.copyfile(source, part / "1" / "model.py")
        (part / CONFIG).write_text(text, encoding="utf-8")

    return write


def rendered_models(repository: Path) -> list[str]:
    """Return the models of a repository; raises EngineError where it has none, or half of some.

    Hidden folders are what a run that was killed has left.
    """
    models = sorted(path.parent.name for path in repository.glob(f"[!.]*/{CONFIG}"))
    if not models:
        raise EngineError(f"{repository} is no model repository: it has no MODEL/{CONFIG}")
    if names := unfinished(repository):
        raise EngineError(
            f"{repository} was rendered half: {', '.join(names)} belong together, and some are "
            "older than others; render them again"
        )
    return models


def read_config(path: Path) -> dict[str, Any]:
    """Return a config.pbtxt as plain values; raises EngineError where it is none."""
    config = model_config_pb2.ModelConfig()
    try:
        text_format.Parse(path.read_bytes(), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        words = str(error) or "it is no text"
        raise EngineError(f"{path} is no configuration of a model: {words}") from error
    values: dict[str, Any] = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return values


def model_source(name: str) -> Path:
    """Return the path of a model's model.py: the checkout's, else the installed one."""
    checkout = Path(str(files("engine"))).parent / "triton" / "models"
    installed = Path(sysconfig.get_path("data")) / "share" / "speech-gateway" / "models"
    return (checkout if checkout.is_dir() else installed) / name / "model.py"
