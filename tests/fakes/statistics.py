"""What a fake Triton says of itself: over gRPC, and on a metrics page over HTTP."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

NATIVE = """\
# HELP nv_inference_count Number of inferences performed
# TYPE nv_inference_count counter
nv_inference_count{model="hibari",version="1"} 3
# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
# HELP nv_cpu_memory_used_bytes CPU used memory (RAM), in bytes
# TYPE nv_cpu_memory_used_bytes gauge
nv_cpu_memory_used_bytes 1048576
"""


def model_statistics(  # noqa: PLR0913  figures of a message
    name: str,
    *,
    version: str = "1",
    requests: int = 0,
    failed: int = 0,
    executions: int | None = None,
    stage_ms: float = 0.0,
    last_inference_ms: int = 0,
) -> Any:
    """Return a model's figures, with `stage_ms` in each stage of each request."""
    message = service_pb2.ModelStatistics(
        name=name,
        version=version,
        inference_count=requests,
        execution_count=requests if executions is None else executions,
        last_inference=last_inference_ms,
    )
    for stage in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        part = getattr(message.inference_stats, stage)
        part.count, part.ns = requests, round(requests * stage_ms * 1e6)
    message.inference_stats.fail.count = failed
    return message


@dataclass
class FakeStatistics:
    """What it answers; a test changes it at any time.

    `models` are figures (one without any of each model unless set), `unready` the names and
    reasons of models that are not loaded, `never_loaded` those that nobody asked for, `refused`
    the methods that need a key.
    """

    version: str = "2.51.0"
    is_ready: bool = True
    is_hanging: bool = False
    models: list[Any] | None = None
    unready: dict[str, str] = field(default_factory=dict)
    never_loaded: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()


class StatisticsServicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """The part of Triton's protocol in which it speaks of itself."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self.models = models
        self.statistics = FakeStatistics()

    async def ServerReady(self, _: Any, context: Any) -> Any:  # noqa: N802  gRPC's name
        await self._permit("ServerReady", context)
        return service_pb2.ServerReadyResponse(ready=self.statistics.is_ready)

    async def ServerMetadata(self, _: Any, context: Any) -> Any:  # noqa: N802
        await self._permit("ServerMetadata", context)
        version = self.statistics.version
        return service_pb2.ServerMetadataResponse(name="triton", version=version)

    async def ModelStatistics(self, _: Any, context: Any) -> Any:  # noqa: N802
        await self._permit("ModelStatistics", context)
        if self.statistics.is_hanging:
            await asyncio.Event().wait()
        return service_pb2.ModelStatisticsResponse(model_stats=self._figures())

    async def RepositoryIndex(self, _: Any, context: Any) -> Any:  # noqa: N802
        await self._permit("RepositoryIndex", context)
        answer = service_pb2.RepositoryIndexResponse()
        for figures in self._figures():
            answer.models.add(name=figures.name, version=figures.version, state="READY")
        for name, reason in self.statistics.unready.items():
            answer.models.add(name=name, version="1", state="UNAVAILABLE", reason=reason)
        for name in self.statistics.never_loaded:
            answer.models.add(name=name)
        return answer

    def _figures(self) -> list[Any]:
        figures = self.statistics.models
        return [model_statistics(name) for name in self.models] if figures is None else figures

    async def _permit(self, method: str, context: Any) -> None:
        if method in self.statistics.refused:
            words = "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"
            await context.abort(grpc.StatusCode.UNAVAILABLE, words)


class FakeMetricsPage:
    """Triton's metrics port.

    >>> with FakeMetricsPage() as page: page.status = 500; page.address
    """

    def __init__(self, text: str = NATIVE) -> None:
        self.text = text
        self.status = 200
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page.text.encode()
                self.send_response(page.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> FakeMetricsPage:  # noqa: PYI034  Self needs Python 3.11
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
