"""Which tritonserver is found; stand-ins lie where an image has its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.installation import check_own_stubs, find_installation
from engine.stubs import STUB

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def lay_out(root: Path, python: str = MINOR) -> Path:
    """Write what an image has: program, stub, the folders of libraries, its version."""
    stub = root / "backends" / "python" / STUB
    for path, text in (
        (root / "bin" / "tritonserver", "#!/bin/sh\n"),
        (stub, f"#!/bin/sh\n# libpython{python}.so.1.0\n"),
        (root / "TRITON_VERSION", "2.55.0\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    (root / "caches").mkdir()
    return root


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    (tmp_path / "programs").mkdir()
    return tmp_path / "programs"


def test_a_folder_that_is_named_brings_all_that_lies_in_it(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "triton")

    found = find_installation(tmp_path, str(root))

    assert found.program == root / "bin" / "tritonserver"
    assert found.flags == (
        f"--backend-directory={root}/backends",
        f"--cache-directory={root}/caches",
    )
    assert found.version == (2, 55)
    assert found.environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert f"{root}/lib" in found.environment["LD_LIBRARY_PATH"].split(":")


def test_one_on_path_wins_and_knows_its_own_folders(path: Path, tmp_path: Path) -> None:
    root = lay_out(tmp_path / "triton")
    (path / "tritonserver").symlink_to(root / "bin" / "tritonserver")

    found = find_installation(tmp_path)

    assert found.program == path / "tritonserver"
    assert found.flags == ()
    assert found.version == (2, 55)


def test_an_images_place_comes_before_the_bundle(path: Path, tmp_path: Path) -> None:
    assert not list(path.iterdir())

    found = find_installation(tmp_path, image=lay_out(tmp_path / "opt"))

    assert found.program == tmp_path / "opt" / "bin" / "tritonserver"


def test_the_bundle_can_be_asked_for(tmp_path: Path) -> None:
    found = find_installation(tmp_path, "bundled")

    assert "pytriton" in found.program.parts
    assert found.flags[0] == f"--backend-directory={tmp_path}/backends"


def test_a_stub_for_another_python_is_explained(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "triton", python="3.8")

    with pytest.raises(
        EngineError,
        match=rf"runs models with Python 3\.8, and this is {MINOR}, .*for Python 3\.8 of this",
    ):
        find_installation(tmp_path, str(root))


def test_a_model_that_brings_a_stub_for_another_python_is_explained(tmp_path: Path) -> None:
    """Copies of a stub in the models' folders outlive the Python that they were built for."""
    stub = tmp_path / "speaker" / STUB
    stub.parent.mkdir()
    stub.write_bytes(b"\x7fELF libpython3.8.so.1.0")
    config = stub.with_name("config.pbtxt")

    config.write_text('name: "speaker"\n', encoding="utf-8")
    with pytest.raises(EngineError, match=r"speaker/.*runs models with Python 3\.8"):
        check_own_stubs(tmp_path, ["speaker"])
    config.write_text('parameters { key: "EXECUTION_ENV_PATH" }\n', encoding="utf-8")
    check_own_stubs(tmp_path, ["speaker"])


def test_a_stub_that_cannot_start_is_explained(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "triton")
    stub = root / "backends" / "python" / STUB
    stub.write_text("#!/bin/sh\necho 'no libpython' >&2; exit 127\n", encoding="utf-8")

    with pytest.raises(EngineError, match="Python backend cannot start: no libpython"):
        find_installation(tmp_path, str(root))


def test_the_libraries_of_the_image_stay_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another libcuda before theirs, and no GPU is found."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/cuda/compat/lib")

    found = find_installation(tmp_path, str(lay_out(tmp_path / "triton")))

    assert found.environment["LD_LIBRARY_PATH"].split(":")[0] == "/usr/local/cuda/compat/lib"


def test_a_folder_without_a_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"bin/tritonserver is no program; --installation is"):
        find_installation(tmp_path, str(tmp_path))
