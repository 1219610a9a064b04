"""The embedded CPU voice as a Triton model: many requests at once in one process."""

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.hibari import HibariSpeaker
from speech_backend.serving import exit_with_server
from speech_backend.threads import RequestThreads

# onnxruntime releases the interpreter's lock while it computes. More threads than cores keep a
# short request from waiting behind long ones: eight share the time sentence by sentence.
THREADS = 8


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute, close in finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the voices that the configuration names."""
        exit_with_server()
        parameters = json.loads(args["model_config"])["parameters"]
        voices = [voice["id"] for voice in json.loads(parameters["voices"]["string_value"])]
        speaker = HibariSpeaker(voices)
        self.requests = RequestThreads(pb_utils, args["model_name"], speaker.synthesize, THREADS)

    def execute(self, requests: list[Any]) -> None:
        """Accept each request; it is answered from a thread."""
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        """Wait for the requests that are being spoken."""
        self.requests.close()
