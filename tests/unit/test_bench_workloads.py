"""Texts and recordings from files, manifests and data sets."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from fakes.triton import tone
from gateway.bench.requests import BenchError, Utterance
from gateway.bench.workloads import built_in, from_rows, manifest, text_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_built_in_texts_go_from_short_to_long(language: str) -> None:
    lengths = [len(utterance.text) for utterance in built_in(language)]

    assert lengths == sorted(lengths)
    assert lengths[-1] > 10 * lengths[0]


def test_each_line_of_a_file_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("One.\n\n  Two, 二。 \n", encoding="utf-8")

    assert text_file(file) == [Utterance("line1", "One."), Utterance("line3", "Two, 二。")]


def test_a_manifest_brings_recordings_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs" / "anna.wav").write_bytes(b"RIFF")
    file = tmp_path / "list.txt"
    file.write_text("a|What she says.|wavs/anna.wav|Speak this.\nb|||And this.\n", encoding="utf-8")

    assert manifest(file) == [
        Utterance("a", "Speak this.", b"RIFF", "What she says."),
        Utterance("b", "And this."),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a|b|c", "line 1: 3 fields; it is id|prompt_text|prompt_wav|text"),
        ("a|b|none.wav|c", "line 1: none.wav: No such file"),
        ("", "has no text"),
    ],
)
def test_a_wrong_manifest_names_the_line(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "list.txt"
    file.write_text(line, encoding="utf-8")

    with pytest.raises(BenchError) as caught:
        manifest(file)

    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"none\.txt cannot be read"):
        text_file(tmp_path / "none.txt")


def row(audio: dict[str, Any]) -> dict[str, Any]:
    return {"id": 7, "prompt_text": "Said.", "prompt_audio": audio, "target_text": "Say."}


def test_rows_of_a_data_set_bring_files_or_samples() -> None:
    samples = tone(16_000, 16_000)
    file, array = from_rows(
        [
            row({"bytes": b"fLaC", "path": "x.flac"}),
            row({"array": samples, "sampling_rate": 16_000}),
        ]
    )

    assert file == Utterance("7", "Say.", b"fLaC", "Said.")
    assert array.reference is not None
    read, rate_hz = soundfile.read(io.BytesIO(array.reference))
    assert rate_hz == 16_000
    assert np.abs(read - samples).max() < 1e-4


def test_a_data_set_without_the_columns_names_them() -> None:
    with pytest.raises(BenchError, match=r"no column.*target_text.*it has.*'text'"):
        from_rows([{"id": 1, "text": "x"}])

    with pytest.raises(BenchError, match=r"prompt_audio has.*path"):
        from_rows([row({"path": "x"})])
