"""Who may import whom, which library has which place, and how large things may grow."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ROOMS = ("gateway", "engine", "triton", "tests")

# Files below the key never import what is listed.
FORBIDDEN = {
    "gateway/": ("engine", "speech_backend", "triton"),
    "engine/": ("gateway", "speech_backend", "triton"),
    "triton/": ("gateway", "engine", "triton"),
    "triton/speech_wire/": ("speech_backend", "tritonclient", "google", "torch"),
    "gateway/speech/": ("gateway.api", "gateway.backend", "gateway.telemetry"),
    # Pure functions: a text and a policy in, segments out.
    "gateway/text/": (
        "gateway.api",
        "gateway.app",
        "gateway.audio",
        "gateway.backend",
        "gateway.errors",
        "gateway.lifespan",
        "gateway.settings",
        "gateway.speech",
        "gateway.telemetry",
    ),
}

# The key is used by these files and folders (with a trailing slash) only.
PLACES = {
    "gateway.backend": (
        "gateway/backend/",
        "gateway/telemetry/triton_statistics.py",  # its types alone
        "gateway/app.py",
        "gateway/lifespan.py",
        "gateway/check.py",
        "gateway/stats.py",
        "gateway/stats_table.py",
        "gateway/bench/",
    ),
    # The service does not know that it is measured.
    "gateway.bench": ("gateway/bench/", "gateway/__main__.py"),
    "aiohttp": ("gateway/bench/http_target.py", "gateway/bench/calibration.py"),
    "matplotlib": ("gateway/bench/charts.py",),
    "jinja2": ("gateway/bench/report.py",),
    "rich": ("gateway/bench/terminal.py",),
    "datasets": ("gateway/bench/workloads.py",),
    "fastapi": ("gateway/api/", "gateway/app.py", "gateway/lifespan.py"),
    "starlette": ("gateway/api/", "gateway/app.py", "gateway/lifespan.py"),
    "grpc": (
        "gateway/backend/",
        "engine/render.py",
        "engine/control.py",
        "engine/quiet_grpc.py",
        "engine/verify.py",
        "triton/speech_backend/loopback/",
    ),
    "tritonclient": (
        "gateway/backend/",
        "engine/render.py",
        "engine/control.py",
        "engine/verify.py",
        "triton/speech_backend/loopback/",
    ),
    "soundfile": ("gateway/audio/", "gateway/bench/workloads.py"),
    "soxr": ("gateway/audio/", "triton/speech_backend/reference.py"),
    "av": ("gateway/audio/",),
    "markdown_it": ("gateway/text/",),
    "regex": ("gateway/text/",),
    "sentencex": ("gateway/text/",),
    "unicode_rbnf": ("gateway/text/spelling.py",),
    "prometheus_client": ("gateway/telemetry/",),
    "opentelemetry": ("gateway/telemetry/tracing.py",),
    # Nothing that runs needs it: it writes the dashboards.
    "grafana_foundation_sdk": ("gateway/observability/",),
    "torch": ("triton/speech_backend/",),
    "transformers": (
        "triton/speech_backend/audio_tokenizer.py",
        "triton/speech_backend/language_model.py",
    ),
    "vllm": (
        "triton/speech_backend/vllm_engine/allowed.py",
        "triton/speech_backend/vllm_engine/start.py",
    ),
    "tokenizers": ("engine/fixture/", "triton/speech_backend/spark.py"),
    "safetensors": ("triton/speech_backend/bicodec/weights.py", "engine/fixture/"),
    "yaml": ("triton/speech_backend/bicodec/config.py", "engine/fixture/"),
    "huggingface_hub": ("engine/download.py",),
    "modal": (
        "gateway/backend/discovery/modal_dict.py",
        "gateway/modal_app.py",
        "engine/modal_app.py",
        "engine/modal_server.py",
        "engine/modal_tunnel.py",
    ),
    "cryptography": ("engine/certs.py",),
    "os.environ": (
        "gateway/settings/",
        "engine/installation.py",
        "engine/quiet_grpc.py",
        # How CUDA's service is told where it is.
        "engine/mps.py",
        # What is deployed, and secrets that Modal gives as variables.
        "engine/modal_app.py",
        "engine/modal_server.py",
        "engine/modal_tunnel.py",
        "triton/speech_backend/loopback/channel.py",
        # How vLLM is told what has no argument.
        "triton/speech_backend/vllm_engine/start.py",
    ),
    "os.getenv": (),
}

VAGUE_NAMES = {"utils", "helpers", "manager", "common"}
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
P90_FUNCTION_LINES = 25


def files(*rooms: str) -> dict[str, Path]:
    paths = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


SOURCES = files("gateway", "engine", "triton")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def used_names(path: Path) -> set[str]:
    """Return what a file imports (`from a import b` is `a.b`) and its `os.…` attributes."""
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names |= {f"os.{node.attr}"} if node.value.id == "os" else set()
    return names


def uses(path: Path, wanted: str) -> bool:
    return any(f"{name}.".startswith(f"{wanted}.") for name in used_names(path))


def is_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or (place[-1] == "/" and name.startswith(place)) for place in places)


def functions(room: str) -> Iterator[tuple[str, int]]:
    for name, path in files(room).items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{name}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_a_room_never_imports_what_is_not_its_business(folder: str) -> None:
    inside = [(name, path) for name, path in SOURCES.items() if name.startswith(folder)]
    wrong = [(name, f) for name, path in inside for f in FORBIDDEN[folder] if uses(path, f)]

    assert inside
    assert wrong == []


@pytest.mark.parametrize("library", PLACES)
def test_a_library_is_used_in_its_place_only(library: str) -> None:
    users = [name for name, path in SOURCES.items() if uses(path, library)]

    assert [name for name in users if not is_in(name, PLACES[library])] == []


def test_every_place_that_the_tables_name_exists() -> None:
    named = {*FORBIDDEN, *(place for places in PLACES.values() for place in places)}

    assert [place for place in sorted(named) if not (ROOT / place).exists()] == []


def test_imports_are_absolute() -> None:
    relative = [
        name for name, path in SOURCES.items() if any(n.startswith(".") for n in used_names(path))
    ]

    assert relative == []


def test_modules_are_named_for_what_they_do() -> None:
    vague = [name for name in files(*ROOMS) if VAGUE_NAMES & set(Path(name).with_suffix("").parts)]

    assert vague == []


def test_the_folder_triton_is_no_package() -> None:
    assert not (ROOT / "triton" / "__init__.py").exists()


def test_import_triton_does_not_find_this_repository(tmp_path: Path) -> None:
    """A `triton` of ours on the path would hide the compiler of that name from torch."""
    code = (
        "from importlib.util import find_spec; import gateway, engine; print(find_spec('triton'))"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout
    assert str(ROOT) not in done.stdout.replace(sys.prefix, "")


def test_no_file_is_too_long() -> None:
    lengths = {name: len(path.read_bytes().splitlines()) for name, path in files(*ROOMS).items()}

    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_is_too_long_and_nine_in_ten_are_short(room: str) -> None:
    lengths = dict(functions(room))

    p90 = sorted(lengths.values())[math.ceil(0.9 * len(lengths)) - 1]
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}
    assert p90 <= P90_FUNCTION_LINES
