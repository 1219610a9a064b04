"""What is deployed on Modal, as the environment says it: model, GPU, counts, tunnel, access."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from engine.autoscale import Bounds
from engine.errors import EngineError
from engine.spec import CAPABILITIES, EngineSpec
from engine.tunnelled import EXIT_TIMEOUT_SECONDS, SERVER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "SPEECH_MODAL_"
WORK = "/work"
GRPC_PORT = 8001
SECRET = "SPEECH_TRITON_SECRET"  # noqa: S105  a name
CERTIFICATES = {
    "certificate": "SPEECH_TRITON_CERTIFICATE",
    "key": "SPEECH_TRITON_KEY",
    "client-root": "SPEECH_TRITON_CLIENT_ROOT",
    "own-certificate": "SPEECH_TRITON_OWN_CERTIFICATE",
    "own-key": "SPEECH_TRITON_OWN_KEY",
}
"""Options of `engine serve`, and what of the Modal secret each is: PEM itself."""
SETTINGS_OF = {"h2": "system", "raw": "private"}
"""How gateways check who is behind each kind of tunnel (their SPEECH_TRITON_TLS)."""
CHOICES = {
    "model": ("spark_tts", "hibari"),
    "tunnel": tuple(SETTINGS_OF),
    # The others are calibrated, with a data set.
    "quantization": ("none", "int8", "int4", "int4_gptq"),
}
RANGES = {
    "capacity": (1, 32_768),
    "min_containers": (1, 10_000),
    "max_containers": (1, 10_000),
    "cool_down_seconds": (1, 12 * 3600),
    "startup_seconds": (1, 12 * 3600),
    "scaledown_seconds": (2, 3600),
}
"""The last is Modal's own; functions run 24 hours at most, and a scaler two cool-downs."""
NAME = r"[A-Za-z0-9._-]{1,55}"
FORMS = {
    "gateway": (r"|https?://[^/\s?#@]+(/[^\s?#]*)?", "a URL like https://speech.example"),
    "region": (
        r"(us|eu|uk|ap|ca|jp|me|sa|mx|af)(-[a-z]+)?(-\d)?",
        "one of Modal's regions, such as us-east, us-west or eu-west",
    ),
    "registry": (NAME, "a name of 1 to 55 letters, digits, dots, dashes and underscores"),
    "secret": (NAME, "a name of 1 to 55 letters, digits, dots, dashes and underscores"),
    "revision": (r"[\w./-]+", "a commit, branch or tag"),
    "python": (r"/\S+", "the whole path of a Python in the image"),
}
OF_WEIGHTS = ("revision", "quantization", "gpu", "fallback_gpus")
"""What a model without weights does not use."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Each field is a variable, SPEECH_MODAL_ and its name.

    `model` hibari needs neither GPU nor weights: it tries tunnel, registry and scaling for cents.
    `gpu` is one, since an engine runs on the GPU it was built on alone; `fallback_gpus`, with
    commas, are others of the same compute capability. `capacity` is how many streams a Triton
    takes, and the largest batch of its engine. `gateway`, a URL, is where the load is read; without
    one, nothing scales the Tritons behind tunnels. `python` is the image's, with this project.
    """

    model: str = "spark_tts"
    revision: str = "main"
    quantization: str = "none"
    gpu: str = "L4"
    fallback_gpus: str = ""
    tunnel: str = "h2"
    registry: str = "speech-tritons"
    secret: str = "speech-triton"  # noqa: S105  a name
    gateway: str = ""
    region: str = "us-east"
    capacity: int = 8
    min_containers: int = 1
    max_containers: int = 4
    cool_down_seconds: int = 300
    startup_seconds: int = 900
    scaledown_seconds: int = 300
    python: str = "/opt/speech/bin/python"

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Deployment:
        """Read the variables; raises EngineError naming one that is wrong or not known."""
        given = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
        known = {f"{PREFIX}{field.name.upper()}": field for field in fields(cls)}
        if unknown := sorted(given.keys() - known.keys()):
            raise EngineError(f"{unknown[0]} is no setting; there are: {', '.join(known)}")
        values: dict[str, str | int] = {}
        for name, text in given.items():
            field = known[name]
            if field.type == "int" and not text.isdecimal():
                raise EngineError(f"{name} is {text!r}, and must be a whole number")
            values[field.name] = int(text) if field.type == "int" else text
        return cls(**values)  # type: ignore[arg-type]  # by the types of the fields

    def __post_init__(self) -> None:
        """Raise EngineError for what cannot go together."""
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                variable = f"{PREFIX}{name.upper()}"
                raise EngineError(f"{variable} is {value!r}; there are: {', '.join(choices)}")
        self._check_values()
        self._check_used()
        try:
            _ = self.bounds, self.spec
        except EngineError as error:
            raise EngineError(f"the variables {PREFIX}…: {error}") from error
        for gpu in self.gpus[1:]:
            if CAPABILITIES.get(gpu) != CAPABILITIES[self.gpu]:
                raise EngineError(
                    f"{PREFIX}FALLBACK_GPUS: an engine of {self.gpu} does not run on {gpu!r}, "
                    "which has another compute capability"
                )

    def _check_values(self) -> None:
        for name, (least, most) in RANGES.items():
            if not least <= (count := getattr(self, name)) <= most:
                variable = f"{PREFIX}{name.upper()}"
                raise EngineError(f"{variable} is {count}; {least} to {most} are possible")
        for name, (form, words) in FORMS.items():
            if not re.fullmatch(form, value := getattr(self, name)):
                raise EngineError(f"{PREFIX}{name.upper()} is {value!r}, and must be {words}")

    def _check_used(self) -> None:
        reasons = {}
        if self.model == "hibari":
            words = f"{PREFIX}MODEL is hibari, which has no weights and needs no GPU"
            reasons = dict.fromkeys(OF_WEIGHTS, words)
        if not self.gateway:
            reasons["cool_down_seconds"] = f"without {PREFIX}GATEWAY nothing scales"
        for field in fields(self):
            if field.name in reasons and getattr(self, field.name) != field.default:
                variable = f"{PREFIX}{field.name.upper()}"
                raise EngineError(f"{variable} has no effect: {reasons[field.name]}; leave it out")

    def variables(self) -> dict[str, str]:
        """Return what makes a container, which reads them anew, see the same."""
        return {f"{PREFIX}{f.name.upper()}": str(getattr(self, f.name)) for f in fields(self)}

    @property
    def gpus(self) -> list[str]:
        """What may serve, best first; none for a model of the CPU."""
        others = [gpu.strip() for gpu in self.fallback_gpus.split(",") if gpu.strip()]
        return [] if self.model == "hibari" else [self.gpu, *others]

    @property
    def bounds(self) -> Bounds:
        """How many Tritons there may be."""
        limits = (self.min_containers, self.max_containers, self.capacity)
        return Bounds(*limits, cool_down_seconds=self.cool_down_seconds)

    @property
    def spec(self) -> EngineSpec:
        """The engine."""
        return EngineSpec(
            revision=self.revision,
            quantization=self.quantization,
            gpu=self.gpu,
            max_batch=self.capacity,
        )

    def step(self, name: str) -> list[str]:
        """Return the command of a step from weights to an engine."""
        command = self._engine(name, "--work", WORK, "--revision", self.revision)
        if name == "download":
            return command
        options = {"quantization": self.quantization, "gpu": self.gpu, "max-batch": self.capacity}
        return command + [word for n, v in options.items() for word in (f"--{n}", str(v))]

    def render(self, folder: str) -> list[str]:
        """Return the command that writes the model repository."""
        return self._engine("render", folder, *self._models())

    def serve(self, access: list[str], port: int = GRPC_PORT) -> list[str]:
        """Return the command that serves the model, for callers that have what `access` says."""
        ports = ["--grpc-port", str(port), "--metrics-port", str(port + 1)]
        waits = ["--start-timeout", str(self.startup_seconds)]
        waits += ["--exit-timeout", str(EXIT_TIMEOUT_SECONDS)]
        return self._engine("serve", *self._models(), *ports, *waits, *access)

    def _engine(self, *words: str) -> list[str]:
        return [self.python, "-I", "-m", "engine", *words]

    def _models(self) -> list[str]:
        if self.model == "hibari":
            return ["--model", self.model]
        weights = f"{WORK}/weights/{self.spec.weights_key()}"
        engine = f"{WORK}/engine/{self.spec.key()}"
        folders = ["--model-dir", weights, "--engine-dir", engine]
        on = ["--device", "cuda", "--dtype", self.spec.dtype]
        return ["--model", self.model, "--llm", "tensorrtllm", *folders, *on]


def access_options(tunnel: str, secrets: Mapping[str, str], folder: Path) -> list[str]:
    """Write what callers need into `folder`, and return the options that name the files.

    `tunnel` is one of Deployment's. Raises EngineError for a secret that is missing: whoever finds
    the address of a tunnel can call it.
    """
    wanted = {"secret-file": SECRET}
    if tunnel == "raw":
        wanted |= {f"tls-{option}": name for option, name in CERTIFICATES.items()}
    if missing := [name for name in wanted.values() if not secrets.get(name)]:
        raise EngineError(
            f"a tunnel of the kind {tunnel!r} needs {', '.join(missing)} in its Modal secret: "
            "see engine/README.md"
        )
    options = []
    for option, name in wanted.items():
        path = folder / option
        path.touch(mode=0o600)
        path.write_text(secrets[name], encoding="utf-8")
        options += [f"--{option}", str(path)]
    if tunnel == "raw":
        options += ["--tls-root", str(folder / "tls-client-root"), "--tls-name", SERVER_NAME]
    return options
