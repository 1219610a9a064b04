"""Spark-TTS's language model with tensorrt_llm's tensors, for machines without that backend."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.generation import generation_requests
from speech_backend.parameters import read_parameters
from speech_backend.serving import exit_with_server


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute, close in finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the weights and warm up."""
        exit_with_server()
        self.requests = generation_requests(pb_utils, args["model_name"], read_parameters(args))

    def execute(self, requests: list[Any]) -> None:
        """Accept each request; it is answered from a thread."""
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        """Wait for the requests that are being answered."""
        self.requests.close()
