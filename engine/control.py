"""Talks to the Triton that is being supervised: health, reload, and a sentence really spoken."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from engine.errors import EngineError
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from speech_wire import LoopbackAccess

CALL_SECONDS = 5.0
LOAD_SECONDS = 120.0
MAX_MESSAGE_BYTES = 2**31 - 1
PROBE_GENDER = "female"


def open_stub(address: str, access: LoopbackAccess) -> Any:
    """Return a stub of Triton's gRPC service, with TLS where `access` names a root.

    Raises EngineError for a file that cannot be read.
    """
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        # gRPC's own back-off grows to two minutes; a Triton starts in seconds.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
    ]
    if access.root is None:
        channel = grpc.insecure_channel(address, options)
    else:
        if access.name:
            options.append(("grpc.ssl_target_name_override", access.name))
        pems = [_pem(path) for path in (access.root, access.key, access.certificate)]
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(*pems), options)
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


def _pem(path: str | None) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}") from error


class TritonControl:
    """A blocking connection to one Triton, for the process that started it.

    `access` is what every caller needs, `admin_key` opens what is for this one alone (loading
    models).
    """

    def __init__(
        self, address: str, access: LoopbackAccess, admin_key: str, metrics_address: str
    ) -> None:
        self._metrics_url = f"http://{metrics_address}/metrics"
        self._stub = open_stub(address, access)
        self._metadata = access.metadata()
        self.last_failure = "it says so itself"
        self._admin = (*self._metadata, ("triton-grpc-protocol-admin", admin_key))

    def is_ready(self) -> bool:
        """Whether the server says that it and its models are ready (a dead stub is not seen)."""
        try:
            request = service_pb2.ServerReadyRequest()
            return bool(
                self._stub.ServerReady(request, timeout=CALL_SECONDS, metadata=self._metadata).ready
            )
        except grpc.RpcError as error:
            self.last_failure = words_of(error)
            return False

    def reload(self, model: str) -> None:
        """Unload and load a model: the only way in which Triton starts a dead stub anew."""
        unload = service_pb2.RepositoryModelUnloadRequest(model_name=model)
        load = service_pb2.RepositoryModelLoadRequest(model_name=model)
        try:
            self._stub.RepositoryModelUnload(unload, timeout=CALL_SECONDS, metadata=self._admin)
            self._stub.RepositoryModelLoad(load, timeout=LOAD_SECONDS, metadata=self._admin)
        except grpc.RpcError as error:
            raise EngineError(
                f"model '{model}' could not be reloaded: {words_of(error)}"
            ) from error

    def speaks(self, model: str) -> bool:
        """Whether the model makes speech of a text itself, instead of serving one that does."""
        return "target_text" in self._inputs(model)

    def _inputs(self, model: str) -> set[str]:
        request = service_pb2.ModelConfigRequest(name=model)
        try:
            answer = self._stub.ModelConfig(request, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            raise EngineError(f"model '{model}' has no configuration: {words_of(error)}") from error
        return {tensor.name for tensor in answer.config.input}

    def finished_requests(self, model: str) -> float | None:
        """Return how many requests the model has finished, None where it does not count them."""
        try:
            with urllib.request.urlopen(self._metrics_url, timeout=CALL_SECONDS) as response:  # noqa: S310  http
                lines = response.read().decode().splitlines()
        except OSError:
            return None
        labels = (f'model="{model}"', 'outcome="finished"')
        for line in lines:
            if line.startswith("speech_model_requests_total{") and all(la in line for la in labels):
                return float(line.rsplit(" ", 1)[1])
        return None

    def speak(self, model: str, text: str, timeout_seconds: float) -> int:
        """Return how many samples the model made of `text`; raises EngineError if it cannot."""
        request = spoken_request(model, text, self._inputs(model))
        call = self._stub.ModelStreamInfer(
            iter([request]), timeout=timeout_seconds, metadata=self._metadata
        )
        samples = 0
        try:
            # To the end of the stream: to cancel it right after FINAL can crash the server.
            for message in call:
                if message.error_message:
                    raise EngineError(f"model '{model}' failed: {message.error_message}")
                samples += _waveform_samples(message.infer_response)
        except grpc.RpcError as error:
            raise EngineError(f"model '{model}' did not speak: {words_of(error)}") from error
        finally:
            call.cancel()
        if samples == 0:
            raise EngineError(f"model '{model}' answered without any sample")
        return samples


def spoken_request(model: str, text: str, inputs: set[str], seed: int | None = None) -> Any:
    """Return a ModelInferRequest for `text`, with what a model of these inputs needs beside it.

    A `seed` is for models that take one, which then say the same each time.
    """
    request = service_pb2.ModelInferRequest(model_name=model, id="probe")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    # A model that has no voice of its own makes one up if it is told of what gender.
    tensors = SynthesisRequest(text, gender=PROBE_GENDER, seed=seed).to_tensors()
    for name, array in tensors.items():
        if name in inputs:
            dtype = np_to_triton_dtype(array.dtype)
            request.inputs.add(name=name, datatype=dtype, shape=array.shape)
            is_text = dtype == "BYTES"
            raw = serialize_byte_tensor(array).item() if is_text else array.tobytes()
            request.raw_input_contents.append(raw)
    return request


def _waveform_samples(response: service_pb2.ModelInferResponse) -> int:
    for output in response.outputs:
        if output.name == "waveform":
            return int(np.prod(output.shape))
    return 0


def words_of(error: Any) -> str:
    """Return what a failed call says, in one line."""
    return f"{error.code().name} {error.details()}"
