"""The files of a run: a line for each request as it ends, and the summary at the end."""

from __future__ import annotations

import csv
import json
from contextlib import ExitStack
from dataclasses import asdict, fields
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from gateway.bench.measure import Measured
from gateway.bench.requests import BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.bench.summary import Level

CSV_FILE, JSONL_FILE, SUMMARY_FILE, REPORT_FILE = (
    *("requests.csv", "requests.jsonl"),
    *("summary.json", "report.html"),
)


_REQUEST = TypeAdapter(Measured)


class _SummaryLevel(BaseModel):
    name: str
    requests: int


class _Summary(BaseModel):
    """What must be in a summary that is to be compared."""

    format: str
    texts: str
    buffer_seconds: float
    audible_dbfs: float
    levels: list[_SummaryLevel]


class RequestFiles:
    """`requests.csv` (a row of figures) and `requests.jsonl` (the arrivals of audio as well).

    Each line is there as soon as its request has ended, so a run that is broken off keeps them.
    A folder that was made for them goes again where there was none. Raises BenchError where there
    is a run already or nothing can be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Path] = []
        self._open = ExitStack()
        self._rows: csv.DictWriter[str] | None = None
        try:
            self._prepare()
        except OSError as error:
            raise self._unwritable(error) from error

    def _prepare(self) -> None:
        if any((self._folder / name).exists() for name in (CSV_FILE, JSONL_FILE, SUMMARY_FILE)):
            raise BenchError(
                f"{self._folder} holds a run already; name another folder with --output"
            )
        self._made = [one for one in (self._folder, *self._folder.parents) if not one.exists()]
        self._folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=self._folder):
            pass

    def _unwritable(self, error: OSError) -> BenchError:
        return BenchError(
            f"cannot write into {self._folder}: {error.strerror}; name another folder with --output"
        )

    def write(self, measured: Measured) -> None:
        """Add a request."""
        if self._rows is None:
            self._rows = self._begin()
        self._rows.writerow(measured.row())
        self._jsonl.write(json.dumps(asdict(measured), ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close both files."""
        self._open.close()
        for folder in self._made if self._rows is None else ():
            folder.rmdir()

    def _begin(self) -> csv.DictWriter[str]:
        try:
            rows = (self._folder / CSV_FILE).open("w", encoding="utf-8", newline="", buffering=1)
            self._open.enter_context(rows)
            self._jsonl = (self._folder / JSONL_FILE).open("w", encoding="utf-8", buffering=1)
            self._open.enter_context(self._jsonl)
        except OSError as error:
            raise self._unwritable(error) from error
        names = [field.name for field in fields(Measured) if field.name != "arrivals"]
        writer = csv.DictWriter(rows, names)
        writer.writeheader()
        return writer


def write_summary(folder: Path, about: dict[str, Any], levels: Sequence[Level]) -> None:
    """Write what the run was (`about`) and each level's figures, as JSON: whole or not at all."""
    summary = {**about, "levels": [level.to_json() for level in levels]}
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    beside = folder / f"{SUMMARY_FILE}.part"
    beside.write_text(f"{text}\n", encoding="utf-8")
    beside.replace(folder / SUMMARY_FILE)


def read_summary(folder: Path) -> dict[str, Any]:
    """Return what `write_summary` wrote; raises BenchError."""
    path = folder / SUMMARY_FILE
    text = _text(path)
    try:
        _Summary.model_validate_json(text)
    except ValidationError as error:
        raise BenchError(f"{path} is no summary of a run ({_why(error)})") from error
    summary: dict[str, Any] = json.loads(text)
    return summary


def read_requests(folder: Path) -> list[Measured]:
    """Return the requests of a run; raises BenchError."""
    path = folder / JSONL_FILE
    requests = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        try:
            requests.append(_REQUEST.validate_json(line))
        except ValidationError as error:
            raise BenchError(
                f"{path}, line {number} is no request of a run ({_why(error)}): the file was cut "
                "off or changed"
            ) from error
    return requests


def _why(error: ValidationError) -> str:
    first = error.errors()[0]
    return ": ".join([*map(str, first["loc"]), first["msg"]])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}; name the folder of a finished run") from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path} is no text in UTF-8: {error.reason}") from error
