"""Files of a run and the report made of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from fakes.runs import ABOUT, failed, one, save
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
