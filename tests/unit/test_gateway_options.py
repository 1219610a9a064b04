"""Each command of `speech-gateway` offers what it uses, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = {"--host", "--port"}
TRITON = {"--triton", "--models"}
USED = {
    "up": {*SERVICE, *TRITON, "--model-dir"},
    "serve": {*SERVICE, *TRITON, "--triton-metrics"},
    "say": {*SERVICE, "--output", "--model", "--voice", "--url", "--api-key"},
    "check": TRITON,
    "stats": {*TRITON, "--watch", "--json"},
    "replicas": {*SERVICE, "--url", "--json", "--watch"},
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", USED)
def test_a_command_offers_what_it_uses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])

    words = capsys.readouterr().out.partition("options:")[2].split()
    offered = {word.rstrip(",") for word in words if word.startswith("--")}
    assert offered == USED[command] | {"--help"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["say", "Hi.", "--url", "http://a", "--port", "1"], "--url says where the service is: le"),
        (["replicas", "--url", "http://a", "--host", "b"], "--url says where the service is: leav"),
        (["replicas", "--triton", "h:1"], "unrecognized arguments: --triton"),
        (["stats", "--port", "1"], "unrecognized arguments: --port"),
        (["stats", "--watch", "x"], "'x' is no time to wait; give seconds above 0"),
        (
            ["say", "Hi.", "--url", "foo"],
            "'foo' is no base URL: must be like http://127.0.0.1:8080",
        ),
        (
            ["replicas", "--url", "http://[::1"],
            "'http://[::1' is no base URL: must be like http://",
        ),
        (["replicas", "--url", "http://h:x"], "[::1]:8080, with a port from 1 to 65535"),
        (["replicas", "--url", "http://h:99999"], "'http://h:99999' is no base URL: must be like"),
        (["replicas", "--url", "http://h#x"], "a base URL has nothing after a ? or a #"),
        (["say", "Hi.", "--url="], "--url: '' is no base URL"),
        (["say", ""], "a value is empty ('', after 'say'): give one, or leave the flag out"),
        (["up", "--model-dir", ""], "a value is empty ('', after '--model-dir')"),
        (["serve", "--triton-metrics="], "a value is empty (--triton-metrics='')"),
        (["check", "--host", "h"], "unrecognized arguments: --host"),
    ],
)
def test_what_has_no_effect_is_a_usage_error(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "secret",
    [
        "http://user:passw0rd@127.0.0.1:9",
        "http://passw0rd@127.0.0.1:9",
        "http://user:passw0rd@[::1",
        "http://127.0.0.1:9/?key=passw0rd",
        "grpc://user:passw0rd@127.0.0.1:9",
        "passw0rd@127.0.0.1:9",
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        *(["say", "Hi.", "--url"], ["replicas", "--url"]),
        *(["bench"], ["bench", "--triton"]),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(
    command: list[str],
    secret: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code: object
    try:
        code = main([*command, secret])
    except SystemExit as ended:
        code = ended.code

    assert code
    said = "".join(capsys.readouterr())
    assert "passw0rd" not in said
    assert "a base URL " in said
    assert list(tmp_path.iterdir()) == []
