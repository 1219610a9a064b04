"""A language model without weights, which writes and sends as one on a GPU does.

Each request writes `runtime_top_k` semantic codes, one each `temperature` milliseconds, and sends
them when `vllm_engine` would; for a new voice its 32 codes before them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils

from speech_backend.parameters import read_parameters
from speech_backend.serving import Codec, exit_with_server
from speech_backend.spark import read_token_map
from speech_backend.tasks import RequestTasks
from speech_backend.vllm_engine.pace import MAX_GATHER_SECONDS, Pacer
from speech_wire import OWN_GENERATION_INPUTS, GenerationRequest, NewIds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

COUNT_SECONDS = 0.2
MESSAGES = "bench_llm_messages_total"
CODEC = Codec(OWN_GENERATION_INPUTS, GenerationRequest.from_tensors, stop_input="stop")


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        exit_with_server()
        self.tokens = read_token_map(Path(read_parameters(args)["model_dir"]))
        self.random = np.random.default_rng(1)
        self.pacer = Pacer(time.monotonic)
        kind = pb_utils.MetricFamily.COUNTER
        self.family = pb_utils.MetricFamily(name=MESSAGES, description="Sent", kind=kind)
        self.messages = self.family.Metric(labels={})
        self.uncounted, self.counted_at = 0, 0.0
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        self.requests = RequestTasks(pb_utils, args["model_name"], self.write, CODEC, loop)

    async def write(self, request: GenerationRequest) -> AsyncGenerator[NewIds, None]:
        ids, step_seconds = self.ids(request), request.temperature / 1000
        began_at, sent = time.monotonic(), 0
        with self.pacer.request(request.first_ids) as pace:
            while sent < len(ids):
                written = min(len(ids), int((time.monotonic() - began_at) / step_seconds))
                missing = pace.missing(written - sent)
                if written < len(ids) and (missing or written == sent):
                    await asyncio.sleep(min(max(1, missing) * step_seconds, MAX_GATHER_SECONDS))
                    continue
                yield NewIds(ids[sent:written])
                await self.count()
                if written < len(ids):
                    await asyncio.sleep(pace.pause_seconds(written - sent))
                sent = written

    async def count(self) -> None:
        """Count a message; the server hears of them some times a second."""
        self.uncounted += 1
        if time.monotonic() - self.counted_at > COUNT_SECONDS:
            count, self.uncounted, self.counted_at = self.uncounted, 0, time.monotonic()
            await self.requests.call(self.messages.increment, count)

    def ids(self, request: GenerationRequest) -> Any:
        marks, ids = self.tokens.marks, []
        if request.input_ids[-1] == marks["end_style_label"]:
            ids = [marks["start_global_token"], *self.tokens.global_codes.ids(range(32)).tolist()]
            ids.append(marks["end_global_token"])
        ids.append(marks["start_semantic_token"])
        spoken = self.tokens.semantic_codes.ids(self.random.integers(0, 8192, request.top_k))
        return np.array([*ids, *spoken.tolist(), marks["end_semantic_token"]], np.int32)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.requests.accept(request)

    def finalize(self) -> None:
        self.requests.close()
