"""The contract between the gateway and a speech model: names, dtypes, shapes, and nothing else."""

from speech_wire.contract import (
    CANCEL_PARAMETER,
    INPUTS,
    INVALID_INPUT,
    OUTPUTS,
    ContractError,
    ModelSpec,
    Queue,
    Tensors,
    TensorSpec,
)
from speech_wire.generation import (
    DRAWS_SEEDS,
    GENERATION_INPUTS,
    GENERATION_OUTPUTS,
    OWN_GENERATION_INPUTS,
    GenerationRequest,
    NewIds,
)
from speech_wire.loopback import LOOPBACK_VARIABLE, LoopbackAccess
from speech_wire.messages import PcmChunk, SynthesisRequest

__all__ = [
    "CANCEL_PARAMETER",
    "DRAWS_SEEDS",
    "GENERATION_INPUTS",
    "GENERATION_OUTPUTS",
    "INPUTS",
    "INVALID_INPUT",
    "LOOPBACK_VARIABLE",
    "OUTPUTS",
    "OWN_GENERATION_INPUTS",
    "ContractError",
    "GenerationRequest",
    "LoopbackAccess",
    "ModelSpec",
    "NewIds",
    "PcmChunk",
    "Queue",
    "SynthesisRequest",
    "TensorSpec",
    "Tensors",
]
