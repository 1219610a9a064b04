"""The stages of an utterance as models of the same Triton, called over its own gRPC port.

Not through the Python backend's own calls between models (BLS): there an inner request cannot
be cancelled, and memory grows; see triton/README.md.
"""

from speech_backend.loopback.channel import read_access
from speech_backend.loopback.stages import LoopbackStages, StageNames
from speech_backend.loopback.token_call import Patience
from speech_backend.stages import StageError

__all__ = ["LoopbackStages", "Patience", "StageError", "StageNames", "read_access"]
