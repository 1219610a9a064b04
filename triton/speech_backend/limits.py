"""What a language model can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from speech_backend.serving import InvalidInputError

if TYPE_CHECKING:
    from speech_wire import GenerationRequest

MAX_FIRST_IDS = 1000
"""No first sound is made of more: a window has up to 512, and a new voice comes before."""


def check_generation(request: GenerationRequest, vocabulary: int, room: int) -> None:
    """Raise InvalidInputError for what cannot be asked.

    Ids are below `vocabulary`; `room` is the longest sequence, input and output.
    """
    _check_ids(request, vocabulary - 1)
    length = len(request.input_ids)
    if request.max_new_tokens < 1 or length + request.max_new_tokens > room:
        raise InvalidInputError(
            f"request_output_len is {request.max_new_tokens}, at least 1; after {length} input_ids "
            f"there is room for {max(0, room - length)}"
        )
    if not 0 <= request.first_ids <= MAX_FIRST_IDS:
        raise InvalidInputError(
            f"first_ids is {request.first_ids}; allowed are 0 to {MAX_FIRST_IDS}"
        )
    if not (request.temperature > 0 and request.top_k >= 0 and 0 <= request.top_p <= 1):
        raise InvalidInputError(
            f"temperature is {request.temperature}, above 0; runtime_top_k is {request.top_k}, at "
            f"least 0; runtime_top_p is {request.top_p}, from 0 to 1"
        )
    if not request.repetition_penalty > 0:
        raise InvalidInputError(f"repetition_penalty is {request.repetition_penalty}, above 0")


def _check_ids(request: GenerationRequest, highest: int) -> None:
    given = request.input_ids
    if given.min() < 0 or given.max() > highest:
        raise InvalidInputError(
            f"input_ids are {given.min()} to {given.max()}; allowed are 0 to {highest}"
        )
    if wrong := [end_id for end_id in request.end_ids if not 0 <= end_id <= highest]:
        raise InvalidInputError(f"end ids hold {wrong[0]}; allowed are 0 to {highest}")
    for first, last in request.allowed_ids:
        if not 0 <= first <= last <= highest:
            raise InvalidInputError(
                f"allowed_ids hold {first} to {last}; allowed are 0 to {highest}, in order"
            )
