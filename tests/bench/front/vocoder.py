"""A vocoder without weights: silence, after as long as a GPU takes for a batch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from speech_backend.replies import reply
from speech_backend.serving import exit_with_server
from speech_backend.tokens import SAMPLES_PER_TOKEN

INPUTS = ("semantic_tokens", "length", "kept_tokens", "global_tokens")
BATCH_SECONDS = 0.004
WINDOW_SECONDS = 0.001


class TritonPythonModel:
    def initialize(self, _: dict[str, str]) -> None:
        exit_with_server()

    def execute(self, requests: list[Any]) -> list[Any]:
        return reply(pb_utils, requests, INPUTS, self.decode)

    def decode(self, windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        time.sleep(BATCH_SECONDS + WINDOW_SECONDS * len(windows))
        counts = [SAMPLES_PER_TOKEN * int(np.diff(window["kept_tokens"])[0]) for window in windows]
        return [{"waveform": np.zeros((1, count), np.float32)} for count in counts]
