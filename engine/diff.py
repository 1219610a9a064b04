"""What differs between two model repositories, in words: configurations and other files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from engine.render import CONFIG, read_config, rendered_models

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def differences(old: Path, new: Path) -> list[str]:
    """Return a line for each difference, by model; none where the two mean the same.

    Raises EngineError for what is no repository, or a configuration that is none.
    """
    before, after = set(rendered_models(old)), set(rendered_models(new))
    lines = [f"model {name} is not there any more" for name in sorted(before - after)]
    lines += [f"model {name} is new" for name in sorted(after - before)]
    for name in sorted(before & after):
        fields = [dict(_flat(read_config(path / name / CONFIG))) for path in (old, new)]
        files = [_files(path / name) for path in (old, new)]
        words = [*_changed(*fields, is_nested=True), *_changed(*files)]
        lines += [f"{name}: {word}" for word in words]
    return lines


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every value with its path; what has a name is called by it, not by its place."""
    if isinstance(value, dict):
        # That a part is there at all is a value of its own, an empty one: it has no other.
        yield path, ""
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{inner.get('name', index)}]")
    else:
        yield path.removesuffix(".string_value"), str(value)


def _files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): f"sha256 {_digest(path)}"
        for path in folder.rglob("*")
        if path.is_file() and path.name != CONFIG and path.parent.name != "__pycache__"
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _changed(
    old: Mapping[str, str], new: Mapping[str, str], *, is_nested: bool = False
) -> Iterator[str]:
    whole = ""
    for name in sorted(old.keys() | new.keys()):
        was, is_now = old.get(name), new.get(name)
        # Of a part that is new or gone, one line is enough.
        if was == is_now or (whole and name.startswith(f"{whole}.")):
            continue
        whole = name if is_nested else ""
        if was is not None and is_now is not None:
            yield f"{name} is {is_now}, was {was}"
        else:
            words = "is new" if was is None else "is not there any more"
            yield f"{name} {words}" + (f": {was or is_now}" if was or is_now else "")
