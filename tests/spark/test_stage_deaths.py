"""A stage that dies breaks its streams off and comes back by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from spark.server import SparkServer, render_scripted, served, spoken, until
from tritonserver.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.triton]

RECOVERY_SECONDS = 30


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    repository, ports = tmp_path_factory.mktemp("repository"), free_ports()
    render_scripted(checkpoint, repository, ports.triton)
    yield from served(ports, "--repository", str(repository))


def kill(server: SparkServer, model: str) -> None:
    (stub,) = [
        process
        for process in server.process.children("triton_python_backend_stub")
        if f"/{model}/" in process.cmdline()[1]
    ]
    stub.kill()


def speaks(server: SparkServer) -> bool:
    try:
        return server.hear(spoken(1), seconds=3).is_whole
    except grpc.RpcError:  # what reaches Triton just after the death is never answered
        return False


@pytest.mark.parametrize("model", ["vocoder", "llm", "spark_tts"])
def test_a_killed_model_comes_back(server: SparkServer, model: str) -> None:
    (triton,) = server.process.children("tritonserver")
    call: Any = server.call(spoken(2, 1500, pace_ms=10))
    next(iter(call))

    kill(server, model)
    until(lambda: speaks(server), RECOVERY_SECONDS)
    call.cancel()
    # Triton never ends the stream of a model whose own process has died.
    if model == "spark_tts":
        call.rpc.cancel()
    else:
        assert call.whole().finals >= 1

    until(lambda: f"engine.model_reloaded model={model}" in " ".join(server.process.lines))
    assert [process.pid for process in server.process.children("tritonserver")] == [triton.pid]
