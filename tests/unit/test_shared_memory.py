from __future__ import annotations

import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.errors import EngineError
from engine.shared_memory import RegionPrefix, check_free, remove_stale

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys
from pathlib import Path
from engine.shared_memory import RegionPrefix
prefix = RegionPrefix(Path(sys.argv[1]))
print(prefix.name, flush=True)
sys.stdin.read()
"""


def make_regions(directory: Path, prefix: str) -> list[Path]:
    paths = [directory / f"{prefix}python_backend_shm_region_{number}" for number in (1, 2)]
    for path in paths:
        path.write_bytes(b"samples")
    return paths


@contextmanager
def holder(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run another process that holds a prefix; yield it and the name."""
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_every_prefix_is_a_name_of_its_own(tmp_path: Path) -> None:
    names = set()

    for _ in range(3):
        with closing(RegionPrefix(tmp_path)) as prefix:
            names.add(prefix.name)

    assert len(names) == 3


def test_close_removes_its_own_regions_and_lock_only(tmp_path: Path) -> None:
    (tmp_path / "somebody_elses").touch()
    with closing(RegionPrefix(tmp_path)) as other:
        others = make_regions(tmp_path, other.name)
        own = RegionPrefix(tmp_path)
        make_regions(tmp_path, own.name)

        own.close()

        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"somebody_elses", f"{other.name}lock", *(path.name for path in others)}


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, name):
        regions = make_regions(tmp_path, name)
        process.kill()
        process.wait()
    with closing(RegionPrefix(tmp_path)) as living:
        kept = make_regions(tmp_path, living.name)

        removed = remove_stale(tmp_path)

        assert removed == [name]
        assert not any(path.exists() for path in regions)
        assert set(tmp_path.iterdir()) == {*kept, tmp_path / f"{living.name}lock"}


def test_what_a_living_process_holds_is_left(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, name):
        regions = make_regions(tmp_path, name)

        removed = remove_stale(tmp_path)

        assert process.poll() is None
        assert removed == []
        assert all(path.exists() for path in [*regions, tmp_path / f"{name}lock"])


def test_what_this_process_holds_is_left(tmp_path: Path) -> None:
    with closing(RegionPrefix(tmp_path)) as prefix:
        (region, _) = make_regions(tmp_path, prefix.name)

        assert remove_stale(tmp_path) == []
        assert region.exists()


def test_regions_of_other_programs_are_left(tmp_path: Path) -> None:
    for name in ("triton_python_backend_shm_region_1", "other_lock", "speech_triton_1_region"):
        (tmp_path / name).touch()

    assert remove_stale(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 3


def test_shared_memory_without_room_is_an_error_with_the_numbers_and_the_remedy() -> None:
    """/proc is a file system that has no room at all."""
    with pytest.raises(EngineError, match=r"/proc has 0 MiB free, .* 32 MiB; .*--shm-size"):
        check_free(Path("/proc"))


def test_shared_memory_with_room_is_fine(tmp_path: Path) -> None:
    check_free(tmp_path)
