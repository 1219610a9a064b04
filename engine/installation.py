"""Finds a tritonserver: that of NVIDIA's image, or the one in the wheel nvidia-pytriton."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.render import CONFIG
from engine.stubs import STUB

if TYPE_CHECKING:
    from collections.abc import Sequence

BUNDLED = "bundled"
IMAGE = Path("/opt/tritonserver")
"""Where NVIDIA's images have it."""

VERSION_FILE = "TRITON_VERSION"


@dataclass(frozen=True, slots=True)
class Installation:
    """A tritonserver that can be started: its program, directories as flags, environment.

    `version` is major and minor, None where it is not written down.
    """

    program: Path
    flags: tuple[str, ...]
    environment: dict[str, str]
    version: tuple[int, int] | None = None


def find_installation(work: Path, where: str | None = None, image: Path = IMAGE) -> Installation:
    """Return the tritonserver in the folder `where`, or the bundled one laid out below `work`.

    Without `where`: the one on PATH, else in NVIDIA's images' place, else the bundled one. In
    their images theirs is the one with GPU backends. Raises EngineError where there is none or
    it cannot run here.
    """
    if where == BUNDLED:
        return _bundled(work)
    if where is not None:
        return _installed(Path(where).absolute() / "bin" / "tritonserver", is_named=True)
    if program := shutil.which("tritonserver"):
        return _installed(Path(program), is_named=False)
    if (image / "bin" / "tritonserver").is_file():
        return _installed(image / "bin" / "tritonserver", is_named=False)
    return _bundled(work)


def _installed(program: Path, *, is_named: bool) -> Installation:
    if not os.access(program, os.X_OK):
        raise EngineError(
            f"{program} is no program; --installation is a folder like {IMAGE}, or {BUNDLED}"
        )
    root = program.resolve().parents[1]
    # NVIDIA's own libraries stay first, and libpython is found if it lies nowhere else.
    environment = _environment(_given_libraries(), str(root / "lib"), _libpython())
    if (stub := root / "backends" / "python" / STUB).is_file():
        _check_python(stub)
        _check_stub(stub, environment)
    # Only a folder that was named is known to have all that belongs to the program.
    parts = ("backend", "cache", "repoagent") if is_named else ()
    found = [(part, root / f"{part}s") for part in parts]
    flags = tuple(f"--{part}-directory={path}" for part, path in found if path.is_dir())
    return Installation(program, flags, environment, _version(root))


def _version(root: Path) -> tuple[int, int] | None:
    try:
        found = re.match(r"(\d+)\.(\d+)", (root / VERSION_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return (int(found[1]), int(found[2])) if found else None


def _bundled(work: Path) -> Installation:
    try:
        root = Path(str(distribution("nvidia-pytriton").locate_file("pytriton"))) / "tritonserver"
    except PackageNotFoundError as error:
        raise EngineError(
            f"no tritonserver: neither on PATH, nor in {IMAGE}, nor in the package "
            "nvidia-pytriton, which exists for Linux and Python 3.10 to 3.12; "
            "pip install 'speech-gateway[embedded]' there, or run inside NVIDIA's image"
        ) from error
    _check_numpy()
    # The wheel's libraries lie beside the package, and libpython in the folder of the
    # interpreter that runs us, which must win over the system's.
    bundled = str(root.parent.parent / "nvidia_pytriton.libs")
    environment = _environment(_libpython(), bundled, _given_libraries())
    backends = _lay_out_backends(root, work)
    _check_stub(backends / "python" / STUB, environment)
    flags = (f"--backend-directory={backends}", f"--cache-directory={root / 'caches'}")
    return Installation(root / "bin" / "tritonserver", flags, environment)


def _check_numpy() -> None:
    # The bundled stub's bindings predate numpy 2 and answer with empty tensors, without a word.
    found = version("numpy")
    if int(found.split(".")[0]) > 1:
        raise EngineError(
            f"numpy {found} is installed, the bundled Triton needs numpy < 2: "
            "pip install 'speech-gateway[embedded]'"
        )


def _libpython() -> str:
    return sysconfig.get_config_var("LIBDIR") or f"{sys.base_prefix}/lib"


def _given_libraries() -> str:
    return os.environ.get("LD_LIBRARY_PATH", "")


def _environment(*libraries: str) -> dict[str, str]:
    # The stub's interpreter ignores PYTHONPATH; it finds this environment's packages through
    # the first python on PATH.
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        "PATH": os.pathsep.join(filter(None, programs)),
    }


def check_own_stubs(repository: Path, models: Sequence[str]) -> None:
    """Raise EngineError for a model that brings a stub which is for another Python than this.

    A model with an environment of its own (EXECUTION_ENV_PATH) has its packages there.
    """
    for model in models:
        stub = repository / model / STUB
        if stub.is_file() and "EXECUTION_ENV_PATH" not in (repository / model / CONFIG).read_text(
            encoding="utf-8"
        ):
            _check_python(stub)


def _check_python(stub: Path) -> None:
    """Raise EngineError unless the stub is for the Python that has this project's packages."""
    found = re.search(rb"libpython(3\.\d+)", stub.read_bytes())
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found and found[1].decode() != here:
        wanted = found[1].decode()
        raise EngineError(
            f"{stub} runs models with Python {wanted}, and this is {here}, whose packages they "
            f"would not find: install speech-gateway for Python {wanted} of this machine and start "
            "the engine with that, or put a stub built for this one in its place"
        )


def _lay_out_backends(root: Path, work: Path) -> Path:
    # The stub must lie beside the backend, and the wheel has one for each Python elsewhere.
    # Links to the wheel's files leave the installed package as it is.
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = root / "python_backend_stubs" / minor / STUB
    if not stub.is_file():
        raise EngineError(f"the bundled Triton has no Python backend for Python {minor}")
    python = work / "backends" / "python"
    python.mkdir(parents=True, exist_ok=True)
    for source in (*(root / "backends" / "python").iterdir(), stub):
        link = python / source.name
        link.unlink(missing_ok=True)
        link.symlink_to(source)
    return python.parent


def _check_stub(stub: Path, environment: dict[str, str]) -> None:
    # Run without arguments it only complains about them; the loader speaks first, with 127.
    found = subprocess.run([stub], env=environment, capture_output=True, text=True, check=False)
    if found.returncode == 127:  # noqa: PLR2004  the loader's own exit code
        name = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
        raise EngineError(
            f"Triton's Python backend cannot start: {found.stderr.strip()}\n"
            f"If {name} is what is missing: apt-get install {name} (Debian, Ubuntu), or use a "
            "Python built with --enable-shared"
        )
