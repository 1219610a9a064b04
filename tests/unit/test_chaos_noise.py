"""What chaos takes for right and for wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chaos.noise import CHUNK_SAMPLES, Said

SAID = Said(17, "anna", 2)
PCM = SAID.samples().tobytes()
ALONE = replace(SAID, sentences=1).samples().tobytes()
BOBS = replace(SAID, voice="bob").samples().tobytes()
ANOTHERS = replace(SAID, number=18).samples().tobytes()


def test_the_whole_is_right() -> None:
    assert SAID.fault_of(PCM, is_whole=True) is None


def test_a_connection_that_was_cut_may_have_carried_a_part() -> None:
    assert SAID.fault_of(PCM[:5001], is_whole=False) is None


@pytest.mark.parametrize("missing", [1, 2, 2 * CHUNK_SAMPLES, len(PCM) - len(ALONE)])
def test_an_end_that_looks_like_one_is_wrong_before_the_last_sample(missing: int) -> None:
    assert "as if whole" in (SAID.fault_of(PCM[:-missing], is_whole=True) or "")


@pytest.mark.parametrize("others", [BOBS, ANOTHERS], ids=["another voice", "another request"])
@pytest.mark.parametrize("at_sample", [0, CHUNK_SAMPLES, len(PCM) // 2 - 100])
def test_what_belongs_to_another_is_wrong(others: bytes, at_sample: int) -> None:
    mixed = PCM[: 2 * at_sample] + others[2 * at_sample :]

    assert f"sample at {at_sample} " in (SAID.fault_of(mixed, is_whole=False) or "")


def test_a_gap_a_repeated_chunk_and_a_tail_are_wrong() -> None:
    samples = np.frombuffer(PCM, np.int16)
    gap = np.delete(samples, slice(100, 101)).tobytes()
    chunk = samples[:CHUNK_SAMPLES]
    repeated = np.concatenate([chunk, chunk, samples[CHUNK_SAMPLES:-CHUNK_SAMPLES]]).tobytes()

    assert SAID.fault_of(gap, is_whole=False)
    assert SAID.fault_of(repeated, is_whole=True)
    assert "instead of" in (SAID.fault_of(PCM + b"\0\0", is_whole=True) or "")
