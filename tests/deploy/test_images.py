"""The compose file and the Dockerfiles, as far as they can be read without a daemon."""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from dotenv import dotenv_values

from engine.catalogue import MODELS
from engine.commands import serve
from engine.server import EXIT_GRACE_SECONDS
from engine.tuning import Tuning
from gateway.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
DOCKERFILES = ("gateway/Dockerfile", "triton/Dockerfile")
FOLDER = ROOT / "gateway" / "observability"


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


def volumes(service: str) -> dict[str, str]:
    """Return a service's mounts: what is mounted, and where."""
    mounts = (volume.removesuffix(":ro").rpartition(":") for volume in SERVICES[service]["volumes"])
    return {source: target for source, _, target in mounts}


def test_compose_file_is_one() -> None:
    """A strict parser of the specification takes it, once variables have their defaults."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE)

    assert "${" not in text
    assert set(PyCompose.from_yaml(text).service_names()) == set(SERVICES)


def test_the_cpu_image_is_built_for_what_its_wheel_is_built_for() -> None:
    """Else pip finds no Triton where Docker builds for ARM."""
    assert SERVICES["triton-cpu"]["platform"] == "linux/amd64"


def test_nothing_listens_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_images_of_others_are_pinned() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]

    assert images
    assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in images)


def test_each_file_that_is_mounted_or_built_from_is_there() -> None:
    sources = [s for name in SERVICES if "volumes" in SERVICES[name] for s in volumes(name)]
    files = [source for source in sources if source.startswith("./gateway")]
    builds = [service["build"] for service in SERVICES.values() if "build" in service]

    assert [file for file in files if not (ROOT / file).exists()] == []
    assert {build["dockerfile"] for build in builds} == set(DOCKERFILES)
    for build in builds:
        text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
        assert f" AS {build['target']}\n" in text if "target" in build else True


def test_triton_may_end_before_it_is_killed() -> None:
    for name in ("triton-cpu", "triton-gpu"):
        grace = seconds(SERVICES[name]["stop_grace_period"])
        assert grace > Tuning().exit_seconds + EXIT_GRACE_SECONDS


def test_streams_may_end_before_the_gateway_is_killed() -> None:
    grace = Settings(_env_file=None).shutdown_grace_seconds
    assert seconds(SERVICES["gateway"]["stop_grace_period"]) > grace


def test_names_agree() -> None:
    """Prometheus asks the gateway, Grafana Prometheus, the gateway Triton, each by its name."""
    asked = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    targets = asked["scrape_configs"][0]["static_configs"][0]["targets"]
    provisioning = FOLDER / "grafana" / "provisioning"
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())
    boards = yaml.safe_load((provisioning / "dashboards" / "speech.yml").read_text())

    assert targets == ["gateway:8080"]
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    interval = source["datasources"][0]["jsonData"]["timeInterval"]
    assert interval == asked["global"]["scrape_interval"]
    path = boards["providers"][0]["options"]["path"]
    assert volumes("grafana")["./gateway/observability/grafana/dashboards"] == path
    for triton in ("triton-cpu", "triton-gpu"):
        [alias] = SERVICES[triton]["networks"]["default"]["aliases"]
        settings = SERVICES["gateway"]["environment"]
        assert settings["SPEECH_TRITON_ADDRESS"] == f"{alias}:8001"
        assert settings["SPEECH_TRITON_METRICS_ADDRESS"] == f"{alias}:8002"


@pytest.mark.parametrize("name", ["triton-cpu", "triton-gpu"])
def test_commands_of_the_services_are_understood(name: str) -> None:
    """The engine's own parser takes what follows its entry point, and it has those models."""
    text = (ROOT / "triton" / "Dockerfile").read_text(encoding="utf-8")
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    serve.add(parser.add_subparsers())
    [entry] = {
        tuple(json.loads(words)) for words in re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    }

    options = parser.parse_args([*entry[4:], *SERVICES[name]["command"]])

    assert entry[:4] == ("python", "-I", "-m", "engine")
    assert options.run is serve.run
    assert options.host == "0.0.0.0"  # noqa: S104  the container's
    assert options.model
    assert set(options.model) <= set(MODELS)


def test_settings_of_the_env_file_count_but_for_what_lies_inside(tmp_path: Path) -> None:
    """Whoever copies .env.example speaks to the Triton of this network, and is reached."""
    gateway = SERVICES["gateway"]
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    of_file = dotenv_values(stream=io.StringIO(text)) | {"SPEECH_MODEL_DIR": "work/weights"}
    own = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", v) for name, v in gateway["environment"].items()}
    given = of_file | own
    file = tmp_path / "container.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))

    settings = Settings(_env_file=file)

    assert gateway["env_file"] == [{"path": ".env", "required": False}]
    assert (settings.host, settings.port) == ("0.0.0.0", 8080)  # noqa: S104  the container's
    assert settings.triton_address == "triton:8001"
    assert settings.models == ("hibari",)
    assert str(settings.cache_dir) in volumes("gateway").values()


def test_the_gateway_can_trace() -> None:
    """Its image has what SPEECH_OTLP_ENDPOINT needs."""
    needed = requires("speech-gateway") or []
    names = [re.split(r"[^\w-]", n)[0] for n in needed if re.search("extra == .tracing.", n)]
    lock = (ROOT / "gateway" / "requirements.lock").read_text(encoding="utf-8")

    assert len(names) == 2
    assert [name for name in names if f"\n{name}==" not in lock] == []


def test_what_others_leave_behind_is_reaped() -> None:
    """The first process of a container is nobody's child, and gets only signals it asks for."""
    ours = [service for service in SERVICES.values() if "build" in service]

    assert len(ours) == 3
    assert all(service["init"] is True for service in ours)


def test_grafana_has_no_other_door() -> None:
    given = SERVICES["grafana"]["environment"]

    assert given["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert given["GF_AUTH_BASIC_ENABLED"] == "false"


def test_the_command_that_makes_an_engine_is_understood() -> None:
    """The head of the compose file names it: service, entry point and the engine's options."""
    [command] = re.findall(r"docker compose (--profile gpu run .*\\\n.*)", COMPOSE)
    words = shlex.split(command.replace("\\\n#", " "))
    entry = words.index("--entrypoint")
    service, *options = words[entry + 2 :]

    assert (words[entry + 1], service) == ("python -m engine", "triton-gpu")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "engine", *options, "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # The image that is built from by default is the one in which such an engine runs.
    text = (ROOT / "triton" / "Dockerfile").read_text(encoding="utf-8")
    [tag] = re.findall(r"^ARG TRITON_TAG=(\S+)", text, re.MULTILINE)
    assert done.stdout.startswith(f"image: nvcr.io/nvidia/tritonserver:{tag} ")
    assert SERVICES["triton-gpu"]["build"]["args"]["TRITON_TAG"] == f"${{TRITON_TAG:-{tag}}}"


def test_the_gpu_image_keeps_its_own_huggingface_hub() -> None:
    """Transformers before 5, as NVIDIA's images have it, is not imported beside another one."""
    locked = (ROOT / "triton" / "requirements.lock").read_text(encoding="utf-8")

    names = re.findall(r"^([\w-]+)==", locked, re.MULTILINE)
    assert {"huggingface-hub", "transformers", "torch", "numpy"} & set(names) == set()


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_has_nothing_to_say(name: str) -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert program is not None

    done = subprocess.run(
        [program, "--format", "json", ROOT / name], capture_output=True, check=False, timeout=60
    )

    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("name", DOCKERFILES)
def test_what_an_image_copies_is_there_and_not_ignored(name: str) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = re.findall(r"^COPY ([^-].*) \S+$", text, re.MULTILINE)
    copied = [word for line in lines for word in line.split()]

    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert [path for path in copied if f"!{path.split('/')[0]}" not in ignored] == []


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_run_as_nobody_in_particular_and_are_asked_how_they_are(name: str) -> None:
    stages = re.split(r"^FROM ", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    final = [stage for stage in stages if "ENTRYPOINT" in stage]

    assert final
    for stage in final:
        assert "\nUSER 10001\n" in stage
        assert "\nHEALTHCHECK " in stage


def test_tritons_health_is_asked_by_a_command_that_there_is() -> None:
    text = (ROOT / "triton" / "Dockerfile").read_text(encoding="utf-8")
    commands = [json.loads(words) for words in re.findall(r"HEALTHCHECK .*\\\n  CMD (.*)", text)]

    assert len(commands) == 2
    for program, *options in commands:
        done = subprocess.run(
            [sys.executable, *options, "--help"], capture_output=True, check=False, timeout=60
        )
        assert (program, done.returncode) == ("python", 0)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_packages_come_with_hashes_and_ours_without_dependencies(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    installs = [line for line in text.splitlines() if "pip install" in line]

    assert installs
    assert [i for i in installs if "--require-hashes" not in i and " --no-deps " not in i] == []
