"""A language model that follows its request, with tensorrt_llm's names, for the real Triton.

It writes `runtime_top_k` semantic codes drawn with `random_seed`, one each `temperature`
milliseconds; for a new voice its 32 codes before them. It raises after 30 ids where
`runtime_top_p` is below 0.5.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

from speech_backend.parameters import read_parameters
from speech_backend.serving import CALL, Codec, exit_with_server
from speech_backend.threads import RequestThreads
from speech_backend.tokens import TokenMap
from speech_wire import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

THREADS = 20
FAILS_AFTER = 30
ZERO = np.zeros(1, np.int64)
NAMES = ("input_ids", "random_seed", "runtime_top_k", "runtime_top_p", "temperature")


@dataclass(frozen=True)
class Written:
    token_id: int

    def to_tensors(self) -> dict[str, Any]:
        return {
            "output_ids": np.array([[[self.token_id]]], np.int32),
            "sequence_length": np.array([[1]], np.int32),
        }


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        exit_with_server()
        folder = Path(read_parameters(args)["model_dir"])
        tokenizer = Tokenizer.from_file(str(folder / "LLM" / "tokenizer.json"))
        self.tokens = TokenMap.from_vocabulary(tokenizer.get_vocab())
        inputs = tuple(TensorSpec(name, "INT32", (-1,)) for name in NAMES)
        codec = Codec(inputs, dict, stop_input="stop")
        self.requests = RequestThreads(pb_utils, args["model_name"], self.write, THREADS, codec)
        # Kept, since the server drops the metrics of a family that is garbage collected.
        self.family = pb_utils.MetricFamily(
            name="scripted_llm_accepted_total",
            description="Requests, those that stop others included",
            kind=pb_utils.MetricFamily.COUNTER,
        )
        self.accepted = self.family.Metric(labels={})

    def write(self, request: dict[str, Any]) -> Generator[Written, None, None]:
        prompt, *numbers = (request.get(name, ZERO).reshape(-1) for name in NAMES)
        seed, count, top_p, milliseconds = (number[0] for number in numbers)
        for index, token_id in enumerate(self.ids(int(prompt[-1]), int(seed), int(count))):
            if top_p < 0.5 and index == FAILS_AFTER:
                raise MemoryError("no room for another token")
            time.sleep(milliseconds / 1000)
            yield Written(token_id)

    def ids(self, last: int, seed: int, count: int) -> Iterator[int]:
        marks, random = self.tokens.marks, np.random.default_rng(seed)
        if last == marks["end_style_label"]:
            yield from (marks["start_global_token"],)
            yield from self.tokens.global_codes.ids(random.integers(0, 4096, 32)).tolist()
            yield marks["end_global_token"]
        if last in (marks["end_style_label"], marks["end_global_token"]):
            yield marks["start_semantic_token"]
        codes = np.random.default_rng(seed).integers(0, 8192, count)
        yield from self.tokens.semantic_codes.ids(codes).tolist()
        yield marks["end_semantic_token"]

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.requests.accept(request)
            with CALL:
                self.accepted.increment(1)

    def finalize(self) -> None:
        self.requests.close()
