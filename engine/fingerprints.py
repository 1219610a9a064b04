"""What tells files and folders from others, by their content."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MANIFEST = "manifest.json"
"""Beside the files that it lists, and none of them."""
EDGE_BYTES = 2**20
"""Of a file of more than twice this size only the first and the last MiB are read, besides its
size: 4 GB of weights are checked in milliseconds, and what breaks off or is swapped is seen. A
bit that turned over in the middle is not."""
READ_BYTES = 2**22


def fingerprint(path: Path) -> dict[str, Any]:
    """Return size in bytes and SHA-256 of a file, of its two ends if it is large."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= 2 * EDGE_BYTES:
            data = file.read()
        else:
            data = file.read(EDGE_BYTES)
            file.seek(-EDGE_BYTES, os.SEEK_END)
            data += file.read(EDGE_BYTES)
    return {"bytes": size, "sha256": hashlib.sha256(data).hexdigest()}


def fingerprints(folder: Path) -> dict[str, dict[str, Any]]:
    """Return those of all files below `folder`, by path; hidden ones and the manifest are none."""
    return {name: fingerprint(path) for name, path in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if not any(part.startswith(".") for part in name.parts) and str(name) != MANIFEST:
            yield str(name), path


def digest(folder: Path) -> str:
    """Return what tells the files that a step made from others, 12 hexadecimal digits."""
    return _short(fingerprints(folder))


def digest_whole(folder: Path) -> str:
    """Return what tells the files below `folder` from any others, 12 hexadecimal digits.

    Fine-tuned weights can have the ends of those that they come from, so that each byte is read:
    2 GB take seconds.
    """
    return _short({name: sha256(path) for name, path in _files(folder)})


def digest_of(path: Path) -> str:
    """Return what tells a file or a folder from any others, 12 hexadecimal digits."""
    return digest_whole(path) if path.is_dir() else sha256(path)[:12]


def _short(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]


def sha256(path: Path) -> str:
    """Return that of a whole file, in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            found.update(data)
    return found.hexdigest()
