"""Experimental: a language model that can write nothing but speech, and so computes less.

Of the 166 000 rows of the embedding, which is the output layer as well, the 8 192 speech codes
and the two ends are kept and numbered from 0: 0.28 GB fewer to read for each token in bfloat16.
The rows of a prompt's other tokens are no longer in the model: TensorRT-LLM takes them with the
request, as `prompt_embedding_table`, under ids from the vocabulary's size upwards. They are kept
beside.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.checkpoint import EMBEDDING
from engine.errors import EngineError
from engine.vocabulary import read_json, read_vocabulary
from engine.weights import read_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

HEAD = "lm_head.weight"
WEIGHTS = "model.safetensors"
PROMPT_EMBEDDINGS = "prompt_embeddings.safetensors"
ID_MAP = "id_map.json"

HEADER_LENGTH = np.dtype("<u8")


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor as it lies in a file: its bytes are moved, never read as numbers.

    numpy has no bfloat16, so the library's own numpy part cannot read Spark-TTS's language model.
    """

    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]

    def rows(self, numbers: Sequence[int]) -> Tensor:
        """Return these rows as a tensor of their own."""
        picked = self.data.reshape(self.shape[0], -1)[list(numbers)].ravel()
        return replace(self, shape=(len(numbers), *self.shape[1:]), data=picked)


def prune_head(llm: Path, output: Path) -> dict[str, Any]:
    """Write the pruned model of the folder `llm` into `output`; return what to note of it.

    Besides the weights: `id_map.json`, `old_ids[new id]`, and all the rows of the embedding for
    prompts. Raises EngineError for weights in several files or without these rows.
    """
    vocabulary = read_vocabulary(llm)
    kept = vocabulary.speech_ids
    tensors = read_tensors(llm / WEIGHTS)
    full = tensors.get(EMBEDDING)
    if full is None or full.shape[0] != vocabulary.size:
        rows = "no rows" if full is None else f"{full.shape[0]} rows"
        raise EngineError(
            f"{llm / WEIGHTS} has another vocabulary: {rows} in {EMBEDDING}, config.json says "
            f"{vocabulary.size}"
        )
    pruned = {name: tensors[name].rows(kept) for name in (EMBEDDING, HEAD) if name in tensors}
    write_tensors({**tensors, **pruned}, output / WEIGHTS)
    write_tensors({EMBEDDING: full}, output / PROMPT_EMBEDDINGS)
    (output / ID_MAP).write_text(json.dumps({"old_ids": list(kept)}) + "\n", encoding="utf-8")
    _write_config(llm, output, len(kept))
    return {"vocabulary": len(kept)}


def _write_config(llm: Path, output: Path, size: int) -> None:
    config = read_json(llm / "config.json") | {"vocab_size": size, "eos_token_id": size - 1}
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    generation = llm / "generation_config.json"
    if generation.is_file():
        shutil.copyfile(generation, output / generation.name)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return a safetensors file's tensors, which stay in the file until they are used."""
    if not path.is_file():
        raise EngineError(f"{path} is missing; weights must be in one file")
    start, entries = read_header(path)
    data = np.memmap(path, np.uint8, "r")[start:]
    return {name: _tensor(entry, data) for name, entry in entries.items()}


def _tensor(entry: Mapping[str, Any], data: npt.NDArray[np.uint8]) -> Tensor:
    first, last = entry["data_offsets"]
    return Tensor(entry["dtype"], tuple(entry["shape"]), data[first:last])


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file; one after the other, so that memory holds no two of them."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        offsets = [end, end + tensor.data.nbytes]
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}
        end = offsets[1]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % HEADER_LENGTH.itemsize)
    with path.open("wb") as file:
        file.write(np.array(len(text), HEADER_LENGTH).tobytes() + text)
        for tensor in tensors.values():
            tensor.data.tofile(file)
