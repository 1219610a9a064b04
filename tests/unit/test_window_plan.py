from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speech_backend.windows import WINDOW_LENGTHS, WindowPlan, bucket


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"look_ahead": 0}, "look_ahead is 0, allowed are 1 to 67"),
        ({"look_ahead": 68}, "look_ahead is 68, allowed are 1 to 67"),
        ({"min_chunk": 0}, "min_chunk 0, first_chunk 25"),
        ({"min_chunk": 26}, "min_chunk 26, first_chunk 25"),
        ({"max_chunk": 24}, "max_chunk 24 must not fall"),
        ({"growth": 0.9}, r"growth is 0\.9, at least 1"),
        ({"comfort_seconds": -1.0}, r"comfort_seconds is -1\.0, at least 0"),
        ({"max_chunk": 379}, "a window of 513 tokens is longer than 512"),
    ],
)
def test_a_plan_that_cannot_work_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WindowPlan(**options)


@given(st.integers(0, WINDOW_LENGTHS[-1]))
def test_a_window_is_padded_to_the_next_fixed_length(length: int) -> None:
    assert bucket(length) == min(allowed for allowed in WINDOW_LENGTHS if allowed >= length)
