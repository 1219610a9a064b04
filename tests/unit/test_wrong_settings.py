"""A value that a setting cannot have is one sentence, of `check` and of the service alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.app import create_app
from gateway.settings import SettingsError, load_settings

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
NAMES = re.findall(r"^(?:# )?(SPEECH_\w+)=", EXAMPLE, re.MULTILINE)
GARBAGE = "not / a value!"
ODD = {"SPEECH_CACHE_DIR": "/dev/null/cache"}
"""Where garbage would be the name of a folder that may be made."""


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_garbage_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, ODD.get(name, GARBAGE))

    assert main(["check"]) == 1

    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {name} = ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    with pytest.raises(SettingsError, match=f"^{name} = "):
        create_app(load_settings())


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("_SECONDS", "_SHARE"))])
def test_no_number_is_without_end(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match=f"^{name} = "):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("models", "hibari,hibari", "'hibari' is there twice"),
        ("models", "hibari,a b", "'a b' is no name of a model"),
        ("tokenizer_model", "a/b", "'a/b' is no name of a model"),
        ("triton_metadata", "x=a,y=b,x=c", "(not shown): entry 3 has the name of entry 1"),
        ("model_dir", "nowhere", "must be empty or the folder of a checkpoint, and is no folder"),
        ("triton_server_name", "https://a", "must be empty or the name in Triton's certificate"),
        ("triton_address", "modal://a b", "'a b' is no name of a Dict: 1 to 63 letters, digits"),
        ("triton_address", "modal://", "'' is no name of a Dict"),
        ("host", "http://127.0.0.1", "must be an address of this machine: 127.0.0.1, or 0.0.0.0"),
        ("host", "", "must be an address of this machine"),
    ],
)
def test_what_is_wrong_is_said(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SPEECH_{name.upper()}", value)

    with pytest.raises(SettingsError) as wrong:
        load_settings()

    assert words in str(wrong.value)
