"""A reference recording's tokens as a Triton model, one recording at a time."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.audio_tokenizer import INPUTS, AudioTokenizer
from speech_backend.parameters import read_parameters
from speech_backend.replies import reply
from speech_backend.serving import exit_with_server


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the networks and warm them up."""
        exit_with_server()
        self.tokenizer = AudioTokenizer.from_parameters(read_parameters(args))

    def execute(self, requests: list[Any]) -> list[Any]:
        """Tokenise each recording."""
        return reply(pb_utils, requests, INPUTS, self.tokenizer.answer)
