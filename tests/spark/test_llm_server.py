"""The language model behind a real Triton, asked as tensorrt_llm is."""

from __future__ import annotations

import queue
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
import torch
from transformers import Qwen2ForCausalLM
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype

from engine.installation import find_installation
from engine.llm import llm_spec
from engine.render import model_source, render_model
from engine.runs import Run
from engine.server import Listen, TritonServer
from speech_wire import INVALID_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.triton]

PROMPT = np.arange(100, 120, dtype=np.int32)
RPC_SECONDS = 60
SAMPLED = {
    "temperature": np.array([0.8], np.float32),
    "runtime_top_k": np.array([50], np.int32),
    "runtime_top_p": np.array([0.95], np.float32),
}
STOP = {"stop": np.array([True])}


class Server:
    """A Triton with the one model, and its client."""

    def __init__(self, address: str, metrics: str) -> None:
        self._metrics = metrics
        channel = grpc.insecure_channel(address)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def call(self, new_ids: int, request_id: str, **inputs: Any) -> Call:
        return Call(self._stub, request(new_ids, request_id, **inputs))

    def ids(self, new_ids: int, request_id: str, **inputs: Any) -> list[int]:
        return self.call(new_ids, request_id, **inputs).whole()

    def count(self, outcome: str) -> float:
        with urllib.request.urlopen(self._metrics, timeout=RPC_SECONDS) as response:
            lines = response.read().decode().splitlines()
        name = f'speech_model_requests_total{{model="llm",outcome="{outcome}"'
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


class Call:
    """One request; its answers are read with `next`, `send` says more over the same stream."""

    def __init__(self, stub: Any, first: Any) -> None:
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._rpc = stub.ModelStreamInfer(iter(self._outgoing.get, None), timeout=RPC_SECONDS)
        self._open = 0
        self.errors: list[str] = []
        self.answers = 0
        self.send(first)

    def send(self, message: Any) -> None:
        self._outgoing.put(message)
        self._open += 1

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the ids of each answer, until all that was sent has its FINAL."""
        for message in self._rpc:
            response = message.infer_response
            if message.error_message:
                self.errors.append(message.error_message)
            elif response.outputs:
                self.answers += 1
                yield ids_of(response)
            if response.parameters["triton_final_response"].bool_param:
                self._open -= 1
                if self._open == 0:
                    self._outgoing.put(None)

    def whole(self) -> list[int]:
        """Read to the end of the stream, where nothing may be missing."""
        ids = [token_id for answer in self for token_id in answer]
        assert self._open == 0
        return ids


def request(new_ids: int, request_id: str, **inputs: Any) -> Any:
    message = service_pb2.ModelInferRequest(model_name="llm", id=request_id)
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    arrays = {
        "input_ids": PROMPT,
        "input_lengths": np.array([len(PROMPT)], np.int32),
        "request_output_len": np.array([new_ids], np.int32),
        "streaming": np.array([True]),
        **inputs,
    }
    for name, array in arrays.items():
        shape = (1, *array.shape)
        message.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def ids_of(response: Any) -> list[int]:
    shapes = {output.name: list(output.shape) for output in response.outputs}
    raw = dict(zip(shapes, response.raw_output_contents, strict=True))
    ids = np.frombuffer(raw["output_ids"], np.int32).tolist()
    assert shapes == {"output_ids": [1, 1, len(ids)], "sequence_length": [1, 1]}
    assert np.frombuffer(raw["sequence_length"], np.int32).tolist() == [len(ids)]
    return ids


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("repository")
    render_model(llm_spec(checkpoint), model_source("llm"), repository)
    listen = Listen("127.0.0.1", free_port(), free_port())
    with closing(Run()) as run:
        installation = find_installation(run.folder)
        triton = TritonServer(installation, repository, ["llm"], listen, run)
        try:
            triton.start(timeout_seconds=90)
            metrics = f"http://{listen.metrics_address()}/metrics"
            yield Server(listen.grpc_address(), metrics)
        finally:
            triton.stop()


def test_the_likeliest_ids_are_those_of_transformers_generate(
    server: Server, checkpoint: Path
) -> None:
    theirs = Qwen2ForCausalLM.from_pretrained(checkpoint / "LLM", local_files_only=True)
    prompt = torch.from_numpy(PROMPT.astype(np.int64))[None]
    options = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
    expected = theirs.generate(
        prompt, max_new_tokens=40, eos_token_id=-1, pad_token_id=0, **options
    )[0, len(PROMPT) :]

    assert server.ids(40, "1") == expected.tolist()


def test_many_at_once_each_get_what_their_seed_gives_alone(server: Server) -> None:
    def sampled(seed: int) -> list[int]:
        return server.ids(50, str(seed), random_seed=np.array([seed], np.uint64), **SAMPLED)

    alone = [sampled(seed) for seed in range(1, 17)]

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(sampled, range(1, 17)))

    assert together == alone
    assert len({tuple(ids) for ids in alone}) == 16


def test_ids_are_streamed_in_fewer_answers_than_ids(server: Server) -> None:
    call = server.call(300, "1")

    ids = call.whole()

    assert len(ids) == 300
    assert 2 < call.answers < 300


def test_without_streaming_there_is_one_answer(server: Server) -> None:
    call = server.call(30, "1", streaming=np.array([False]))

    assert len(call.whole()) == 30
    assert call.answers == 1


def test_the_output_ends_with_end_id(server: Server) -> None:
    ids = server.ids(40, "1")
    end_id = ids[20]

    ended = server.ids(40, "1", end_id=np.array([end_id], np.int32))

    assert ended == ids[: ids.index(end_id) + 1]


def test_nothing_is_written_but_what_is_allowed(server: Server) -> None:
    ids = server.ids(40, "1", allowed_ids=np.array([[3, 4], [9, 9]], np.int32), **SAMPLED)

    assert len(ids) == 40
    assert set(ids) <= {3, 4, 9}


def test_a_stop_with_the_same_id_ends_the_request_and_no_other(server: Server) -> None:
    cancelled = server.count("cancelled")
    long, other = server.call(30_000, "41"), server.call(60, "42")
    answers = iter(long)
    next(answers)

    long.send(request(1, "41", **STOP))
    after = sum(len(ids) for ids in answers)

    assert after < 1000
    assert long.errors == []
    assert len(other.whole()) == 60
    assert server.count("cancelled") == cancelled + 1


def test_a_request_that_cannot_be_is_an_error_of_its_own(server: Server) -> None:
    wrong = server.call(5, "51", input_ids=np.full(20, -3, np.int32))
    right = server.call(5, "52")

    assert (wrong.whole(), len(right.whole())) == ([], 5)
    (error,) = wrong.errors
    assert INVALID_INPUT in error
    assert "input_ids are -3 to -3; allowed are 0 to" in error


def test_a_request_that_breaks_the_contract_fails_alone(server: Server) -> None:
    failed = server.count("failed")
    wrong = server.call(5, "61", input_lengths=np.array([21], np.int32))
    right = server.call(5, "62")

    assert (wrong.whole(), len(right.whole())) == ([], 5)
    assert "'input_lengths' is 21, of 20 input_ids" in wrong.errors[0]
    assert server.count("failed") == failed + 1
