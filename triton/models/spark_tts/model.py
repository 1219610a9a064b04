"""Spark-TTS as a Triton model: the front, whose stages are models of the same server."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.front import FrontRequests
from speech_backend.parameters import read_parameters
from speech_backend.serving import exit_with_server


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute, close in finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the tokenizer; the stages are asked at the first request."""
        exit_with_server()
        self.requests = FrontRequests(pb_utils, args["model_name"], read_parameters(args))

    def execute(self, requests: list[Any]) -> None:
        """Accept each request; it is answered from an event loop."""
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        """Wait for the requests that are being spoken."""
        self.requests.close()
