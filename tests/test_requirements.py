"""The table of requirements in gateway/README.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "gateway" / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([a-z_/]+)::(test_\w+)`")
REASONS = ("does not apply: ", "not built: ", "not yet", "measured, not asserted: ")


def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / f"{file}.py").read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{file}::{name}" for file, name in NAMED.findall(TABLE) if name not in functions_of(file)
    ]

    assert missing == []


def test_every_row_names_a_test_or_says_why_there_is_none() -> None:
    rows = {int(number): proof for number, proof in ROW.findall(TABLE)}

    assert len(rows) > 80
    assert list(rows) == sorted(rows)
    assert [
        n for n, proof in rows.items() if not NAMED.search(proof) and not proof.startswith(REASONS)
    ] == []
