"""BiCodec's decoder as a Triton model: windows that wait together share batches."""

from typing import Any

import triton_python_backend_utils as pb_utils

from speech_backend.parameters import read_parameters
from speech_backend.replies import reply
from speech_backend.serving import exit_with_server
from speech_backend.vocoder import INPUTS, Vocoder


class TritonPythonModel:
    """Triton's interface: build in initialize, delegate in execute."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the network and warm it up."""
        exit_with_server()
        self.vocoder = Vocoder.from_parameters(read_parameters(args))

    def execute(self, requests: list[Any]) -> list[Any]:
        """Decode all windows together."""
        return reply(pb_utils, requests, INPUTS, self.vocoder.decode)
