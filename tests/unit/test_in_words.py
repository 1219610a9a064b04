"""What the system refuses is said in a sentence, without its number."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.errors import ADVICE, in_words

if TYPE_CHECKING:
    from collections.abc import Callable


def write_full() -> None:
    Path("/dev/full").write_text("more than fits", encoding="utf-8")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (write_full, "the disk is full; make room, or choose another place"),
        (lambda: Path("/nowhere").read_bytes(), "/nowhere is not there; check its path"),
        (lambda: Path("/dev").read_bytes(), "/dev is a folder, where a file is to be; remove it"),
        (lambda: Path("/dev/null/x").mkdir(), "/dev/null/x is a file or lies below one, where a f"),
        (lambda: Path("/dev/null").mkdir(), "/dev/null is there already, and is no folder; remove"),
        (lambda: Path("/nowhere").rename("/dev/null/x"), "/dev/null/x"),
        (lambda: Path("/dev").readlink(), "/dev: Invalid argument"),
    ],
)
def test_the_file_and_what_to_do_are_named(act: Callable[[], object], words: str) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011  its words are what is looked at
        act()

    assert in_words(caught.value).startswith(words)
    assert "Errno" not in in_words(caught.value)


@pytest.mark.parametrize("number", ADVICE)
def test_none_says_more_than_it_knows(number: int) -> None:
    assert "None" not in in_words(OSError(number, os.strerror(number)))
    assert in_words(OSError("no number")) == "no number"


def test_a_user_who_may_not_is_told_which_file() -> None:
    found = in_words(PermissionError(errno.EACCES, "Permission denied", "/x"))

    assert found.startswith("/x is not for this user (permission denied); give it to this user")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["render", "FILE"], "FILE is there already, and is no folder; remove it, or choose ano"),
        (
            ["render", "FILE/x"],
            "FILE/x is a file or lies below one, where a folder is needed; chec",
        ),
        (["fixture", "--tiny", "FILE"], "FILE is a file or lies below one, where a folder is nee"),
        (["certs", "FILE"], "FILE is there already, and is no folder; remove it, or choose anoth"),
    ],
)
def test_a_file_for_a_folder_is_a_sentence(
    command: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    given = [word.replace("FILE", str(tmp_path / "file")) for word in command]

    assert main(given) == 1

    expected = words.replace("FILE", str(tmp_path / "file"))
    assert capsys.readouterr().err.startswith(f"error: {expected}")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["fixture", "--tiny", "/dev/null/x", "--seed", "-1"],
            "'-1' is no whole number from 0 to 2147483647",
        ),
        (
            ["fixture", "--tiny", "/dev/null/x", "--speech-seconds", "abc"],
            "'abc' is no number of seconds; 0.32 to 20.48 are, in steps of 0.32",
        ),
        (["all", "--work", "/x", "--max-batch", "x"], "'x' is no whole number from 1 to 21474836"),
        (["all", "--work", "/x", "--smoothquant", "2"], "'2' is no number from 0 to 1"),
        (["all", "--work", "/x", "--smoothquant", "much"], "'much' is no number from 0 to 1"),
        (["serve", "--probe-timeout", "1e300"], "'1e300' is no number of seconds from 0.001 to"),
        (["all", "--work", "x" * 300], "x: File name too long"),
        (["all", "--work", "/dev/null", "--dry-run"], "'/dev/null' is a file, where a folder is n"),
        (["download", "--work", "/x", "./here"], "'./here' is no repository; one is named owner/n"),
    ],
)
def test_a_value_that_cannot_be_is_named(
    command: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(command)

    assert words in capsys.readouterr().err
