"""Two runs compared: what changed, and what cannot be compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.runs import ABOUT, failed, one, save
from gateway.__main__ import main
from gateway.bench.compare import compare
from gateway.bench.requests import BenchError

if TYPE_CHECKING:
    from pathlib import Path


def runs(folder: Path, factor: float, spread: float = 0.05, count: int = 60) -> tuple[Path, Path]:
    """Save a run and another whose answers take `factor` times as long."""
    dice = np.random.default_rng(5)
    for name, times in (("a", 1.0), ("b", factor)):
        seconds = 0.2 * times * (1 + spread * dice.standard_normal(count))
        save(folder / name, [one(n, float(s)) for n, s in enumerate(seconds)])
    return folder / "a", folder / "b"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.3, "more"), (0.7, "less"), (1.0, "no clear difference")]
)
def test_a_difference_is_told_from_chance(tmp_path: Path, factor: float, verdict: str) -> None:
    changes = compare(*runs(tmp_path, factor)).changes

    [p50] = [c for c in changes if (c.figure, c.percentile) == ("first_audible_seconds", 50)]
    assert p50.verdict == verdict
    assert p50.after / p50.before == pytest.approx(factor, rel=0.05)
    assert p50.low < p50.difference < p50.high


def test_runs_of_different_loads_are_not_compared(tmp_path: Path) -> None:
    save(tmp_path / "a", [one()])
    save(tmp_path / "b", [one()], format="mp3")
    save(tmp_path / "c", [one(level="c9")])

    with pytest.raises(BenchError, match="format is 'pcm' and 'mp3'"):
        compare(tmp_path / "a", tmp_path / "b")
    with pytest.raises(BenchError, match="none is shared"):
        compare(tmp_path / "a", tmp_path / "c")
    with pytest.raises(BenchError, match="name the folder of a finished run"):
        compare(tmp_path / "a", tmp_path / "none")


def test_levels_that_cannot_be_compared_are_named(tmp_path: Path) -> None:
    many, few = [one(n) for n in range(10)], [one(n, level="c2") for n in range(4)]
    save(tmp_path / "a", [*many, *few])
    save(tmp_path / "b", [*many, *few, one(level="c4")])
    save(tmp_path / "d", [*many, one(level="c8"), failed(9)])

    assert compare(tmp_path / "a", tmp_path / "b").notes == [
        f"c2: 4 plain requests that were answered whole in {tmp_path / 'a'}, 10 are needed",
        f"c4 is in {tmp_path / 'b'} alone",
    ]
    found = compare(tmp_path / "a", tmp_path / "d")
    assert found.notes == [f"c2 is in {tmp_path / 'a'} alone", f"c8 is in {tmp_path / 'd'} alone"]
    assert {change.level for change in found.changes} == {"c1"}


def test_runs_without_a_comparison_are_a_failure_that_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "a", [one(n) for n in range(4)])

    code = main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "a")])

    assert code == 1
    said = capsys.readouterr()
    assert "c1: 4 plain requests" in said.err
    assert said.out == ""


SUMMARY = json.dumps({**ABOUT, "levels": [{"name": "c1", "requests": 10}]})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("summary.json", "{", "is no summary of a run"),
        ("summary.json", "[]", "is no summary of a run"),
        ("summary.json", "{}", "format: Field required"),
        ("summary.json", SUMMARY.replace('"c1"', "1"), "is no summary of a run"),
        ("summary.json", SUMMARY.replace("[{", "{").replace("}]", "}"), "is no summary of a run"),
        ("requests.jsonl", "\xff", "is no text in UTF-8"),
        ("requests.jsonl", '{"level": "c1"}', "line 1 is no request of a run"),
        ("requests.jsonl", "[]", "line 1 is no request of a run"),
        ("requests.jsonl", "", "holds 0 of the 10 requests of c1"),
    ],
)
def test_a_damaged_run_is_named_with_what_is_expected(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    for folder in ("a", "b"):
        save(tmp_path / folder, [one(n) for n in range(10)])
    path = tmp_path / "b" / name
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(BenchError) as error:
        compare(tmp_path / "a", tmp_path / "b")

    assert str(path) in str(error.value)
    assert words in str(error.value)


def test_a_file_that_is_cut_off_is_found(tmp_path: Path) -> None:
    save(tmp_path, [one(n) for n in range(10)])
    path = tmp_path / "requests.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")

    with pytest.raises(BenchError, match=r"requests.jsonl, line 10 is no request of a run"):
        compare(tmp_path, tmp_path)
