"""Spark-TTS as a Triton model: the front, whose stages are models of the same server."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.loopback import LoopbackStages, StageNames, read_access
from speech_backend.parameters import read_parameters
from speech_backend.serving import exit_with_server
from speech_backend.spark import load_speaker
from speech_backend.threads import RequestThreads

# A thread waits for its stages nearly all the time; as many as a language model batches.
THREADS = 128


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute, close in finalize."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the tokenizer; the stages are asked at the first request."""
        exit_with_server()
        parameters = read_parameters(args)
        names = StageNames(**{n: parameters[n] for n in ("llm", "vocoder", "audio_tokenizer")})
        self.stages = LoopbackStages(parameters["triton_address"], names, access=read_access())
        speaker = load_speaker(self.stages, parameters)
        self.requests = RequestThreads(pb_utils, args["model_name"], speaker.synthesize, THREADS)

    def execute(self, requests: list[Any]) -> None:
        """Accept each request; it is answered from a thread."""
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        """Wait for the requests that are being spoken."""
        self.requests.close()
        self.stages.close()
