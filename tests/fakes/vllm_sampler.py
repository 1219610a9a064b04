"""vLLM's sampler on the GPU, as `vllm.v1.worker.gpu.sample` of 0.24.0 has it, as far as is used."""

from __future__ import annotations

from typing import Any

import numpy as np


class LogitBiasState:
    """What is added to logits for the requests in their places; a bias is of one id here."""

    def __init__(self, max_num_reqs: int, device: Any) -> None:
        assert device == "cuda:0"
        self._biases: list[dict[int, float]] = [{} for _ in range(max_num_reqs)]

    def add_request(self, req_idx: int, prompt_len: int, sampling_params: Any) -> None:
        assert prompt_len > 0
        self._biases[req_idx] = getattr(sampling_params, "logit_bias", None) or {}

    def apply_logit_bias(
        self, logits: Any, expanded_idx_mapping: Any, idx_mapping_np: Any, pos: Any
    ) -> None:
        assert len(logits) == len(expanded_idx_mapping) == len(idx_mapping_np) == len(pos)
        for row, place in zip(logits, idx_mapping_np.tolist(), strict=True):
            for token_id, bias in self._biases[place].items():
                row[token_id] += np.float32(bias)


class Sampler:
    def __init__(self) -> None:
        self.logit_bias_state: Any = LogitBiasState(8, "cuda:0")


class GPUModelRunner:
    max_num_reqs = 8
    device = "cuda:0"

    def __init__(self) -> None:
        self.sampler = Sampler()
