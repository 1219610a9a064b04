"""A speech model without speech: noise that only this voice and this text have, as fast as spoken.

It costs next to nothing, and whoever knows the rule can tell of each sample whose it is.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import triton_python_backend_utils as pb_utils

from speech_backend.serving import exit_with_server
from speech_backend.threads import RequestThreads
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import Generator

    from speech_wire import SynthesisRequest

THREADS = 24


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        exit_with_server()
        parameters = json.loads(args["model_config"])["parameters"]
        self.rate_hz = int(parameters["sample_rate_hz"]["string_value"])
        self.chunks = int(parameters["chunks"]["string_value"])
        self.chunk_samples = int(parameters["chunk_samples"]["string_value"])
        self.requests = RequestThreads(pb_utils, args["model_name"], self.synthesize, THREADS)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        self.requests.close()

    def synthesize(self, request: SynthesisRequest) -> Generator[PcmChunk, None, None]:
        numbers = np.random.default_rng(crc32(f"{request.voice}: {request.target_text}".encode()))
        for index in range(self.chunks):
            time.sleep(self.chunk_samples / self.rate_hz)
            samples = numbers.integers(-30_000, 30_000, self.chunk_samples) / np.float32(32_767)
            reason = "stop" if index == self.chunks - 1 else None
            offset = index * self.chunk_samples
            yield PcmChunk(samples.astype(np.float32), self.rate_hz, offset, reason)
