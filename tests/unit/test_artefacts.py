from __future__ import annotations

import json
import shutil
import threading
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import pytest

from engine.artefacts import check_manifest, check_space, make, read_manifest, replace
from engine.errors import EngineError
from engine.fingerprints import EDGE_BYTES, digest, digest_whole, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MADE_OF = {"weights": "abc", "limits": (1, 2)}


def write(part: Path) -> dict[str, Any]:
    (part / "sub").mkdir(exist_ok=True)
    (part / "sub" / "a").write_bytes(b"some content")
    return {"versions": {"tool": "1"}}


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def forbidden(_: Path) -> None:
    pytest.fail("what is there was made again")


def test_a_folder_comes_whole_with_its_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "x"

    returned = make(folder, MADE_OF, write)

    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest == returned
    assert manifest["key"] == "x"
    assert manifest["made_of"] == {"weights": "abc", "limits": [1, 2]}
    assert manifest["versions"] == {"tool": "1"}
    assert manifest["files"]["sub/a"]["bytes"] == 12
    assert left(folder.parent) == ["x"]


def test_what_is_there_stays_and_its_manifest_comes_back(tmp_path: Path) -> None:
    made = make(tmp_path / "x", MADE_OF, write)

    assert make(tmp_path / "x", MADE_OF, forbidden) == made


def test_a_writer_that_fails_leaves_no_folder_and_the_next_starts_anew(tmp_path: Path) -> None:
    def fail(part: Path) -> None:
        (part / "half").touch()
        raise EngineError("no")

    with pytest.raises(EngineError):
        make(tmp_path / "x", MADE_OF, fail)
    assert left(tmp_path) == []
    with pytest.raises(EngineError):
        replace(tmp_path / "x", fail)
    assert left(tmp_path) == []

    make(tmp_path / "x", MADE_OF, write)

    assert {path.name for path in (tmp_path / "x").iterdir()} == {"sub", "manifest.json"}


def test_what_a_killed_runs_workers_still_write_is_not_in_what_the_next_makes(
    tmp_path: Path,
) -> None:
    earlier: list[Path] = []

    def killed(part: Path) -> None:
        earlier.append(part)
        raise EngineError("killed")

    def beside_its_workers(part: Path) -> dict[str, Any]:
        earlier[0].mkdir()
        (earlier[0] / "rank1.engine").write_bytes(b"of the run before")
        return write(part)

    with pytest.raises(EngineError):
        make(tmp_path / "x", MADE_OF, killed)

    manifest = make(tmp_path / "x", MADE_OF, beside_its_workers)

    assert set(manifest["files"]) == {"sub/a"}


def test_what_a_killed_run_has_left_is_removed_and_that_of_others_is_not(tmp_path: Path) -> None:
    others = {".y.0123abcd.part", ".x.y.0123abcd.part"}
    for name in (".x.0123abcd.part", *others):
        (tmp_path / name).mkdir()

    make(tmp_path / "x", MADE_OF, write)

    assert {path.name for path in tmp_path.glob("*.part")} == others


def test_the_old_folder_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    def write_anew(part: Path) -> None:
        assert (tmp_path / "x" / "sub" / "a").is_file()
        (part / "b").touch()

    make(tmp_path / "x", MADE_OF, write)

    replace(tmp_path / "x", write_anew)

    assert {path.name for path in (tmp_path / "x").iterdir()} == {"b"}
    assert left(tmp_path) == ["x"]


def test_a_download_that_fails_leaves_what_it_has(tmp_path: Path) -> None:
    def fail(part: Path, names: str) -> None:
        for name in names:
            (part / name).touch()
        raise EngineError("no")

    for names, parts in (("", []), ("a", [".x.part"])):
        with pytest.raises(EngineError):
            make(tmp_path / "x", MADE_OF, lambda part, names=names: fail(part, names), goes_on=True)
        assert left(tmp_path) == parts


def test_a_writer_that_can_goes_on_with_what_is_left(tmp_path: Path) -> None:
    (tmp_path / ".x.part").mkdir()
    (tmp_path / ".x.part" / "earlier").touch()

    manifest = make(tmp_path / "x", MADE_OF, write, goes_on=True)

    assert set(manifest["files"]) == {"earlier", "sub/a"}


def change(folder: Path, **values: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **values}))


SPOILERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "shorter": (lambda x: (x / "sub" / "a").write_bytes(b"some"), "sub/a has 4 bytes, not 12"),
    "changed": (
        lambda x: (x / "sub" / "a").write_bytes(b"same length!"),
        "sub/a has other content",
    ),
    "missing": (lambda x: (x / "sub" / "a").unlink(), "sub/a is missing"),
    "more": (lambda x: (x / "b").touch(), "b came later"),
    "no manifest": (
        lambda x: (x / "manifest.json").unlink(),
        "has no manifest.json, so it was not",
    ),
    "half a manifest": (lambda x: (x / "manifest.json").write_text('{"files'), "cannot be read"),
    "another manifest": (lambda x: (x / "manifest.json").write_text("[]"), "cannot be read"),
    "files without sizes": (lambda x: change(x, files={"sub/a": {"sha256": "0"}}), "('bytes')"),
    "files that are none": (lambda x: change(x, files=["sub/a"]), "cannot be read as a manifest"),
    "a file that is none": (lambda x: change(x, files={"sub/a": None}), "cannot be read as a mani"),
    "no key": (
        lambda x: (x / "manifest.json").write_text('{"files": {}}'),
        "cannot be read as a manifest (KeyError('key'))",
    ),
}


@pytest.mark.parametrize("case", SPOILERS)
def test_a_folder_that_was_changed_is_never_used(tmp_path: Path, case: str) -> None:
    spoil, words = SPOILERS[case]
    make(tmp_path / "x", MADE_OF, write)
    spoil(tmp_path / "x")

    for use in (
        lambda: read_manifest(tmp_path / "x"),
        lambda: make(tmp_path / "x", MADE_OF, write),
    ):
        with pytest.raises(EngineError) as caught:
            use()
        assert words in str(caught.value)
        assert "run this again" in str(caught.value)


def test_a_folder_that_was_renamed_is_not_what_its_name_says(tmp_path: Path) -> None:
    make(tmp_path / "x", MADE_OF, write)
    (tmp_path / "x").rename(tmp_path / "y")

    with pytest.raises(EngineError, match="y was made as x, so it holds something else"):
        read_manifest(tmp_path / "y")
    (tmp_path / "y" / "mine").touch()
    assert check_manifest(tmp_path / "y", "make it again")["key"] == "x"


def test_a_folder_that_is_not_there_names_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"x is not there; first comes cooking$"):
        read_manifest(tmp_path / "x", "cooking")


def test_a_folder_made_of_something_else_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "x", MADE_OF, write)

    with pytest.raises(EngineError, match="x was made from something else"):
        make(tmp_path / "x", {**MADE_OF, "weights": "other"}, forbidden)


def test_one_makes_it_while_others_wait(tmp_path: Path) -> None:
    in_first, go_on, results = threading.Event(), threading.Event(), []

    def slowly(part: Path) -> dict[str, Any]:
        in_first.set()
        assert go_on.wait(10)
        return write(part)

    first = threading.Thread(target=lambda: results.append(make(tmp_path / "x", MADE_OF, slowly)))
    second = threading.Thread(
        target=lambda: results.append(make(tmp_path / "x", MADE_OF, forbidden))
    )
    first.start()
    assert in_first.wait(10)
    second.start()
    go_on.set()
    first.join(10)
    second.join(10)

    assert len(results) == 2
    assert results[0] == results[1]


@pytest.mark.parametrize("size", [0, 5, 2 * EDGE_BYTES, 2 * EDGE_BYTES + 1, 3 * EDGE_BYTES])
def test_a_fingerprint_sees_both_ends_and_the_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(size))
    before = fingerprint(path)
    seen = []
    for place in (0, size - 1):
        if size:
            path.write_bytes(bytes(place) + b"\1" + bytes(size - place - 1))
            seen.append(fingerprint(path))
    path.write_bytes(bytes(size + 1))
    seen.append(fingerprint(path))

    assert before["bytes"] == size
    assert before not in seen


def test_a_digest_sees_names_and_not_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    before = digest(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "b").touch()
    (tmp_path / "manifest.json").touch()

    assert digest(tmp_path) == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert digest(tmp_path) != before


def test_a_digest_of_weights_sees_each_byte(tmp_path: Path) -> None:
    """A fine-tune has the size, the header and perhaps the last layer of what it comes from."""
    weights = bytearray(3 * EDGE_BYTES)
    (tmp_path / "a").write_bytes(weights)
    before, whole_before = digest(tmp_path), digest_whole(tmp_path)
    weights[len(weights) // 2] = 1
    (tmp_path / "a").write_bytes(weights)

    assert digest_whole(tmp_path) != whole_before
    assert digest(tmp_path) == before


def test_a_full_disk_is_named_before_it_is_full(tmp_path: Path) -> None:
    check_space(tmp_path / "not" / "yet", 1000, "the engine")

    with pytest.raises(EngineError) as caught:
        check_space(tmp_path / "not" / "yet", 10**18, "the engine")

    assert f"the engine needs 1000000000.0 GB, the disk of {tmp_path} has " in str(caught.value)


def test_what_is_small_is_told_in_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = namedtuple("usage", "total used free")  # noqa: PYI024  as shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 10**10, 2_999_999))

    with pytest.raises(EngineError, match=r"the engine needs 4 MB, the disk of .+ has 2 MB free"):
        check_space(tmp_path, 3_000_001, "the engine")
