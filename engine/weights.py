"""Files of weights: whether they are whole, by what they say of themselves; none is loaded."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = ("*.safetensors", "pytorch_model*.bin")
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

WRONG_SHAPE = (AttributeError, IndexError, KeyError, TypeError, ValueError)

ZIP, PICKLE = b"PK", b"\x80"
"""How torch's files begin: since 1.6, and before."""


def check_weights(folder: Path) -> dict[str, Any]:
    """Return the shapes of a folder's tensors, as far as files say them; torch's own do not.

    Raises EngineError where it has no file of weights, or one that is not whole.
    """
    paths = sorted(path for pattern in PATTERNS for path in folder.glob(pattern))
    if not paths:
        raise EngineError(
            f"{folder} has no weights ({' or '.join(PATTERNS)}); is the checkpoint complete?"
        )
    shapes: dict[str, Any] = {}
    for path in paths:
        if path.suffix == ".bin":
            _check_torch(path)
        else:
            shapes |= {name: entry.get("shape") for name, entry in read_header(path)[1].items()}
    return shapes


def _check_torch(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(2)
    # A zip's list of contents stands at its end.
    is_whole = zipfile.is_zipfile(path) if start == ZIP else start[:1] == PICKLE
    if not is_whole:
        raise EngineError(
            f"{path} is no whole file of torch's ({path.stat().st_size} bytes); fetch it again"
        )


def read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return where a safetensors file's data begins, in bytes, and the entries of its tensors.

    Raises EngineError for a file that is none, or not as long as its header says.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        start = LENGTH_BYTES + length
        if size < LENGTH_BYTES or length > MAX_HEADER_BYTES:
            raise EngineError(f"{path} is no safetensors file ({size} bytes); fetch it again")
        text = file.read(length)
    try:
        header = json.loads(text) if start <= size else {}
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = start + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
    except (*WRONG_SHAPE, RecursionError) as error:
        raise EngineError(
            f"{path} is no safetensors file, its header cannot be read ({error!r}); fetch it again"
        ) from error
    if end == start == size:
        raise EngineError(f"{path} holds no tensors; fetch it again")
    if end != size:
        raise EngineError(
            f"{path} has {size} bytes, its header says {end}: it is not whole; fetch it again"
        )
    return start, entries
