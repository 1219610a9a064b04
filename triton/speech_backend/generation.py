"""A language model as Triton's model: how requests are read, and which engine answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from speech_backend.serving import Codec
from speech_backend.threads import RequestThreads
from speech_wire import OWN_GENERATION_INPUTS, GenerationRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

THREADS = 16
"""Requests that are computed at once, each alone; vLLM computes them together."""

CODEC = Codec(OWN_GENERATION_INPUTS, GenerationRequest.from_tensors, stop_input="stop")


class Requests(Protocol):
    """What answers Triton's requests."""

    def accept(self, request: Any) -> None:
        """Take a request and return at once."""
        ...

    def close(self) -> None:
        """Wait for the requests that are being answered."""
        ...


def generation_requests(pb_utils: Any, model: str, parameters: Mapping[str, str]) -> Requests:
    """Load the engine that the parameter `engine` names, and warm it up.

    Each is imported only where it is asked for: one needs a GPU, and both take seconds.
    """
    engine = parameters["engine"]
    if engine == "vllm":
        from speech_backend.vllm_engine.requests import VllmRequests  # noqa: PLC0415

        return VllmRequests(pb_utils, model, parameters, CODEC)
    if engine == "transformers":
        from speech_backend.language_model import LanguageModel  # noqa: PLC0415

        answer = LanguageModel.from_parameters(parameters).answer
        return RequestThreads(pb_utils, model, answer, THREADS, CODEC)
    raise ValueError(f"engine is '{engine}', allowed are transformers, vllm")
