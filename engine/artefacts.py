"""Folders that are whole or not there: written beside, described by a manifest, then renamed.

A process that is killed leaves a folder `.NAME.….part`, which nobody reads. What it had started may
live on and write there, so the next run takes another one and removes those that are left. Only a
writer that can go on with what an earlier one has left, a download, always has `.NAME.part`.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from glob import escape
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, in_words
from engine.fingerprints import MANIFEST, fingerprints
from engine.lock import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

RANDOM_BYTES = 4
REMEDY = "remove it and run this again"
UNFINISHED = ".unfinished"
"""Names, a line each, the folders beside it that belong together and are not all there yet."""

log = logging.getLogger(__name__)


def read_manifest(folder: Path, made_by: str = "the step before") -> dict[str, Any]:
    """Return the manifest of a complete folder that has its own name still.

    Raises EngineError for any other, and for one that is not there; `made_by` is what makes it.
    """
    if not folder.exists():
        raise EngineError(f"{folder} is not there; first comes {made_by}")
    manifest = check_manifest(folder, REMEDY, may_have_more=False)
    if manifest["key"] != folder.name:
        raise EngineError(
            f"{folder} was made as {manifest['key']}, so it holds something else than its name "
            "says; give it that name back"
        )
    return manifest


def check_manifest(folder: Path, remedy: str, *, may_have_more: bool = True) -> dict[str, Any]:
    """Return the manifest of a folder that may have moved, held against its files.

    Raises EngineError, which ends in the `remedy`, where they are not what was made; what somebody
    else has put beside them is his own.
    """
    files, manifest = _read(folder, remedy)
    found = fingerprints(folder)
    for name in files if may_have_more else {**files, **found}:
        if files.get(name) != found.get(name):
            raise EngineError(
                f"{folder} is not what was made: {_fault(name, files, found)}; {remedy}"
            )
    return manifest


def _read(folder: Path, remedy: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the files that a manifest lists, and all of it."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        listed, _ = manifest["files"].items(), manifest["key"]
        dict(manifest.get("versions", {}))
        files = {name: {key: entry[key] for key in ("bytes", "sha256")} for name, entry in listed}
    except (FileNotFoundError, NotADirectoryError):
        raise EngineError(
            f"{folder} has no {MANIFEST}, so it was not finished or not made here; {remedy}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(
            f"{folder / MANIFEST} cannot be read as a manifest ({error!r}); {remedy}"
        ) from error
    return files, dict(manifest)


def _fault(name: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if name not in found:
        return f"{name} is missing"
    if name not in expected:
        return f"{name} came later"
    before, now = expected[name]["bytes"], found[name]["bytes"]
    return f"{name} has {now} bytes, not {before}" if before != now else f"{name} has other content"


def make(
    folder: Path,
    made_of: Mapping[str, Any],
    write: Callable[[Path], Mapping[str, Any] | None],
    *,
    goes_on: bool = False,
) -> dict[str, Any]:
    """Return the manifest of `folder`, which `write(part)` fills unless it is there already.

    `made_of` is what it is made from and stands in the manifest, with what `write` returns. A
    folder that was made from something else is refused, never replaced. With `goes_on` the
    writer gets what an earlier one has left. One process at a time: others wait.
    """
    _check_writable(folder.parent)
    with alone(folder, folder.with_name(f".{folder.name}.lock")):
        if folder.exists():
            manifest = read_manifest(folder)
            if manifest.get("made_of") != json.loads(json.dumps(made_of)):
                raise EngineError(
                    f"{folder} was made from something else (its {MANIFEST} says what); {REMEDY}"
                )
            log.info("engine.already_made folder=%s", folder)
            return manifest
        if goes_on:
            part = folder.with_name(f".{folder.name}.part")
            part.mkdir(exist_ok=True)
        else:
            _remove_left(folder)
            part = _fresh(folder)
        with _removed_on_failure(part, only_empty=goes_on):
            learnt = write(part) or {}
            manifest = {
                "key": folder.name,
                "made_of": made_of,
                **learnt,
                "files": fingerprints(part),
            }
            (part / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            part.rename(folder)
        return json.loads(json.dumps(manifest))  # type: ignore[no-any-return]


def replace(folder: Path, write: Callable[[Path], object]) -> None:
    """Have `write(part)` make `folder` anew, whatever is there; one process at a time.

    Readers see the old one or the new one, never half. Who writes in the old one is waited for.
    """
    _check_writable(folder.parent)
    with alone(folder, folder.with_name(f".{folder.name}.lock")):
        _remove_left(folder)
        part = _fresh(folder)
        with _removed_on_failure(part):
            write(part)
        with alone(folder, folder / ".lock") if folder.is_dir() else nullcontext():
            _put(part, folder)


def swap_together(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Have each of `writers` make the folder of its name in `folder`, all of them or none.

    All are written beside before one is renamed. Who is killed between two renames leaves the
    names in a file, `unfinished` has them, until all of them have been made again. Nobody else may
    write there meanwhile, see `alone_in`.
    """
    _check_writable(folder)
    for name in writers:
        _remove_left(folder / name)
    parts: dict[str, Path] = {}
    with ExitStack() as stack:
        for name, write in writers.items():
            parts[name] = _fresh(folder / name)
            stack.enter_context(_removed_on_failure(parts[name]))
            write(parts[name])
        before = unfinished(folder)
        _note_unfinished(folder, {*before, *writers})
    for name, part in parts.items():
        _put(part, folder / name)
    _note_unfinished(folder, {name for name in before if (folder / name).exists()} - {*writers})


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Let no other process that asks for this write in `folder`, which is made if need be."""
    _check_writable(folder)
    with alone(folder, folder / ".lock"):
        yield


def unfinished(folder: Path) -> list[str]:
    """Return the names in `folder` that a killed `swap_together` has left half old, half new."""
    try:
        return (folder / UNFINISHED).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _note_unfinished(folder: Path, names: set[str]) -> None:
    path = folder / UNFINISHED
    if not names:
        path.unlink(missing_ok=True)
        return
    # Renamed as well: a disk that is full would leave it empty.
    part = path.with_suffix(".part")
    part.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    part.rename(path)


@contextmanager
def _removed_on_failure(part: Path, *, only_empty: bool = False) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if not only_empty:
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.rmdir()
        raise


def _put(part: Path, folder: Path) -> None:
    if not folder.exists():
        part.rename(folder)
        return
    # To remove the old one takes time in which there would be none.
    old = _fresh(folder)
    folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old)


def _fresh(folder: Path) -> Path:
    path = folder.with_name(f".{folder.name}.{secrets.token_hex(RANDOM_BYTES)}.part")
    path.mkdir(parents=True)
    return path


def _remove_left(folder: Path) -> None:
    # Just as many letters: `x.y` has parts of its own.
    for part in folder.parent.glob(f".{escape(folder.name)}.{'?' * 2 * RANDOM_BYTES}.part"):
        try:
            shutil.rmtree(part)
        except OSError as error:
            log.warning("engine.part_not_removed folder=%s reason=%s", part, error)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError) as error:
        raise EngineError(in_words(error)) from error
    except OSError as error:
        raise _unwritable(folder, error) from error


def check_place(folder: Path) -> None:
    """Raise EngineError for a folder, there or not yet, in which nothing can be written."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _unwritable(folder: Path, error: OSError) -> EngineError:
    return EngineError(
        f"{folder} cannot be written ({error.strerror}); give it to this user, or choose "
        "another folder"
    )


def check_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise EngineError where the disk of `folder`, there or not yet, has too little room."""
    place = _existing(folder)
    free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise EngineError(
            f"{purpose} needs {_size(needed_bytes, math.ceil)}, the disk of {place} has "
            f"{_size(free, math.floor)} free; make room or choose another folder"
        )


def _size(count: int, rounded: Callable[[float], int]) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{rounded(count / 1e6)} MB"
