"""No option of the engine's commands is given for nothing: what would change nothing is refused."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import COMMANDS, main
from engine.commands.server import add_access_options, add_tuning_options, read_access, read_tuning
from engine.errors import EngineError
from fakes.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SPARK = ["render", "out", "--model", "spark_tts", "--model-dir", "Spark-TTS-0.5B"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path("Spark-TTS-0.5B"))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails and leaves nothing; return its one sentence."""
    there = sorted(Path().iterdir())

    assert main(arguments) == 1

    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert sorted(Path().iterdir()) == there
    return error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--model-dir x --revision abc", "--revision abc has no effect: the weights are those in"),
        ("--model-dir x --repository a/b", "--repository a/b has no effect: the weights are tho"),
        ("--smoothquant 0.5", "--smoothquant 0.5 has no effect: it is for --quantization smooth"),
        ("--extra-convert-arg group_size=8", "group_size has no effect: it is for quantization in"),
    ],
)
@pytest.mark.parametrize("command", ["all", "convert", "build"])
def test_what_an_engine_would_not_be_made_of_is_refused(
    command: str, arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refusal(capsys, command, "--work", "work", "--dry-run", *arguments.split())

    assert words in found


@pytest.mark.parametrize(
    "option",
    [
        *("--model-dir=Spark-TTS-0.5B", "--llm=transformers", "--engine-dir=x"),
        *("--kv-cache-fraction=0.5", "--max-sequence-tokens=9000", "--instances=vocoder=2"),
        *("--device=cpu", "--dtype=float32", "--pruned-head", "--compile", "--look-ahead=67"),
        *("--first-chunk=25", "--triton-address=127.0.0.1:8001"),
    ],
)
def test_what_is_for_spark_is_refused_where_spark_is_not_rendered(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it says what is the default."""
    found = refusal(capsys, "render", "out", option)

    assert found.startswith(f"error: {option.partition('=')[0]}")
    assert found.endswith("for spark_tts, not for hibari; add --model spark_tts, or leave it out\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--engine-dir x", "--engine-dir x has no effect: it is for --llm tensorrtllm, and the la"),
        ("--llm vllm --device cuda --engine-dir x", "and the language model is vllm"),
        ("--kv-cache-fraction 0.5", "it is for --llm tensorrtllm and --llm vllm, and the languag"),
        ("--compile", "--compile has no effect: on a CPU nothing is joined; add --device cuda"),
        ("--instances vocoder=2 --instances vocoder=3", "--instances names 'vocoder' twice"),
        ("--model spark_tts", "--model names 'spark_tts' twice"),
        (
            "--max-sequence-tokens 40000",
            "--max-sequence-tokens is 40000, the language model in {folder} was made for 32768",
        ),
    ],
)
def test_what_this_spark_would_not_use_is_refused(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refusal(capsys, *SPARK, *arguments.split())

    assert words.format(folder=Path("Spark-TTS-0.5B").resolve()) in found


def test_a_revision_is_for_repositories_that_name_none(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["a/b@v1", "c/d@v2", "--revision", "v3"]

    found = refusal(capsys, "download", "--work", "work", "--dry-run", *given)

    assert "--revision v3 has no effect: each repository names its own" in found
    assert main(["download", "--work", "work", "--dry-run", "a/b@v1", "c/d", "--revision=v3"]) == 0
    printed = capsys.readouterr().out
    assert "work/weights/a--b@v1--all" in printed
    assert "work/weights/c--d@v3--all" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("verify 127.0.0.1:1 --model a --model a", "--model names 'a' twice; give it once"),
        ("download --work work a/b@main c/d a/b", "download names 'a/b@main' twice; give it once"),
    ],
)
def test_a_name_is_given_once(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, *arguments.split())


@pytest.mark.parametrize("count", ["0", "65", "100000", "two"])
def test_a_stage_has_as_many_processes_as_a_machine_can_bear(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*SPARK, "--instances", f"vocoder={count}"])

    words = f"'vocoder={count}' is no MODEL=COUNT, the count from 1 to 64"
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--trace-rate 5", "--trace-rate 5 has no effect: nothing is traced; add --trace-url"),
        ("--rate-limit G:4 --rate-limit G:2", "--rate-limit names 'G' twice"),
        ("--rate-limit G:4:0 --rate-limit G:4:0", "--rate-limit names 'G:0' twice"),
    ],
)
def test_a_tuning_that_changes_nothing_is_refused(arguments: str, words: str) -> None:
    parser = argparse.ArgumentParser()
    add_tuning_options(parser)

    with pytest.raises(EngineError, match=words):
        read_tuning(parser.parse_args(arguments.split()))


def test_a_pair_of_the_models_own_is_for_mutual_tls(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_access_options(parser)
    (tmp_path / "x").touch()
    names = ("certificate", "key", "own-certificate", "own-key")
    given = [word for name in names for word in (f"--tls-{name}", str(tmp_path / "x"))]

    with pytest.raises(EngineError, match="has no effect: models show it under mutual"):
        read_access(parser.parse_args(given))


def test_a_resource_of_two_devices_is_two() -> None:
    parser = argparse.ArgumentParser()
    add_tuning_options(parser)

    tuning = read_tuning(parser.parse_args(["--rate-limit", "G:4:0", "--rate-limit", "G:4:1"]))

    assert tuning.rate_limits == ("G:4:0", "G:4:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all", "--work", "", "--dry-run"], "a value is empty ('', after '--work'): give one"),
        (["all", "--work=", "--dry-run"], "a value is empty (--work=''): give one"),
        (["all", "--work", "w", "--dry-run", "--revision", ""], "('', after '--revision')"),
        (["render", ""], "('', after 'render')"),
    ],
)
def test_an_empty_value_is_not_the_default(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert words in capsys.readouterr().err


def test_every_option_is_read_somewhere() -> None:
    """By its name, or by a table that has it."""
    read = set[str]()
    for path in (ROOT / "engine" / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "options":
                read.add(node.attr)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                inside = ast.walk(node.value)
                read |= {str(each.value) for each in inside if isinstance(each, ast.Constant)}

    options = set(offered())
    assert len(options) > 50
    assert {name for name in options if not {name, name.removeprefix("tls_")} & read} == set()


def offered() -> Iterator[str]:
    """Yield what each option of each command is called."""
    commands = argparse.ArgumentParser().add_subparsers()
    for command in COMMANDS:
        command.add(commands)
    for parser in commands.choices.values():
        yield from (action.dest for action in parser._actions if action.dest != "help")
