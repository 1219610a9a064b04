"""Finds a tritonserver: the one bundled in the wheel nvidia-pytriton, or the one on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from engine.errors import EngineError
from engine.stubs import STUB


@dataclass(frozen=True, slots=True)
class Installation:
    """A tritonserver that can be started: its program, directories as flags, environment."""

    program: Path
    flags: tuple[str, ...]
    environment: dict[str, str]


def find_installation(work: Path) -> Installation:
    """Return the tritonserver on PATH, else the bundled one laid out below `work`.

    A server on PATH wins: in NVIDIA's images it is the one with GPU backends.
    Raises EngineError where there is none or it cannot run here.
    """
    if program := shutil.which("tritonserver"):
        return Installation(Path(program), (), dict(os.environ))
    try:
        root = Path(str(distribution("nvidia-pytriton").locate_file("pytriton"))) / "tritonserver"
    except PackageNotFoundError as error:
        raise EngineError(
            "no tritonserver: neither on PATH nor in the package nvidia-pytriton, which exists "
            "for Linux and Python 3.10 to 3.12; pip install 'speech-gateway[embedded]' there, or "
            "run inside NVIDIA's tritonserver image"
        ) from error
    _check_numpy()
    environment = _bundled_environment(root)
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


def _bundled_environment(root: Path) -> dict[str, str]:
    # The stub's interpreter ignores PYTHONPATH; it finds this environment's packages through
    # the first python on PATH. The wheel's libraries lie beside the package, and libpython in
    # the folder of the interpreter that runs us, which must win over the system's.
    libraries = [
        sysconfig.get_config_var("LIBDIR") or f"{sys.base_prefix}/lib",
        str(root.parent.parent / "nvidia_pytriton.libs"),
        os.environ.get("LD_LIBRARY_PATH", ""),
    ]
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        "PATH": os.pathsep.join(filter(None, path)),
    }


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
