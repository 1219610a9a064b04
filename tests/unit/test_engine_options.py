"""The options of TensorRT-LLM's tools, against the help texts of release 0.17.0.post1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.commands.specs import spec_options
from engine.errors import EngineError
from engine.options import BUILD, CONVERT, Tool, check_extra, extra_arguments, parse_extra
from engine.spec import EngineSpec
from fakes.help_text import HELP, read_names, read_options

TOOLS = {"convert_checkpoint.py": CONVERT, "trtllm-build": BUILD}
README = (Path(__file__).parents[2] / "engine" / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (convert_checkpoint\.py|trtllm-build) \| (.+) \| (.+) \|$", re.MULTILINE)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_of_the_help_text_is_known_once_and_no_other(tool: str) -> None:
    options = TOOLS[tool]
    known = [*options.typed, *options.extra, *options.left_out]

    assert sorted(known) == sorted({*read_options(HELP[tool]), *read_names(HELP[tool])})


def test_an_option_with_two_names_is_known_by_both() -> None:
    assert {"max_decoder_seq_len", "max_seq_len"} <= read_names(HELP["trtllm-build"])


@pytest.mark.parametrize("tool", TOOLS)
def test_extra_options_take_the_values_that_the_help_text_names(tool: str) -> None:
    documented = read_options(HELP[tool])

    for name, kind in TOOLS[tool].extra.items():
        if isinstance(kind, tuple):
            assert documented[name] == kind, name
        else:
            assert (documented[name] is None) is (kind == "no value"), name


@pytest.mark.parametrize("tool", TOOLS)
def test_the_readme_has_a_row_for_every_option(tool: str) -> None:
    rows = {
        name: how
        for row_tool, names, how in ROW.findall(README)
        if row_tool == tool
        for name in re.findall(r"`(\w+)`", names)
    }

    assert rows == expected_rows(TOOLS[tool])


def expected_rows(options: Tool) -> dict[str, str]:
    fields = {
        name: field if " " in field else f"`{field}`" for name, field in options.typed.items()
    }
    extra = dict.fromkeys(options.extra, "extra argument")
    return fields | extra | {name: f"left out: {why}" for name, why in options.left_out.items()}


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("opt_num_tokens=16", ("opt_num_tokens", "16")),
        ("--opt-num-tokens=16", ("opt_num_tokens", "16")),
        ("fast_build", ("fast_build", "")),
        ("lora_dir=a,b", ("lora_dir", "a,b")),
    ],
)
def test_an_extra_option_is_written_as_the_tool_or_as_we_do(
    text: str, pair: tuple[str, str]
) -> None:
    assert parse_extra(text) == pair


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("opt_num_token", "1"), "has no option 'opt_num_token'; did you mean opt_num_tokens?"),
        (("qqq", "1"), "has no option 'qqq'; there are: opt_num_tokens, "),
        (("max_batch_size", "4"), "max_batch_size is not an extra one: it follows from max_batch"),
        (
            ("max_decoder_seq_len", "4"),
            "max_decoder_seq_len is not an extra one: it follows from max_s",
        ),
        (
            ("max_multimodal_len", "4"),
            "max_multimodal_len is not an extra one: it follows from pruned",
        ),
        (("max_beam_width", "4"), "max_beam_width is not used: a stream cannot take back"),
        (("context_fmha", "on"), "context_fmha is 'on'; allowed are: enable, disable"),
        (("fast_build", "yes"), "fast_build is 'yes'; it takes no value"),
        (("workers", ""), "workers is ''; it takes a whole number"),
        (("workers", "two"), "workers is 'two'; it takes a whole number"),
        (("visualize_network", ""), "visualize_network is ''; it takes a text"),
        (("lora_target_modules", "attn_q,attn_x"), "is 'attn_x'; allowed are: attn_qkv, "),
    ],
)
def test_a_wrong_extra_option_says_what_is_right(pair: tuple[str, str], words: str) -> None:
    with pytest.raises(EngineError) as caught:
        check_extra("trtllm-build", [pair])

    assert words in str(caught.value)


def test_an_extra_option_comes_once() -> None:
    with pytest.raises(EngineError, match="workers is given twice"):
        check_extra("trtllm-build", [("workers", "1"), ("workers", "2")])


def test_checked_options_become_arguments() -> None:
    given = [("fast_build", ""), ("workers", "2"), ("lora_target_modules", "attn_q,attn_k")]
    given.append(("lora_plugin", "auto"))

    check_extra("trtllm-build", given)

    expected = ["--fast_build", "--workers", "2", "--lora_target_modules", "attn_q", "attn_k"]
    assert extra_arguments(given) == [*expected, "--lora_plugin", "auto"]


@pytest.mark.parametrize(
    ("tool", "given", "other"),
    [
        ("trtllm-build", [("max_lora_rank", "8")], "lora_plugin"),
        ("trtllm-build", [("lora_dir", "x"), ("lora_plugin", "disable")], "lora_plugin"),
        ("convert_checkpoint.py", [("embedding_sharding_dim", "1")], "use_parallel_embedding"),
    ],
)
def test_an_option_that_needs_another_one_is_not_given_alone(
    tool: str, given: list[tuple[str, str]], other: str
) -> None:
    with pytest.raises(EngineError, match=f"{given[0][0]} has no effect without {other}; give"):
        check_extra(tool, given)


@pytest.mark.parametrize("option", ["dtype", "quantization", "kv_cache", "gpu"])
def test_the_help_says_what_is_taken_where_nothing_is_given(option: str) -> None:
    help_text = " ".join(spec_options().format_help().split())
    _, _, words = help_text.rpartition(f"--{option.replace('_', '-')} ")

    assert words[: words.index(")")].endswith(f" ({getattr(EngineSpec(), option)}")
