"""The model that turns a recording into a voice's tokens: Spark-TTS's `audio_tokenizer`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.grpc import service_pb2

from gateway.backend.contracts import add_input, read_output
from gateway.errors import BackendFailedError, MisconfiguredError
from gateway.speech.types import VoiceTokens

if TYPE_CHECKING:
    import numpy.typing as npt

INPUTS = {"reference_wav", "reference_wav_len"}
OUTPUTS = ("global_tokens", "semantic_tokens")


@dataclass(frozen=True, slots=True)
class TokenizerContract:
    """What a tokenizer takes, read from its ModelConfig."""

    model: str
    is_batched: bool
    checkpoint: str

    @property
    def name(self) -> str:
        """What its tokens go by: those of another are none of its."""
        return f"{self.model} {self.checkpoint}"

    def request(self, samples: npt.NDArray[np.float32]) -> service_pb2.ModelInferRequest:
        """Return the protobuf that asks for the tokens of 16 kHz mono."""
        message = service_pb2.ModelInferRequest(model_name=self.model)
        length = np.array([len(samples)], np.int32)
        add_input(message, "reference_wav", samples, is_batched=self.is_batched)
        add_input(message, "reference_wav_len", length, is_batched=self.is_batched)
        for name in OUTPUTS:
            message.outputs.add(name=name)
        return message

    def tokens(self, response: service_pb2.ModelInferResponse) -> VoiceTokens:
        """Read the answer; raises BackendFailedError for what are no tokens.

        Upstream's declares INT32 [-1] and answers with INT64 and other ranks, so both pass.
        """
        outputs = zip(response.outputs, response.raw_output_contents, strict=True)
        try:
            given = {output.name: read_output(output, raw) for output, raw in outputs}
            tokens = VoiceTokens.of(*(given[name] for name in OUTPUTS))
        except (ValueError, KeyError) as error:
            raise self._no_voice(repr(error)) from error
        if len(tokens.semantic_tokens) == 0:
            raise self._no_voice("no semantic tokens")
        return tokens

    def _no_voice(self, detail: str) -> BackendFailedError:
        message = f"the answer of Triton's model '{self.model}' is no voice"
        return BackendFailedError(message, detail=detail)


def read_tokenizer(config: Any) -> TokenizerContract:
    """Read Triton's ModelConfig; raises MisconfiguredError for what is no tokenizer."""
    inputs = {tensor.name for tensor in config.input}
    outputs = {tensor.name for tensor in config.output}
    if not (inputs >= INPUTS and outputs >= set(OUTPUTS)):
        raise MisconfiguredError(
            f"Triton's model '{config.name}' is no tokenizer: it takes {sorted(inputs)} and gives "
            f"{sorted(outputs)}, a tokenizer takes {sorted(INPUTS)} and gives {sorted(OUTPUTS)}; "
            "see SPEECH_TOKENIZER_MODEL"
        )
    return TokenizerContract(
        model=config.name,
        is_batched=config.max_batch_size > 0,
        checkpoint=config.parameters["checkpoint"].string_value,
    )
