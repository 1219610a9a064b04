"""Verifies a Triton from outside: ready, as the contract has it, and a sentence really spoken."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

from engine import checks
from engine.access import HEADER
from engine.checks import SENTENCE, Check, Heard
from engine.control import CALL_SECONDS, open_stub, spoken_request, words_of
from engine.errors import EngineError
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from speech_wire import LoopbackAccess

RESTRICTED = "This protocol is restricted"
"""What Triton says to callers without its secret, as if it was not there (UNAVAILABLE)."""
SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True)
class Verdict:
    """What a model of a Triton was found to be; `figures` are seconds, dB and counts by name."""

    address: str
    model: str
    triton: str
    checks: tuple[Check, ...]
    figures: Mapping[str, float]

    @property
    def passed(self) -> bool:
        """Whether everything is right."""
        return all(check.passed for check in self.checks)


class Verifier:
    """Looks at the models of one Triton. Raises EngineError where it cannot be asked at all."""

    def __init__(
        self,
        address: str,
        access: LoopbackAccess,
        timeout_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._stub = open_stub(address, access)
        self._metadata = access.metadata()
        self._has_tls = access.root is not None
        self._timeout_seconds = timeout_seconds
        self._clock = clock

    def speech_models(self) -> list[str]:
        """Return the models that make speech of a text."""
        names = self._statistics()
        speaking = [
            name for name in names if "target_text" in checks.named(self._config(name).input)
        ]
        if not speaking:
            served = ", ".join(names) or "none at all"
            raise EngineError(f"{self._address} has no model that speaks; it has {served}")
        return speaking

    def verify(self, model: str, seed: int | None = None) -> Verdict:
        """Look at a model and have it speak; with a `seed` it says the same each time."""
        triton = self._ask("ServerMetadata", service_pb2.ServerMetadataRequest()).version
        before = self._statistics()
        if model not in before:
            served = ", ".join(before) or "none at all"
            raise EngineError(f"{self._address} has no model '{model}' loaded; it has {served}")
        config = self._config(model)
        if seed is not None and "seed" not in checks.named(config.input):
            raise EngineError(f"--seed {seed} has no effect: model '{model}' takes none")
        heard, failure = self._hear(model, config, seed)
        samples, sample_rate_hz = heard.samples(), checks.rate(heard.chunks, config)
        figures = checks.figures(heard, samples, sample_rate_hz)
        counted = checks.difference(before, self._statistics())
        found = (
            self._check_ready(model),
            checks.check_contract(config),
            checks.check_stream(heard, failure),
            checks.check_length(figures),
            checks.check_loudness(samples, figures),
            checks.check_statistics(model, counted),
        )
        requests = {f"requests_{name}": count for name, (count, _) in counted.items()}
        return Verdict(self._address, model, triton, found, figures | requests)

    def _ask(self, method: str, request: Any) -> Any:
        try:
            call = getattr(self._stub, method)
            return call(request, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            if RESTRICTED in words_of(error):
                raise EngineError(self._refusal()) from error
            is_silent = error.code() in SILENT
            how = "does not answer" if is_silent else f"refuses {method}"
            words = words_of(error) + (self._hint(error.details()) if is_silent else "")
            raise EngineError(f"{self._address} {how}: {words}") from error

    def _hint(self, details: str) -> str:
        """Say what gRPC does not: a server that does not take what it is shown just hangs up."""
        if "Hostname Verification" in details:
            return "; the name in its certificate is another one, and --tls-name says which"
        if "unable to get local issuer" in details:
            return "; --tls-root names the authority that signed its certificate"
        if "Socket closed" not in details:
            return ""
        what = "TLS (--tls-root)"
        if self._has_tls:
            what = "a certificate of an authority that it knows (--tls-certificate)"
        return f"; so does one that wants {what}"

    def _refusal(self) -> str:
        is_sent = any(name.startswith(HEADER) for name, _ in self._metadata)
        return (
            f"{self._address} refuses whoever lacks its secret, and "
            f"{'the one that was sent is another' if is_sent else 'none was sent'}; --secret-file "
            "names the file that its `serve` was given"
        )

    def _config(self, model: str) -> Any:
        return self._ask("ModelConfig", service_pb2.ModelConfigRequest(name=model)).config

    def _statistics(self) -> dict[str, tuple[int, int]]:
        """Return how many requests of each model succeeded and failed."""
        answer = self._ask("ModelStatistics", service_pb2.ModelStatisticsRequest())
        return {
            model.name: (model.inference_stats.success.count, model.inference_stats.fail.count)
            for model in answer.model_stats
        }

    def _check_ready(self, model: str) -> Check:
        server = self._ask("ServerReady", service_pb2.ServerReadyRequest()).ready
        ready = self._ask("ModelReady", service_pb2.ModelReadyRequest(name=model)).ready
        words = {True: "ready", False: "not ready"}
        return Check("ready", server and ready, f"server {words[server]}, model {words[ready]}")

    def _hear(self, model: str, config: Any, seed: int | None) -> tuple[Heard, str]:
        """Return what came, and the words of a failure."""
        request = spoken_request(model, SENTENCE, set(checks.named(config.input)), seed)
        heard, started = Heard(), self._clock()
        call = self._stub.ModelStreamInfer(
            iter([request]), timeout=self._timeout_seconds, metadata=self._metadata
        )
        try:
            # To the end of the stream: to cancel it right after FINAL can crash the server.
            for message in call:
                if message.error_message:
                    return heard, message.error_message
                self._take(message.infer_response, heard, started)
        except grpc.RpcError as error:
            return heard, self._failure(error)
        except ValueError as error:
            return heard, str(error)
        finally:
            call.cancel()
        return heard, ""

    def _failure(self, error: Any) -> str:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            return words_of(error)
        return f"it did not end within --timeout {self._timeout_seconds:g} s (DEADLINE_EXCEEDED)"

    def _take(self, response: Any, heard: Heard, started: float) -> None:
        heard.has_ended |= response.parameters["triton_final_response"].bool_param
        if not response.outputs:
            return
        heard.total_seconds = self._clock() - started
        if not heard.chunks:
            heard.first_seconds = heard.total_seconds
        heard.chunks.append(PcmChunk.from_tensors(_arrays(response)))


def _arrays(response: Any) -> dict[str, Any]:
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {
        output.name: deserialize_bytes_tensor(raw)
        if output.datatype == "BYTES"
        else np.frombuffer(raw, triton_to_np_dtype(output.datatype))
        for output, raw in pairs
    }
