from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load_file

from engine.errors import EngineError
from engine.pruned_head import Tensor, prune_head, read_tensors, write_tensors
from engine.vocabulary import END_TOKENS, SEMANTIC_CODES, read_vocabulary
from fakes.checkpoint import FIRST_SEMANTIC_ID, ROWS, write_llm

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 4


@pytest.fixture
def llm(tmp_path: Path) -> Path:
    """Write a language model in bfloat16 whose rows hold every bit pattern."""
    folder = tmp_path / "LLM"
    write_llm(folder)
    patterns = np.arange(ROWS * WIDTH, dtype=np.uint32).astype("<u2").view(np.uint8)
    other = np.frombuffer(b"\x80\x7f\xc0\xff\x01\x00", np.uint8)  # infinity, a NaN, a denormal
    tensors = {
        "model.embed_tokens.weight": Tensor("BF16", (ROWS, WIDTH), patterns),
        "model.norm.weight": Tensor("BF16", (3,), other),
    }
    write_tensors(tensors, folder / "model.safetensors")
    return folder


def pruned(llm: Path) -> Path:
    output = llm.with_name("pruned")
    output.mkdir()
    prune_head(llm, output)
    return output


def test_new_rows_are_the_old_ones_bit_for_bit(llm: Path) -> None:
    output = pruned(llm)

    old = read_tensors(llm / "model.safetensors")
    new = read_tensors(output / "model.safetensors")
    old_ids = json.loads((output / "id_map.json").read_text())["old_ids"]
    rows = old["model.embed_tokens.weight"].data.view("<u2").reshape(ROWS, WIDTH)
    assert new["model.embed_tokens.weight"].shape == (SEMANTIC_CODES + 2, WIDTH)
    kept = new["model.embed_tokens.weight"].data.view("<u2").reshape(-1, WIDTH)
    assert np.array_equal(kept, rows[old_ids])
    assert len(np.unique(kept)) > 30_000
    assert new["model.norm.weight"].data.tobytes() == old["model.norm.weight"].data.tobytes()


def test_the_map_has_the_codes_first_and_then_the_ends(llm: Path) -> None:
    output = pruned(llm)

    old_ids = json.loads((output / "id_map.json").read_text())["old_ids"]
    codes = list(range(FIRST_SEMANTIC_ID, FIRST_SEMANTIC_ID + SEMANTIC_CODES))
    assert old_ids == [*codes, *read_vocabulary(llm).end_ids]
    config = json.loads((output / "config.json").read_text())
    assert config["vocab_size"] == SEMANTIC_CODES + 2
    assert old_ids[config["eos_token_id"]] == read_vocabulary(llm).end_ids[1]


def test_a_prompts_embeddings_stay_whole(llm: Path) -> None:
    output = pruned(llm)

    (kept,) = read_tensors(output / "prompt_embeddings.safetensors").values()
    full = read_tensors(llm / "model.safetensors")["model.embed_tokens.weight"]
    assert (kept.dtype, kept.shape) == (full.dtype, full.shape)
    assert kept.data.tobytes() == full.data.tobytes()


def test_an_output_layer_of_its_own_is_pruned_too(llm: Path) -> None:
    tensors = read_tensors(llm / "model.safetensors")
    backwards = tensors["model.embed_tokens.weight"].rows(range(ROWS - 1, -1, -1))
    write_tensors({**tensors, "lm_head.weight": backwards}, llm / "untied.safetensors")
    (llm / "untied.safetensors").rename(llm / "model.safetensors")

    new = read_tensors(pruned(llm) / "model.safetensors")

    ids = read_vocabulary(llm).speech_ids
    assert new["lm_head.weight"].data.tobytes() == backwards.rows(ids).data.tobytes()
    assert new["lm_head.weight"].data.tobytes() != new["model.embed_tokens.weight"].data.tobytes()


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = Tensor("F32", (2, 3), values.view(np.uint8).ravel())

    write_tensors({"a": tensor, "b": tensor.rows([1])}, tmp_path / "x.safetensors")

    found = load_file(tmp_path / "x.safetensors")
    assert np.array_equal(found["a"], values)
    assert np.array_equal(found["b"], values[1:])


def test_weights_that_break_off_are_refused(llm: Path, tmp_path: Path) -> None:
    path = llm / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])

    with pytest.raises(EngineError, match=r"model\.safetensors has \d+ bytes, its header says "):
        prune_head(llm, tmp_path)


def test_weights_of_another_vocabulary_are_refused(llm: Path, tmp_path: Path) -> None:
    config = json.loads((llm / "config.json").read_text())
    (llm / "config.json").write_text(json.dumps({**config, "vocab_size": ROWS + 64}))

    with pytest.raises(EngineError, match=f"another vocabulary: {ROWS} rows"):
        prune_head(llm, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ids: ids.pop("<|bicodec_semantic_77|>"), "lacks <|bicodec_semantic_77|>"),
        (lambda ids: ids.pop(END_TOKENS[1]), r"lacks <|im_end|>"),
        (lambda ids: ids.update({"<|bicodec_semantic_5|>": 1}), "<|bicodec_semantic_5|> is id 1,"),
        (lambda ids: ids.update({"<|x|>": ROWS}), f"up to id {ROWS}, its weights have {ROWS} rows"),
    ],
    ids=["a code is missing", "an end is missing", "codes do not follow", "more ids than rows"],
)
def test_a_vocabulary_that_is_not_spark_tts_is_named(
    tmp_path: Path, change: object, words: str
) -> None:
    write_llm(tmp_path / "LLM", change)

    with pytest.raises(EngineError) as caught:
        read_vocabulary(tmp_path / "LLM")

    assert words in str(caught.value)
