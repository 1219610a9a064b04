"""What a Triton says of itself: its statistics over gRPC and, where known, its metrics page.

All figures are cumulative since the model's version was loaded: a reload or a restart begins at 0.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import grpc.aio
import httpx
from tritonclient.grpc import service_pb2

from gateway.backend.classify import classify_error
from gateway.errors import BackendUnavailableError, MisconfiguredError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

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
    """A model of the repository, loaded or not; `reason` is Triton's.

    `is_wanted`: it should be ready, since Triton was to load it or the gateway serves it.
    """

    name: str
    version: str
    is_ready: bool
    reason: str = ""
    is_wanted: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """What a Triton said at one time; `version` is empty where it keeps that to itself."""

    is_ready: bool
    version: str
    models: tuple[ModelStatistics, ...]
    states: tuple[ModelState, ...]


async def ask_statistics(
    replica: Target, served: Sequence[str], timeout_seconds: float
) -> ReplicaStatistics:
    """Ask everything at once; raises SpeechError if the statistics are not there in that time.

    `served` are the models that should be ready there.
    """
    stub = replica.stub

    async def ask(method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=timeout_seconds, metadata=replica.metadata)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
            raise classify_error(error) from error.with_traceback(None)

    statistics, server, metadata, index, *answers = await _all(
        ask(stub.ModelStatistics, service_pb2.ModelStatisticsRequest()),
        ask(stub.ServerReady, service_pb2.ServerReadyRequest()),
        _if_permitted(ask(stub.ServerMetadata, service_pb2.ServerMetadataRequest())),
        _if_permitted(ask(stub.RepositoryIndex, service_pb2.RepositoryIndexRequest())),
        *(ask(stub.ModelReady, service_pb2.ModelReadyRequest(name=name)) for name in served),
    )
    models = tuple(_model(message) for message in statistics.model_stats)
    readiness = {name: answer.ready for name, answer in zip(served, answers, strict=True)}
    return ReplicaStatistics(
        is_ready=server.ready,
        version=metadata.version if metadata else "",
        models=models,
        states=_states(_listed(index, models), readiness),
    )


async def _all(*questions: Coroutine[Any, Any, Any]) -> list[Any]:
    # All end within their time, so that none is left behind when one fails.
    answers = await asyncio.gather(*questions, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, asyncio.CancelledError):
            # Of a call, by gRPC: were it this task, it would not have come here.
            raise BackendUnavailableError("the channel to Triton was closed")
        if isinstance(answer, BaseException):
            raise answer
    return answers


async def _if_permitted(asking: Any) -> Any:
    """Return None where Triton restricts the protocol: the statistics do without."""
    try:
        return await asking
    except MisconfiguredError:
        return None


async def ask_metrics_page(
    address: str | None, http: httpx.AsyncClient, timeout_seconds: float
) -> tuple[str, str]:
    """Return the text of a Triton's metrics page, and why there is none if that is not so."""
    if address is None:
        return "", ""
    url = f"http://{address}/metrics"
    try:
        response = await asyncio.wait_for(http.get(url), timeout_seconds)
        return response.raise_for_status().text, ""
    except asyncio.TimeoutError:
        return "", f"{url}: nothing within {timeout_seconds:g} s"
    # The last is for a name that cannot be one.
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        return "", f"{url}: {error or type(error).__name__}"


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


def _listed(index: Any, models: Sequence[ModelStatistics]) -> list[ModelState]:
    if index is None:
        # Triton has statistics of the models that are ready, and of no others.
        return [ModelState(model.name, model.version, is_ready=True) for model in models]
    return [
        ModelState(
            model.name,
            model.version,
            is_ready=model.state == "READY",
            reason=model.reason,
            # One that was never asked for has no state.
            is_wanted=bool(model.state) and model.reason != "unloaded",
        )
        for model in index.models
    ]


def _states(listed: list[ModelState], readiness: dict[str, bool]) -> tuple[ModelState, ...]:
    """Return the states that are listed, and those of the models that must be ready."""
    states = []
    for state in listed:
        is_missed = not readiness.get(state.name, True)
        states.append(replace(state, is_ready=False, is_wanted=True) if is_missed else state)
    wanted = {state.name for state in states if state.is_wanted}
    for name in readiness.keys() - wanted:
        reason = "" if readiness[name] else "it is not there, or not loaded"
        states.append(ModelState(name, "", readiness[name], reason))
    return tuple(states)
