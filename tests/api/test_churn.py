"""Tritons that come and go by the dozen leave nothing behind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from chaos.churn import Churn

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 8


def test_tritons_that_vanish_leave_no_channel_task_file_thread_or_series(tmp_path: Path) -> None:
    with Churn(tmp_path) as churn:
        before = churn.held()
        for _ in itertools.islice(rounds := churn.rounds(), ROUNDS):
            pass
        rounds.close()
        after = churn.held(before)

    assert after <= before
    assert churn.answers.keys() == {200}, churn.answers
