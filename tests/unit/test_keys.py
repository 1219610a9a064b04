"""API keys: read, kept as digests, never shown."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gateway.keys import ApiKey, find_key, parse_keys
from gateway.settings import SettingsError, load_settings

SECRET = "correct-horse"  # noqa: S105
OTHER = "battery-staple"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names(found: tuple[ApiKey, ...]) -> list[str]:
    return [key.name for key in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (SECRET, ["key-1"]),
        (f"alice:{SECRET}", ["alice"]),
        (f" alice:{SECRET} ,{OTHER}, ", ["alice", "key-2"]),
        (f"alice:{SECRET}:with:colons", ["alice"]),
    ],
)
def test_keys_have_the_name_that_is_given_or_their_place(text: str, expected: list[str]) -> None:
    assert names(parse_keys(text)) == expected


def test_a_key_is_found_by_the_whole_of_it() -> None:
    known = parse_keys(f"alice:{SECRET},bob:{OTHER},carol:{SECRET}:x")

    found = [find_key(known, given.encode()) for given in (SECRET, OTHER, f"{SECRET}:x")]

    assert [key and key.name for key in found] == ["alice", "bob", "carol"]
    assert not [
        g
        for g in (b"", SECRET[:-1].encode(), SECRET.upper().encode(), b"\xff\xfe")
        if find_key(known, g)
    ]


class Digest(bytes):
    """A digest that may only be compared by what takes the same time for every value."""

    __hash__ = bytes.__hash__

    def __eq__(self, _: object) -> bool:
        raise AssertionError("compared with ==")


def test_every_digest_is_compared_and_none_with_an_operator_that_stops_early() -> None:
    """Neither where a key stands nor how much of it is right may show in the time it takes."""
    known = [
        ApiKey(name, Digest(hashlib.sha256(key.encode()).digest()))
        for name, key in (("alice", SECRET), ("bob", OTHER), ("carol", "third-of-them"))
    ]
    one_by_one = iter(known)

    found = find_key(one_by_one, SECRET.encode())

    assert found is known[0]
    assert next(one_by_one, None) is None


def test_nothing_that_is_kept_or_shown_has_the_key_in_it() -> None:
    Path("keys").write_text(f"bob {OTHER}\n", encoding="utf-8")
    settings = load_settings(
        api_keys=f"alice:{SECRET}", api_keys_file="keys", client_api_key="sent-as-it-is"
    )

    shown = f"{settings!r} {settings} {settings.known_keys!r} {[str(v) for _, v in settings]}"

    assert names(settings.known_keys) == ["alice", "bob"]
    assert not [key for key in settings.known_keys if repr(key.digest) in shown]
    assert not [secret for secret in (SECRET, OTHER, "sent-as-it-is") if secret in shown]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alice:seven77", "entry 1: a key has at least 8"),
        ("seven77", "entry 1: a key has at least 8"),
        (f"{SECRET},alice:two words", "entry 2: a key has at least 8 .* visible ASCII"),
        ("alice:müller-schmidt", "visible ASCII"),
        (f":{SECRET}", "entry 1: a name has 1 to 64"),
        (f"a b:{SECRET}", "entry 1: a name has"),
        (f"anonymous:{SECRET}", "is not 'anonymous'"),
        (f"alice:{SECRET},alice:{OTHER}", "entry 2: the name 'alice' is there twice"),
        (f"alice:{SECRET},bob:{SECRET}", "entry 2: 'bob' has the same key as 'alice'"),
        (" , ", "holds no key"),
    ],
)
def test_a_wrong_key_is_named_by_its_place_and_never_shown(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=rf"SPEECH_API_KEYS = \(not shown\): .*{words}") as no:
        load_settings(api_keys=text)

    chain = f"{no.value} {no.value.__cause__}"
    assert not [part for part in (SECRET, OTHER, "seven77", "two", "müller") if part in chain]


def test_a_file_has_names_comments_and_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\nalice\t{SECRET}\r\n  # more\n{OTHER}\n", encoding="utf-8")

    settings = load_settings(api_keys_file=str(file))

    assert names(settings.known_keys) == ["alice", "line-5"]
    assert str(settings.api_keys_file) == str(file)
    assert find_key(settings.known_keys, OTHER.encode()) == settings.known_keys[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"alice {SECRET}\nshort\n".encode(), "line 2: a key has at least 8"),
        (f"alice {SECRET}  # her laptop\n".encode(), "line 1: must be 'name key' or 'key'"),
        (f"alice {SECRET}\nalice {OTHER}\n".encode(), "line 2: the name 'alice' is there twice"),
        (f"{SECRET}\n\n{SECRET}\n".encode(), "line 3: 'line-3' has the same key as 'line-1'"),
        (f"bob {OTHER}\n".encode(), "'bob' has the same key as 'env'"),
        (f"env {SECRET}\n".encode(), "the name 'env' is there twice"),
        (b"# none yet\n", "holds no key: the service would be open to everyone"),
        (b"", "holds no key"),
        (b"alice \xff\xfe\xfd12345678\n", "is not UTF-8"),
    ],
)
def test_a_wrong_file_is_named_with_the_line(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)

    with pytest.raises(SettingsError, match=rf"SPEECH_API_KEYS_FILE = '{file}': .*{words}") as no:
        load_settings(api_keys=f"env:{OTHER}", api_keys_file=str(file))

    assert SECRET not in str(no.value)


@pytest.mark.parametrize(("file", "words"), [("nowhere", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(file: str, words: str) -> None:
    with pytest.raises(SettingsError, match=rf"API_KEYS_FILE = '{file}': .*be read: {words}"):
        load_settings(api_keys_file=file)


def test_the_key_that_is_sent_must_fit_a_header_and_is_not_shown() -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_CLIENT_API_KEY = \(not shown\)") as no:
        load_settings(client_api_key="müller")

    assert "müller" not in f"{no.value} {no.value.__cause__}"


@pytest.mark.parametrize("value", ["lists,dogs", "all"])
def test_an_unknown_word_of_what_is_open_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_OPEN_WITHOUT_KEY.*'lists', 'docs' or"):
        load_settings(open_without_key=value)


def test_nothing_but_the_probes_may_be_open() -> None:
    assert load_settings(open_without_key="").open_without_key == ()
