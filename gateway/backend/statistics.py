"""What a Triton says of itself: its statistics over gRPC and, where known, its metrics page.

All figures are cumulative since the model's version was loaded: a reload or a restart begins at 0.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc.aio
import httpx
from tritonclient.grpc import service_pb2

from gateway.backend.classify import classify
from gateway.errors import BackendUnavailableError, MisconfiguredError

if TYPE_CHECKING:
    from collections.abc import Sequence

STAGES = (
    *("success", "fail", "queue"),
    *("compute_input", "compute_infer", "compute_output"),
    *("cache_hit", "cache_miss"),
)
BATCH_STAGES = ("compute_input", "compute_infer", "compute_output")
RESPONSE_STAGES = ("compute_infer", "compute_output", "success", "fail", "empty", "cancel")
FIELDS = {"empty": "empty_response"}
"""Stages whose name in Triton's messages is another."""


@dataclass(frozen=True, slots=True)
class Target:
    """A Triton that can be asked: its gRPC stub, and host:port of its metrics page if known."""

    name: str
    stub: Any
    metrics_address: str | None = None
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What each call carries; secret."""


@dataclass(frozen=True, slots=True)
class Duration:
    """How often a stage was gone through, and how long that took in all."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Executions of one batch size, by BATCH_STAGES."""

    batch_size: int
    stages: dict[str, Duration]


@dataclass(frozen=True, slots=True)
class ResponseStatistics:
    """The responses of this index (`0` is a request's first), by RESPONSE_STAGES."""

    index: str
    stages: dict[str, Duration]


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory of a model as its backend reports it; few do."""

    type: str
    id: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """A loaded model's figures, by STAGES; `last_inference_seconds` is Unix time, None: never."""

    name: str
    version: str
    last_inference_seconds: float | None
    inferences: int
    executions: int
    stages: dict[str, Duration]
    batches: tuple[BatchStatistics, ...] = ()
    memory: tuple[MemoryUsage, ...] = ()
    responses: tuple[ResponseStatistics, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model of the repository, loaded or not; `reason` is Triton's."""

    name: str
    version: str
    is_ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """What a Triton said at one time; `version` is empty where it keeps that to itself."""

    is_ready: bool
    version: str
    models: tuple[ModelStatistics, ...]
    states: tuple[ModelState, ...]
    metrics_page: str = ""
    metrics_error: str = ""
    """Why there is no metrics page although its address is known."""


async def ask_statistics(
    replica: Target, http: httpx.AsyncClient, timeout_seconds: float
) -> ReplicaStatistics:
    """Ask everything at once; raises SpeechError if the statistics are not there in that time."""
    stub = replica.stub

    async def ask(method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=timeout_seconds, metadata=replica.metadata)
        except grpc.aio.AioRpcError as error:
            raise classify(error.code(), error.details() or "") from error
        except grpc.aio.UsageError as error:
            raise BackendUnavailableError("the channel to Triton is closed") from error

    answers: Any = await asyncio.gather(
        ask(stub.ModelStatistics, service_pb2.ModelStatisticsRequest()),
        ask(stub.ServerReady, service_pb2.ServerReadyRequest()),
        _if_permitted(ask(stub.ServerMetadata, service_pb2.ServerMetadataRequest())),
        _if_permitted(ask(stub.RepositoryIndex, service_pb2.RepositoryIndexRequest())),
        _metrics_page(replica.metrics_address, http, timeout_seconds),
        # All end within the time, so that none is left behind when one fails.
        return_exceptions=True,
    )
    for answer in answers:
        if isinstance(answer, asyncio.CancelledError):
            # Of a call, by gRPC: were it this task, it would not have come here.
            raise BackendUnavailableError("the channel to Triton was closed")
        if isinstance(answer, BaseException):
            raise answer
    statistics, server, metadata, index, (page, error) = answers
    models = tuple(_model(message) for message in statistics.model_stats)
    return ReplicaStatistics(
        is_ready=server.ready,
        version=metadata.version if metadata else "",
        models=models,
        states=_states(index, models),
        metrics_page=page,
        metrics_error=error,
    )


async def _if_permitted(asking: Any) -> Any:
    """Return None where Triton restricts the protocol: the statistics do without."""
    try:
        return await asking
    except MisconfiguredError:
        return None


async def _metrics_page(
    address: str | None, http: httpx.AsyncClient, seconds: float
) -> tuple[str, str]:
    if address is None:
        return "", ""
    try:
        response = await asyncio.wait_for(http.get(f"http://{address}/metrics"), seconds)
        return response.raise_for_status().text, ""
    except asyncio.TimeoutError:
        return "", f"http://{address}/metrics: nothing within {seconds:g} s"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return "", f"http://{address}/metrics: {error or type(error).__name__}"


def _model(message: Any) -> ModelStatistics:
    return ModelStatistics(
        name=message.name,
        version=message.version,
        last_inference_seconds=message.last_inference / 1e3 if message.last_inference else None,
        inferences=message.inference_count,
        executions=message.execution_count,
        stages=_durations(message.inference_stats, STAGES),
        batches=tuple(
            BatchStatistics(batch.batch_size, _durations(batch, BATCH_STAGES))
            for batch in message.batch_stats
        ),
        memory=tuple(
            MemoryUsage(usage.type, usage.id, usage.byte_size) for usage in message.memory_usage
        ),
        responses=tuple(
            ResponseStatistics(index, _durations(response, RESPONSE_STAGES))
            for index, response in sorted(message.response_stats.items())
        ),
    )


def _durations(message: Any, stages: Sequence[str]) -> dict[str, Duration]:
    parts = ((stage, getattr(message, FIELDS.get(stage, stage))) for stage in stages)
    return {stage: Duration(part.count, part.ns / 1e9) for stage, part in parts}


def _states(index: Any, models: Sequence[ModelStatistics]) -> tuple[ModelState, ...]:
    if index is None:
        # Triton has statistics of the models that are ready, and of no others.
        return tuple(ModelState(model.name, model.version, is_ready=True) for model in models)
    return tuple(
        ModelState(model.name, model.version, model.state == "READY", model.reason)
        for model in index.models
    )
