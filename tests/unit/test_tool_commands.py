"""The commands that have no help text to be checked against, and what they need of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.build import build_command
from engine.convert import Scripts, convert_command
from engine.errors import EngineError
from engine.gpu import find_gpus
from engine.spec import EngineSpec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = EngineSpec()


def test_fp8_is_made_by_the_script_that_can(tmp_path: Path) -> None:
    """Its help text is not among those checked here."""
    spec = EngineSpec(quantization="fp8", kv_cache="fp8", calibration="speech")
    script = Scripts(tmp_path).find(spec)

    command = convert_command(spec, tmp_path / "LLM", tmp_path / "out", script)

    assert script == tmp_path / "quantization" / "quantize.py"
    assert " ".join(command).endswith(
        "--dtype bfloat16 --tp_size 1 --pp_size 1 --qformat fp8 --kv_cache_dtype fp8 "
        "--calib_dataset speech"
    )
    built = build_command(spec, tmp_path, tmp_path)
    assert built[built.index("--gemm_plugin") + 1] == "fp8"


def test_a_pruned_head_needs_room_for_its_prompts_embeddings(tmp_path: Path) -> None:
    command = build_command(EngineSpec(pruned_head=True), tmp_path, tmp_path)

    assert command[-2:] == ["--max_prompt_embedding_table_size", str(16 * 1024)]


@pytest.mark.parametrize("examples", ["qwen", "models/core/qwen"])
def test_the_script_is_found_where_the_release_keeps_it(tmp_path: Path, examples: str) -> None:
    script = tmp_path / examples / "convert_checkpoint.py"
    script.parent.mkdir(parents=True)
    script.touch()

    assert Scripts(tmp_path).find(SPEC) == script
    assert Scripts(tmp_path, tmp_path / "mine.py").find(SPEC) == tmp_path / "mine.py"


def test_a_driver_that_hangs_or_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for text, words in (
        ("exec sleep 600", "nvidia-smi does not answer within 0.5 s; the driver hangs"),
        ("echo 'Tesla P4, [N/A], 450.1'", "says 'Tesla P4, [N/A], 450.1', without a compute cap"),
        ("echo nonsense", "nvidia-smi says 'nonsense', without a compute capability"),
    ):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

        with pytest.raises(EngineError) as caught:
            find_gpus(0.5)
        assert words in str(caught.value)
