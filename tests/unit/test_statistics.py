from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import grpc.aio
import httpx
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from fakes.statistics import FakeMetricsPage, model_statistics
from fakes.triton import FakeTriton
from gateway.backend.statistics import (
    Duration,
    MemoryUsage,
    ModelState,
    ReplicaStatistics,
    Target,
    ask_statistics,
)
from gateway.errors import BackendTimeoutError, BackendUnavailableError, MisconfiguredError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def page() -> Iterator[FakeMetricsPage]:
    with FakeMetricsPage() as fake:
        yield fake


def ask(
    triton: FakeTriton, metrics_address: str | None = None, seconds: float = 5.0
) -> ReplicaStatistics:
    async def asking() -> ReplicaStatistics:
        async with (
            grpc.aio.insecure_channel(triton.address) as channel,
            httpx.AsyncClient(trust_env=False) as http,
        ):
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            return await ask_statistics(Target("one", stub, metrics_address), http, seconds)

    return asyncio.run(asking())


def test_every_figure_is_read_in_seconds_and_bytes(triton: FakeTriton) -> None:
    message = model_statistics(
        "hibari", requests=4, failed=1, executions=2, stage_ms=250, last_inference_ms=1_700_000_500
    )
    batch = message.batch_stats.add(batch_size=2)
    batch.compute_infer.count, batch.compute_infer.ns = 2, 500_000_000
    message.memory_usage.add(type="GPU", id=1, byte_size=2048)
    first = message.response_stats["0"]
    first.empty_response.count, first.cancel.ns = 3, 1_000_000_000
    triton.statistics.models = [message]

    statistics = ask(triton)

    [model] = statistics.models
    assert (statistics.is_ready, statistics.version) == (True, "2.51.0")
    assert (model.name, model.version, model.inferences, model.executions) == ("hibari", "1", 4, 2)
    assert model.last_inference_seconds == 1_700_000.5
    assert model.stages["queue"] == Duration(4, 1.0)
    assert model.stages["fail"] == Duration(1, 0.0)
    assert model.batches[0].batch_size == 2
    assert model.batches[0].stages["compute_infer"] == Duration(2, 0.5)
    assert model.memory == (MemoryUsage("GPU", 1, 2048),)
    assert model.responses[0].index == "0"
    assert model.responses[0].stages["empty"] == Duration(3, 0.0)
    assert model.responses[0].stages["cancel"] == Duration(0, 1.0)


def test_a_model_that_was_never_asked_has_no_last_inference(triton: FakeTriton) -> None:
    assert ask(triton).models[0].last_inference_seconds is None


def test_a_model_that_is_not_loaded_is_named_with_the_reason(triton: FakeTriton) -> None:
    triton.statistics.unready = {"vocoder": "unloaded"}

    statistics = ask(triton)

    assert statistics.states == (
        ModelState("hibari", "1", is_ready=True),
        ModelState("vocoder", "1", is_ready=False, reason="unloaded"),
    )
    assert [model.name for model in statistics.models] == ["hibari"]


def test_what_triton_keeps_to_itself_is_done_without(triton: FakeTriton) -> None:
    """Operators restrict the model repository, which can also load code."""
    triton.statistics.refused = frozenset({"RepositoryIndex", "ServerMetadata"})

    statistics = ask(triton)

    assert statistics.version == ""
    assert statistics.states == (ModelState("hibari", "1", is_ready=True),)


@pytest.mark.parametrize("method", ["ModelStatistics", "ServerReady"])
def test_without_the_statistics_themselves_there_are_none(triton: FakeTriton, method: str) -> None:
    triton.statistics.refused = frozenset({method})

    with pytest.raises(MisconfiguredError, match="restricted protocols need a key"):
        ask(triton)


def test_a_triton_that_hangs_is_waited_for_no_longer_than_told(triton: FakeTriton) -> None:
    triton.statistics.is_hanging = True

    with pytest.raises(BackendTimeoutError):
        ask(triton, seconds=0.1)


def test_a_triton_that_is_away_is_an_error(triton: FakeTriton) -> None:
    triton.stop()

    with pytest.raises(BackendUnavailableError, match="cannot be reached"):
        ask(triton)


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_channel_that_is_closed_is_an_error_and_no_cancellation(
    triton: FakeTriton, *, is_asked_before: bool
) -> None:
    """Whoever asks goes on with other replicas."""
    triton.statistics.is_hanging = True

    async def asking() -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            channel = grpc.aio.insecure_channel(triton.address)
            await channel.channel_ready()
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            asked: Any = ask_statistics(Target("one", stub), http, 5.0)
            if is_asked_before:
                asked = asyncio.ensure_future(asked)
                await stub.ServerReady(service_pb2.ServerReadyRequest())
            await channel.close()
            await asked

    with pytest.raises(BackendUnavailableError, match="closed"):
        asyncio.run(asking())


def test_the_metrics_page_comes_with_it(triton: FakeTriton, page: FakeMetricsPage) -> None:
    statistics = ask(triton, page.address)

    assert (statistics.metrics_page, statistics.metrics_error) == (page.text, "")


@pytest.mark.parametrize(
    ("address", "words"),
    [("{page}", "500 Internal Server Error"), ("{closed}", "failed"), ("host:80 80", "Invalid")],
)
def test_the_statistics_come_without_a_metrics_page_too(
    triton: FakeTriton, page: FakeMetricsPage, address: str, words: str
) -> None:
    page.status = 500
    with FakeTriton() as gone:
        closed = gone.address

    statistics = ask(triton, address.format(page=page.address, closed=closed))

    assert len(statistics.models) == 1
    assert statistics.metrics_page == ""
    assert words in statistics.metrics_error
    assert "/metrics" in statistics.metrics_error


def test_a_metrics_page_that_hangs_is_waited_for_no_longer_than_told(triton: FakeTriton) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        statistics = ask(triton, address, seconds=0.3)

    assert statistics.metrics_error == f"http://{address}/metrics: nothing within 0.3 s"
    assert len(statistics.models) == 1
