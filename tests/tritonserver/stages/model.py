"""A vocoder or tokenizer without torch, for what is about the way to a stage: silence, zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from speech_backend.replies import reply
from speech_backend.serving import exit_with_server

INPUTS = {
    "vocoder": ("semantic_tokens", "length", "kept_tokens", "global_tokens"),
    "audio_tokenizer": ("reference_wav", "reference_wav_len"),
}


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        exit_with_server()
        self.name = args["model_name"]

    def execute(self, requests: list[Any]) -> list[Any]:
        return reply(pb_utils, requests, INPUTS[self.name], getattr(self, self.name))

    def vocoder(self, windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        counts = [int(np.diff(window["kept_tokens"]).item()) for window in windows]
        return [{"waveform": np.full((1, 320 * n), 0.1, np.float32)} for n in counts]

    def audio_tokenizer(self, recordings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        voice, spoken = np.zeros(32, np.int32), np.zeros(9, np.int32)
        return [{"global_tokens": voice, "semantic_tokens": spoken} for _ in recordings]
