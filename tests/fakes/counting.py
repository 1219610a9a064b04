"""A fake Triton that counts its requests as a real one does, and tells its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tritonclient.grpc import service_pb2

from fakes.servicer import Servicer
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from fakes.script import Script


class CountingServicer(Servicer):
    """Every stream that has ended is a success, unless `fails` says how many are not.

    `unloaded` are counted still, as of models that go between two calls.
    """

    fails = 0
    counts = True
    unloaded: tuple[str, ...] = ()

    async def ServerMetadata(self, _: Any, __: Any) -> Any:  # noqa: N802  gRPC's name
        return service_pb2.ServerMetadataResponse(name="triton", version="2.51.0")

    async def ModelStatistics(self, _: Any, __: Any) -> Any:  # noqa: N802
        answer = service_pb2.ModelStatisticsResponse()
        ended = self.seen.finished.count
        for name in (*self.models, *self.unloaded):
            figures = answer.model_stats.add(name=name, version="1").inference_stats
            figures.success.count = 100 + (ended if self.counts else 0)
            figures.fail.count = min(ended, self.fails)
        return answer


class CountingTriton(FakeTriton):
    """A FakeTriton with such a servicer."""

    def __init__(self, script: Script | None = None) -> None:
        super().__init__(script)
        self.servicer = self._servicer = CountingServicer(("hibari",))
        self.servicer.script = script or self.servicer.script
