"""What the stand-ins for TensorRT-LLM's tools have in common: checked arguments, and mishaps.

They run as programs of their own, outside the project's environment. STAND_IN is `TOOL=MISHAP`:
`fail` ends with 7 after some words, `hang` writes half and waits, and ends with 9 on SIGTERM,
`worker` does so, too, and has a process of its own that writes on and on,
`short` ends well without weights, `empty` with a file of nothing, `other` makes something else,
`plain` does not quantize.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fakes.help_text import HELP, read_defaults, read_options

MANY = {"lora_dir", "lora_target_modules"}
OTHER_TYPES = {"smoothquant": float}


def read_arguments(tool: str, arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse as the help text says; whatever it does not name ends the program with 2."""
    parser = argparse.ArgumentParser(tool, allow_abbrev=False)
    defaults = read_defaults(HELP[tool])
    for name, kind in read_options(HELP[tool]).items():
        if kind is None:
            parser.add_argument(f"--{name}", action="store_true")
            continue
        parser.add_argument(
            f"--{name}",
            choices=kind if isinstance(kind, tuple) else None,
            nargs="+" if name in MANY else None,
            default=defaults.get(name),
            type=OTHER_TYPES.get(name, str),
        )
    return parser.parse_args(arguments)


def mishap(tool: str) -> str:
    """Return how this tool is to go wrong, if it is."""
    named, _, kind = os.environ.get("STAND_IN", "").partition("=")
    return kind if named == tool else ""


def go_wrong(kind: str, output: Path) -> None:
    """Fail or wait, with a half-written file left behind."""
    if kind == "fail":
        print("[E] the first line of the tool's trouble", file=sys.stderr)
        print("[E] no kernel for this layer", file=sys.stderr)
        sys.exit(7)
    if kind in ("hang", "worker"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
        output.mkdir(parents=True, exist_ok=True)
        (output / "rank0.engine").write_bytes(b"half")
        (output / "rank0.safetensors").write_bytes(b"half")
        pid = os.getpid() if kind == "hang" else _work_on(output)
        print(f"waiting pid={pid}", flush=True)
        while True:
            signal.pause()


def _work_on(output: Path) -> int:
    """Start a process that writes into the folder until it is killed; return its number."""
    code = f"""
import pathlib
output = pathlib.Path({str(output)!r})
while True:
    output.mkdir(parents=True, exist_ok=True)
    (output / "rank1.engine").write_bytes(b"of the run before")
"""
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
