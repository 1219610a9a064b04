"""What is said of settings that are wrong, and of others because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_depends_on_a_wrong_value_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECH_TRITON_ADDRESS", "grpc://triton:8001")

    with pytest.raises(SettingsError) as wrong:
        load_settings()

    assert "SPEECH_MODELS" not in str(wrong.value)
    assert "Undefined" not in str(wrong.value)


@pytest.mark.parametrize("text", ["0.05", "30.5", "inf", "nan"])
def test_triton_is_asked_never_or_so_often_that_its_figures_are_new(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SPEECH_STATISTICS_INTERVAL_SECONDS", text)

    with pytest.raises(SettingsError, match="SPEECH_STATISTICS_INTERVAL_SECONDS"):
        load_settings()
