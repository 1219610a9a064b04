"""A fake of `triton_python_backend_utils`: what a model sees of the server around it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

FINAL = 1


@dataclass(frozen=True)
class Tensor:
    name: str
    array: npt.NDArray[Any]

    def as_numpy(self) -> npt.NDArray[Any]:
        return self.array


@dataclass(frozen=True)
class TritonError:
    message: str


@dataclass(frozen=True)
class InferenceResponse:
    output_tensors: list[Tensor]
    error: TritonError | None = None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {tensor.name: tensor.array for tensor in self.output_tensors}


@dataclass
class Metric:
    """A metric whose next increments raise `errors`, one each."""

    labels: dict[str, str]
    value: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    incremented: threading.Event = field(default_factory=threading.Event)

    def increment(self, by: float) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.value += by
        self.incremented.set()

    def set(self, value: float) -> None:
        self.value = value


@dataclass
class MetricFamily:
    """Keeps its metrics in the order in which they were made."""

    name: str
    description: str
    kind: str
    metrics: list[Metric] = field(default_factory=list)
    COUNTER = "counter"
    GAUGE = "gauge"

    def Metric(self, labels: dict[str, str]) -> Metric:  # noqa: N802  Triton's own name
        self.metrics.append(Metric(labels))
        return self.metrics[-1]


class FakeSender:
    """Records what is sent, tells its end; the caller has gone after `cancel_after` responses."""

    def __init__(self, cancel_after: int | None = None) -> None:
        self.responses: list[InferenceResponse] = []
        self.finals = 0
        self.asked = 0
        self.has_ended = threading.Event()
        self._cancel_after = cancel_after

    @property
    def chunks(self) -> list[dict[str, npt.NDArray[Any]]]:
        return [response.arrays() for response in self.responses if response.error is None]

    @property
    def errors(self) -> list[str]:
        return [response.error.message for response in self.responses if response.error]

    def is_cancelled(self) -> bool:
        """Refuse what may crash Triton: a question about a request that has ended."""
        assert not self.finals, "asked after its end"
        self.asked += 1
        return self._cancel_after is not None and len(self.responses) >= self._cancel_after

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Refuse what Triton refuses: anything after FINAL, and a call that says nothing."""
        if self.finals or (response is None and not flags):
            raise RuntimeError("Unable to send response. Response sender has been closed.")
        if response is not None:
            self.responses.append(response)
        self.finals += flags & FINAL
        if self.finals:
            self.has_ended.set()


@dataclass
class FakeRequest:
    """One request with its tensors and the sender that its answer goes to."""

    tensors: Mapping[str, npt.NDArray[Any]]
    sender: FakeSender = field(default_factory=FakeSender)
    id: str = "req-1"
    words: str = ""
    """The request's parameters, which Triton hands over as JSON."""

    def request_id(self) -> str:
        return self.id

    def parameters(self) -> str:
        return self.words

    def get_response_sender(self) -> FakeSender:
        return self.sender


class FakePbUtils:
    """The module itself, as an object to hand over."""

    TRITONSERVER_RESPONSE_COMPLETE_FINAL = FINAL
    Tensor = Tensor
    TritonError = TritonError
    InferenceResponse = InferenceResponse
    MetricFamily = MetricFamily

    @staticmethod
    def get_input_tensor_by_name(request: FakeRequest, name: str) -> Tensor | None:
        return Tensor(name, request.tensors[name]) if name in request.tensors else None


class KeepingPbUtils(FakePbUtils):
    """Keeps the families of metrics that a model makes, by name."""

    def __init__(self) -> None:
        families: dict[str, MetricFamily] = {}

        class Kept(MetricFamily):
            def __init__(self, **named: Any) -> None:
                super().__init__(**named)
                families[self.name] = self

        self.families = families
        self.MetricFamily = Kept  # type: ignore[misc]

    def outcomes(self) -> dict[str, float]:
        """Return how many requests have ended how."""
        metrics = self.families["speech_model_requests_total"].metrics
        return {metric.labels["outcome"]: metric.value for metric in metrics if metric.value}
