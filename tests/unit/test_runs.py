from __future__ import annotations

import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.errors import EngineError
from engine.runs import Run, check_free, remove_stale

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys
from pathlib import Path
from engine.runs import Run
prefix = Run(Path(sys.argv[1]), Path(sys.argv[2]))
print(prefix.region_prefix, flush=True)
sys.stdin.read()
"""


def temporary(directory: Path) -> Path:
    """Return the folder for the folders of runs, beside the one for their regions."""
    beside = directory.with_name(f"{directory.name}-temporary")
    beside.mkdir(exist_ok=True)
    return beside


def make_regions(directory: Path, prefix: str) -> list[Path]:
    paths = [directory / f"{prefix}python_backend_shm_region_{number}" for number in (1, 2)]
    for path in paths:
        path.write_bytes(b"samples")
    return paths


@contextmanager
def holder(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run another process that holds a prefix; yield it and the name."""
    command = [sys.executable, "-c", HOLDER, str(directory), str(temporary(directory))]
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
        with closing(Run(tmp_path, temporary(tmp_path))) as prefix:
            names.add(prefix.region_prefix)

    assert len(names) == 3


def test_close_removes_its_own_regions_and_lock_only(tmp_path: Path) -> None:
    (tmp_path / "somebody_elses").touch()
    with closing(Run(tmp_path, temporary(tmp_path))) as other:
        others = make_regions(tmp_path, other.region_prefix)
        own = Run(tmp_path, temporary(tmp_path))
        make_regions(tmp_path, own.region_prefix)

        own.close()

        left = {path.name for path in tmp_path.iterdir()}
        assert left == {
            "somebody_elses",
            f"{other.region_prefix}lock",
            *(path.name for path in others),
        }


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, name):
        regions = make_regions(tmp_path, name)
        process.kill()
        process.wait()
    with closing(Run(tmp_path, temporary(tmp_path))) as living:
        kept = make_regions(tmp_path, living.region_prefix)

        removed = remove_stale(tmp_path, temporary(tmp_path))

        assert removed == [name]
        assert not any(path.exists() for path in regions)
        assert set(tmp_path.iterdir()) == {*kept, tmp_path / f"{living.region_prefix}lock"}


def test_what_a_living_process_holds_is_left(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, name):
        regions = make_regions(tmp_path, name)

        removed = remove_stale(tmp_path, temporary(tmp_path))

        assert process.poll() is None
        assert removed == []
        assert all(path.exists() for path in [*regions, tmp_path / f"{name}lock"])


def test_what_this_process_holds_is_left(tmp_path: Path) -> None:
    with closing(Run(tmp_path, temporary(tmp_path))) as prefix:
        (region, _) = make_regions(tmp_path, prefix.region_prefix)

        assert remove_stale(tmp_path, temporary(tmp_path)) == []
        assert region.exists()


def test_regions_of_other_programs_are_left(tmp_path: Path) -> None:
    for name in ("triton_python_backend_shm_region_1", "other_lock", "speech_triton_1_region"):
        (tmp_path / name).touch()

    assert remove_stale(tmp_path, temporary(tmp_path)) == []
    assert len(list(tmp_path.iterdir())) == 3


def test_shared_memory_without_room_is_an_error_with_the_numbers_and_the_remedy() -> None:
    """/proc is a file system that has no room at all."""
    with pytest.raises(EngineError, match=r"/proc has 0 MiB free, .* 32 MiB; .*--shm-size"):
        check_free(Path("/proc"))


def test_shared_memory_with_room_is_fine(tmp_path: Path) -> None:
    check_free(tmp_path)


def test_the_folder_of_a_run_lives_as_long_as_it(tmp_path: Path) -> None:
    run = Run(tmp_path, temporary(tmp_path))
    (run.folder / "repository").mkdir()

    run.close()

    assert not run.folder.exists()


def test_the_folder_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, prefix):
        process.kill()
        process.wait()
    folder = temporary(tmp_path) / prefix
    was_there = folder.is_dir()

    remove_stale(tmp_path, temporary(tmp_path))

    assert was_there
    assert not folder.exists()
