"""The cache of voices: outlives the process, and trusts no file."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gateway.speech.types import VoiceTokens
from gateway.speech.voice_cache import VoiceCache, cache_key

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

KEY = cache_key("made", "spark_tts", "bob")
BOB = VoiceTokens.of(range(32), range(5))
EVE = VoiceTokens.of([7] * 32, [])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def same(one: VoiceTokens | None, other: VoiceTokens) -> bool:
    return (
        one is not None
        and np.array_equal(one.global_tokens, other.global_tokens)
        and np.array_equal(one.semantic_tokens, other.semantic_tokens)
        and {one.global_tokens.dtype, one.semantic_tokens.dtype} == {np.dtype(np.int32)}
    )


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def test_a_key_tells_its_parts_apart() -> None:
    assert len({cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), KEY}) == 4


async def test_a_voice_is_known_to_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    await VoiceCache(folder).put(KEY, "spark_tts/bob", BOB)

    assert same(await VoiceCache(folder).get(KEY), BOB)
    assert await VoiceCache(folder).get(cache_key("another")) is None
    [file] = files(folder)
    assert json.loads(file.read_text("utf-8"))["voice"] == "spark_tts/bob"
    assert file.name == f"{KEY}.json"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]


async def test_without_a_directory_there_is_memory() -> None:
    cache = VoiceCache(None)
    await cache.put(KEY, "spark_tts/bob", BOB)

    assert same(await cache.get(KEY), BOB)
    assert await VoiceCache(None).get(KEY) is None


async def test_what_another_process_kept_first_stays(tmp_path: Path) -> None:
    slow = VoiceCache(tmp_path)
    assert await slow.get(KEY) is None
    await VoiceCache(tmp_path).put(KEY, "spark_tts/bob", BOB)

    await slow.put(KEY, "spark_tts/bob", EVE)

    assert same(await slow.get(KEY), BOB)
    assert same(await VoiceCache(tmp_path).get(KEY), BOB)


GOOD: dict[str, Any] = {
    "format": 1,
    "key": KEY,
    "global_tokens": list(range(32)),
    "semantic_tokens": [1, 2],
}
BROKEN = {
    "empty": b"",
    "cut off": json.dumps(GOOD).encode()[:-9],
    "not UTF-8": b"\x90",
    "a list": b"[]",
    "another format": json.dumps(GOOD | {"format": 2}).encode(),
    "another voice": json.dumps(GOOD | {"key": "0" * 64}).encode(),
    "too few tokens": json.dumps(GOOD | {"global_tokens": [1]}).encode(),
    "no tokens": json.dumps(GOOD | {"semantic_tokens": None}).encode(),
    "fractions": json.dumps(GOOD | {"semantic_tokens": [0.5]}).encode(),
    "negative": json.dumps(GOOD | {"semantic_tokens": [-1]}).encode(),
    "too large": json.dumps(GOOD | {"semantic_tokens": [2**31]}).encode(),
    "truths": json.dumps(GOOD | {"semantic_tokens": [True]}).encode(),
    "ragged": json.dumps(GOOD | {"semantic_tokens": [1, [2]]}).encode(),
}


async def test_the_good_file_is_read(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.json").write_text(json.dumps(GOOD), "utf-8")

    assert same(await VoiceCache(tmp_path).get(KEY), VoiceTokens.of(range(32), [1, 2]))


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_is_warned_of_and_written_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / f"{KEY}.json"
    file.write_bytes(content)
    cache = VoiceCache(tmp_path)

    assert await cache.get(KEY) is None
    [warning] = caplog.records
    assert warning.getMessage() == "voice.cache_unreadable"
    assert warning.fields["file"] == str(file)

    await cache.put(KEY, "spark_tts/bob", BOB)
    assert same(await VoiceCache(tmp_path).get(KEY), BOB)
    assert files(tmp_path) == [file]


async def test_where_nothing_can_be_written_memory_remains(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    cache = VoiceCache(tmp_path / "file")

    await cache.put(KEY, "spark_tts/bob", BOB)

    assert same(await cache.get(KEY), BOB)
    [warning] = caplog.records
    assert warning.getMessage() == "voice.not_cached"
    assert warning.fields["voice"] == "spark_tts/bob"
