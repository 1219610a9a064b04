"""TensorRT-LLM's help texts, read as the options that they document."""

from __future__ import annotations

import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
HELP = {
    "convert_checkpoint.py": (GOLDEN / "convert_checkpoint_help.txt").read_text(encoding="utf-8"),
    "trtllm-build": (GOLDEN / "trtllm_build_help.txt").read_text(encoding="utf-8"),
}
USED = re.compile(r"\[?--(\w+)(?: \[?\{([\w.,-]+)\}| ([A-Z_]+))?")
DEFAULT = re.compile(r"\(default:\s+([^)]+)\)")


DESCRIBED = re.compile(r"^  -.*$", re.MULTILINE)
NAME = re.compile(r"(?:^  |, )--(\w+)")


def read_names(text: str) -> set[str]:
    """Return the names of all options that are described, with their other names."""
    return {name for line in DESCRIBED.findall(text) for name in NAME.findall(line)}


def read_options(text: str) -> dict[str, tuple[str, ...] | str | None]:
    """Return the usage's options: their choices, a placeholder, or None for a switch."""
    usage = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return {
        name: tuple(choices.split(",")) if choices else placeholder or None
        for name, choices, placeholder in USED.findall(usage)
    }


def read_defaults(text: str) -> dict[str, str]:
    """Return the defaults that the descriptions name."""
    described = re.split(r"\n  (?=--)", text.split("\n\n", 1)[1])
    found = {}
    for part in described:
        name = re.match(r"--(\w+)", part.strip())
        default = DEFAULT.search(part)
        if name and default:
            found[name[1]] = " ".join(default[1].split())
    return found
