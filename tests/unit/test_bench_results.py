"""Files of a run, the report made of them, and two runs compared."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gateway.__main__ import main
from gateway.bench.compare import compare
from gateway.bench.machine import describe
from gateway.bench.measure import Measured
from gateway.bench.report import render
from gateway.bench.requests import BenchError
from gateway.bench.results import (
    CSV_FILE,
    RequestFiles,
    read_requests,
    read_summary,
    write_summary,
)
from gateway.bench.summary import Distribution, Level, summarise

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {
    "started": "2026-01-01",
    "command": "speech-gateway bench",
    "target": "http://host",
    "model": "hibari",
    "voice": None,
    "format": "pcm",
    "texts": "5 texts",
    "buffer_seconds": 0.2,
    "audible_dbfs": -50.0,
    "interrupted": False,
    **describe(),
}


def one(number: int = 0, seconds: float = 0.1, level: str = "c1", **changes: Any) -> Measured:
    """Return a request that was heard after so many seconds; one begins each second."""
    measured = Measured(
        *(level, number, "a", 4, "listens", "ok", "", float(number), 0.0),
        first_byte_seconds=seconds,
        first_audible_seconds=seconds,
        first_heard_seconds=seconds,
        total_seconds=seconds + 0.5,
        audio_seconds=2.0,
        rtf=0.25,
        max_gap_seconds=0.5,
        arrivals=((seconds, 1.0), (seconds + 0.5, 2.0)),
    )
    return replace(measured, **changes)


def failed(number: int, outcome: str = "HTTP 500", detail: str = "why") -> Measured:
    return Measured("c1", number, "a", 4, "listens", outcome, detail, float(number), 0.0)


def save(folder: Path, requests: list[Measured], **about: Any) -> None:
    files = RequestFiles(folder)
    for measured in requests:
        files.write(measured)
    files.close()
    levels = {measured.level: measured for measured in requests}
    write_summary(
        folder,
        ABOUT | about,
        [summarise(name, [m for m in requests if m.level == name]) for name in levels],
    )


def test_a_distribution_is_that_of_its_values() -> None:
    found = Distribution.of(range(1, 102))

    assert found == Distribution(101, 1.0, 51.0, 51.0, 91.0, 96.0, 100.0, 101.0)
    assert Distribution.of([]) is None


def test_a_level_adds_up() -> None:
    requests = [one(0, 0.1), one(1, 0.3), failed(2), failed(3, "timeout")]
    requests += [one(4, 9.0, manner="hangs up", outcome="hung up", audio_seconds=0.5)]

    level = summarise("c1", requests, concurrency=1)

    assert (level.requests, level.ok, level.hung_up) == (5, 2, 1)
    assert level.failures == {"HTTP 500": 1, "timeout": 1}
    assert level.examples == {"HTTP 500": "why", "timeout": "why"}
    assert level.wall_seconds == 13.5
    assert level.audio_seconds == 4.5
    assert level.audio_seconds_per_second == pytest.approx(4.5 / 13.5)
    first, gaps = (level.distributions[n] for n in ("first_audible_seconds", "gap_seconds"))
    assert first is not None
    assert gaps is not None
    assert (first.count, first.min, first.p50, first.max) == (2, 0.1, pytest.approx(0.2), 0.3)
    assert (gaps.count, gaps.max) == (2, pytest.approx(0.5))


def test_files_give_back_what_was_written(tmp_path: Path) -> None:
    requests = [one(0), failed(1, detail='said "no", and\nmore')]

    save(tmp_path / "run", requests)

    assert read_requests(tmp_path / "run") == requests
    with (tmp_path / "run" / CSV_FILE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows] == ["ok", "HTTP 500"]
    assert rows[1]["detail"] == requests[1].detail
    summary = read_summary(tmp_path / "run")
    assert summary["levels"][0]["failures"] == {"HTTP 500": 1}
    assert summary["machine"]["cores"] >= 1
    assert summary["versions"]["speech-gateway"][0].isdigit()


def test_lines_are_there_before_the_run_has_ended(tmp_path: Path) -> None:
    files = RequestFiles(tmp_path)
    files.write(one())

    assert read_requests(tmp_path) == [one()]
    assert len((tmp_path / CSV_FILE).read_text(encoding="utf-8").splitlines()) == 2
    files.close()


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    save(tmp_path, [one()])

    with pytest.raises(BenchError, match="holds a run already"):
        RequestFiles(tmp_path)


def test_a_run_that_failed_before_its_first_request_leaves_nothing(tmp_path: Path) -> None:
    RequestFiles(tmp_path / "some" / "run").close()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    RequestFiles(tmp_path).close()

    assert tmp_path.is_dir()


class Page(HTMLParser):
    """What a page holds: its tags, its text, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        links = [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_stands_alone_and_shows_each_level() -> None:
    requests = [one(n) for n in range(20)] + [one(n, 0.2, "c2") for n in range(20)]
    triton = {
        "vocoder": {
            "requests": 20,
            "failed": 0,
            "executions": 20,
            "batch_sizes": {"1": 20},
            "mean_seconds": dict.fromkeys(
                ("queue", "compute_input", "compute_infer", "compute_output"), 0.0123
            ),
        }
    }
    levels = [
        summarise("c1", requests[:20], concurrency=1),
        replace(
            summarise("c2", requests[20:], concurrency=2),
            triton=triton,
            triton_notes=["vocoder was loaded anew"],
        ),
    ]

    page = Page(render(ABOUT, levels, requests))

    assert page.fetched == []
    assert page.tags.count("svg") == 6
    assert "script" not in page.tags
    assert "100.0 ms" not in page.text
    assert "0.100 s" in page.text
    assert "12.3 ms" in page.text
    assert "c2: vocoder was loaded anew" in page.text


def test_the_report_escapes_what_a_server_said() -> None:
    requests = [one(0), failed(1, detail="<script>alert(1)</script>")]

    page = Page(render(ABOUT, [summarise("c1", requests, concurrency=1)], requests))

    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text


def test_a_level_that_failed_altogether_can_be_shown() -> None:
    requests = [failed(0), failed(1)]

    page = Page(render(ABOUT, [summarise("c1", requests, rate=2.0)], requests))

    assert page.tags.count("svg") == 5


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


def test_a_summary_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path, kept = tmp_path / "summary.json", tmp_path / "kept"
    path.write_text("before", encoding="utf-8")
    kept.hardlink_to(path)

    write_summary(tmp_path, ABOUT, [])

    # Whoever reads the file that was there reads all of it.
    assert kept.read_text(encoding="utf-8") == "before"
    assert json.loads(path.read_text(encoding="utf-8"))["levels"] == []
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "summary.json"}


def test_a_summary_is_plain_json(tmp_path: Path) -> None:
    save(tmp_path, [one(), failed(1)])

    level = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["levels"][0]

    assert level.keys() == set(Level.__dataclass_fields__)
