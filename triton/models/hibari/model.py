"""The embedded CPU voice as a Triton model: many requests at once in one process."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.hibari import HibariSpeaker
from speech_backend.serving import Outcomes, exit_with_server, serve

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
        self.speaker = HibariSpeaker(voices)
        self.outcomes = Outcomes(pb_utils, args["model_name"])
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="speak")

    def execute(self, requests: list[Any]) -> None:
        """Hand each request to a thread; the response sender answers from there."""
        for request in requests:
            self.threads.submit(self.speak, request)

    def speak(self, request: Any) -> None:
        """Answer one request and count how it ended."""
        self.outcomes.count(serve(pb_utils, request, self.speaker.synthesize))

    def finalize(self) -> None:
        """Wait for the requests that are being spoken."""
        self.threads.shutdown()
