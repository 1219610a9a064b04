"""What `make bench-hop`, `bench-peers` and `bench-perf-analyzer` say of flags that cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FROM_ONE = "whole numbers from 1 up are possible"
MISSING = "there is no program 'none'; make bench-perf-analyzer installs it"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=TESTS, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bench.hop", "--rounds", "0"), f"'0' is given; {FROM_ONE}"),
        (("bench.hop", "--soak", "x"), "'x' is given; whole numbers from 16 up"),
        (("bench.hop", "--pairs", "1"), "'1' is given; whole numbers from 4 up are possible"),
        (
            ("bench.peers", "--python", "/bin/true", "--requests", "8"),
            "numbers from 16 up are possible",
        ),
        (("bench.peers", "--python", "none"), "there is no program 'none'; make bench-peers"),
        (("bench.perf_analyzer", "/bin/true", "--rounds", "0"), f"'0' is given; {FROM_ONE}"),
        (("bench.perf_analyzer", "/bin/true", "--clients", "1,x"), f"'x' is given; {FROM_ONE}"),
        (("bench.perf_analyzer", "none"), MISSING),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    arguments: tuple[str, ...], words: str
) -> None:
    done = run(*arguments)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("tool", ["bench.hop", "bench.peers"])
def test_help_shows_the_defaults(tool: str) -> None:
    assert "(5)" in run(tool, "--help").stdout
