"""Keeps voices as tokens, in memory and in files that outlive the process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from gateway.speech.types import VoiceTokens

log = logging.getLogger("speech")

FORMAT = 1


def cache_key(*parts: str) -> str:
    """Return the SHA-256 of these parts, which name a voice and what made its tokens."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class VoiceCache:
    """Tokens by key; each voice is a JSON file of the directory, None: memory alone.

    Processes may share a directory: a file is complete or not there, and the first one stays. A
    file that cannot be read, or is something else, is warned of and written anew; where nothing
    can be written, memory remains.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._memory: dict[str, VoiceTokens] = {}

    async def get(self, key: str) -> VoiceTokens | None:
        """Return the tokens, None where they are not known."""
        if key not in self._memory and self._directory is not None:
            tokens = await asyncio.to_thread(_read_or_warn, self._path(self._directory, key))
            if tokens is not None:
                self._memory.setdefault(key, tokens)
        return self._memory.get(key)

    async def put(self, key: str, voice: str, tokens: VoiceTokens) -> None:
        """Keep the tokens, unless another process has kept some meanwhile: then those.

        `voice` is written beside them, for whoever looks into the directory.
        """
        self._memory[key] = tokens
        if self._directory is None:
            return
        path = self._path(self._directory, key)
        try:
            self._memory[key] = await asyncio.to_thread(_keep, path, voice, tokens)
        except OSError as error:
            fields = {"voice": voice, "file": str(path), "reason": repr(error)}
            log.warning("voice.not_cached", extra={"fields": fields})

    @staticmethod
    def _path(directory: Path, key: str) -> Path:
        return directory / f"{key}.json"


def _read_or_warn(path: Path) -> VoiceTokens | None:
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        fields = {"file": str(path), "reason": repr(error)}
        log.warning("voice.cache_unreadable", extra={"fields": fields})
        return None


def _read(path: Path) -> VoiceTokens:
    """Read a file; raises OSError, and ValueError for what is none of ours."""
    content: Any = json.loads(path.read_text("utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"no voice of format {FORMAT}")
    if content.get("key") != path.stem:
        raise ValueError("the file of another voice")
    return VoiceTokens.of(content.get("global_tokens"), content.get("semantic_tokens"))


def _keep(path: Path, voice: str, tokens: VoiceTokens) -> VoiceTokens:
    with contextlib.suppress(OSError, ValueError):
        return _read(path)
    content = {
        "format": FORMAT,
        "key": path.stem,
        "voice": voice,
        "global_tokens": tokens.global_tokens.tolist(),
        "semantic_tokens": tokens.semantic_tokens.tolist(),
    }
    # A voice may be a person's: nobody else on the machine needs to read it.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise
    return tokens
