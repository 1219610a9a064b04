"""Spark-TTS's language model with tensorrt_llm's tensors, for machines without that backend."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.language_model import CODEC, LanguageModel
from speech_backend.parameters import read_parameters
from speech_backend.serving import exit_with_server
from speech_backend.threads import RequestThreads

THREADS = 16


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute, close in finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the weights and warm up."""
        exit_with_server()
        model = LanguageModel.from_parameters(read_parameters(args))
        name = args["model_name"]
        self.requests = RequestThreads(pb_utils, name, model.answer, THREADS, CODEC)

    def execute(self, requests: list[Any]) -> None:
        """Accept each request; it is answered from a thread."""
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        """Wait for the requests that are being answered."""
        self.requests.close()
