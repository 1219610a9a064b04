"""The adapter for models that answer once: requests that Triton hands over together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from speech_backend.serving import InvalidInputError
from speech_wire import INVALID_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from speech_wire import Tensors

Reply: TypeAlias = "Callable[[Sequence[Tensors]], Sequence[Tensors]]"

log = logging.getLogger(__name__)


def reply(
    pb_utils: Any, requests: Sequence[Any], inputs: Sequence[str], answer: Reply
) -> list[Any]:
    """Return a response for each request; `answer` takes the flat input tensors of all at once.

    Where it raises, each request is tried alone, so that only the one at fault fails.
    """
    try:
        answers = answer([_read(pb_utils, request, inputs) for request in requests])
        return [_response(pb_utils, tensors) for tensors in answers]
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to one request
        if len(requests) > 1:
            return [reply(pb_utils, [one], inputs, answer)[0] for one in requests]
        return [_refusal(pb_utils, requests[0], error)]


def _read(pb_utils: Any, request: Any, inputs: Sequence[str]) -> Tensors:
    tensors = {name: pb_utils.get_input_tensor_by_name(request, name) for name in inputs}
    if missing := [name for name, tensor in tensors.items() if tensor is None]:
        raise ValueError(f"the request has no {', '.join(missing)}; render the model again")
    return {name: tensor.as_numpy().reshape(-1) for name, tensor in tensors.items()}


def _response(pb_utils: Any, tensors: Tensors) -> Any:
    return pb_utils.InferenceResponse(
        output_tensors=[
            pb_utils.Tensor(name, np.ascontiguousarray(array)) for name, array in tensors.items()
        ]
    )


def _refusal(pb_utils: Any, request: Any, error: Exception) -> Any:
    if isinstance(error, InvalidInputError):
        words = f"{INVALID_INPUT}{error}"
    else:
        log.error("request %s failed", request.request_id(), exc_info=error)
        words = f"the model failed: {type(error).__name__}: {error}"
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(words))
