from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import grpc.aio
import httpx
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from fakes.statistics import FakeMetricsPage, model_statistics
from fakes.triton import FakeTriton, Script
from gateway.backend.statistics import (
    Duration,
    MemoryUsage,
    ModelState,
    ReplicaStatistics,
    Target,
    ask_metrics_page,
    ask_statistics,
)
from gateway.errors import BackendTimeoutError, BackendUnavailableError, MisconfiguredError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def page() -> Iterator[FakeMetricsPage]:
    with FakeMetricsPage() as fake:
        yield fake


def ask(triton: FakeTriton, *served: str, seconds: float = 5.0) -> ReplicaStatistics:
    async def asking() -> ReplicaStatistics:
        async with grpc.aio.insecure_channel(triton.address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            return await ask_statistics(Target("one", stub), served, seconds)

    return asyncio.run(asking())


def ask_page(address: str, seconds: float = 5.0) -> tuple[str, str]:
    async def asking() -> tuple[str, str]:
        async with httpx.AsyncClient(trust_env=False) as http:
            return await ask_metrics_page(address, http, seconds)

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
        ModelState("vocoder", "1", is_ready=False, reason="unloaded", is_wanted=False),
    )
    assert [model.name for model in statistics.models] == ["hibari"]


NOT_THERE = "it is not there, or not loaded"


@pytest.mark.parametrize("refused", [frozenset(), frozenset({"RepositoryIndex"})])
def test_a_model_that_is_served_is_asked_for_even_where_triton_does_not_list_it(
    triton: FakeTriton, refused: frozenset[str]
) -> None:
    triton.statistics.refused = refused

    statistics = ask(triton, "hibari", "vocoder")

    assert statistics.states == (
        ModelState("hibari", "1", is_ready=True),
        ModelState("vocoder", "", is_ready=False, reason=NOT_THERE),
    )


def test_a_model_that_is_served_is_wanted_even_if_it_was_unloaded(triton: FakeTriton) -> None:
    triton.statistics.models = []
    triton.statistics.unready = {"vocoder": "unloaded"}
    triton.statistics.never_loaded = ("llm",)

    statistics = ask(triton, "hibari", "vocoder")

    assert statistics.states == (
        ModelState("vocoder", "1", is_ready=False, reason="unloaded"),
        ModelState("llm", "", is_ready=False, is_wanted=False),
        ModelState("hibari", "", is_ready=True),
    )


def test_a_model_that_could_not_be_loaded_is_wanted(triton: FakeTriton) -> None:
    triton.statistics.unready = {"vocoder": "Internal: no such checkpoint"}

    [_, state] = ask(triton).states

    assert state.is_wanted
    assert not state.is_ready


def test_a_model_that_is_listed_but_not_ready_is_not_ready(triton: FakeTriton) -> None:
    triton.script = Script(is_ready=False)

    assert ask(triton, "hibari").states == (ModelState("hibari", "1", is_ready=False),)


def test_what_triton_keeps_to_itself_is_done_without(triton: FakeTriton) -> None:
    """Operators restrict the model repository, which can also load code."""
    triton.statistics.refused = frozenset({"RepositoryIndex", "ServerMetadata"})

    statistics = ask(triton)

    assert statistics.version == ""
    assert statistics.states == (ModelState("hibari", "1", is_ready=True),)


@pytest.mark.parametrize("method", ["ModelStatistics", "ServerReady"])
def test_without_the_statistics_themselves_there_are_none(triton: FakeTriton, method: str) -> None:
    triton.statistics.refused = frozenset({method})

    with pytest.raises(MisconfiguredError, match="need a key that the gateway does not send"):
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
        channel = grpc.aio.insecure_channel(triton.address)
        await channel.channel_ready()
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        asked: Any = ask_statistics(Target("one", stub), (), 5.0)
        if is_asked_before:
            asked = asyncio.ensure_future(asked)
            await stub.ServerReady(service_pb2.ServerReadyRequest())
        await channel.close()
        await asked

    with pytest.raises(BackendUnavailableError, match="closed"):
        asyncio.run(asking())


def test_the_metrics_page_is_its_text(page: FakeMetricsPage) -> None:
    assert ask_page(page.address) == (page.text, "")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("{page}", "500 Internal Server Error"),
        ("{closed}", "failed"),
        ("host:80 80", "Invalid"),
        ("xn--:80", "Malformed"),
    ],
)
def test_why_there_is_no_metrics_page_is_said(
    page: FakeMetricsPage, address: str, words: str
) -> None:
    page.status = 500
    with FakeTriton() as gone:
        closed = gone.address

    text, error = ask_page(address.format(page=page.address, closed=closed))

    assert text == ""
    assert words in error
    assert "/metrics" in error


def test_a_metrics_page_that_hangs_is_waited_for_no_longer_than_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        text, error = ask_page(address, seconds=0.3)

    assert (text, error) == ("", f"http://{address}/metrics: nothing within 0.3 s")
