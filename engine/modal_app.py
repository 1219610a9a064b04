"""From weights to an engine on Modal, and what its two ways of serving share.

`modal run -m engine.modal_app::download`, then `build` and `render`, from the root of a checkout.
What is decided is in `deployment`. Modal runs this file in its containers too, where the image's
variables say the same settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import modal

from engine.deployment import WORK, Deployment
from engine.errors import EngineError

SOURCES = ("engine", "gateway", "triton")
INSTALL = (
    "/opt/speech/bin/python -m pip install --quiet --no-deps --no-build-isolation /src",
    "rm -rf /src",
)

try:
    deployment = Deployment.read(os.environ)
except EngineError as error:
    # Modal's command line would show where this was called from, too.
    sys.exit(f"error: {error}")


def triton_image() -> modal.Image:
    """Return the image of triton/Dockerfile: NVIDIA's with ours beside, or the CPU's."""
    if deployment.model == "hibari":
        base = modal.Image.debian_slim(python_version="3.11").apt_install("libexpat1")
        venv, lock, flags = "python -m venv /opt/speech", "requirements.lock", ""
    else:
        # No add_python: a second Python on PATH is not the one that Triton's stub is for.
        base = modal.Image.from_registry(
            deployment.spec.container,
            setup_dockerfile_commands=["RUN ln -sf /usr/bin/python3 /usr/local/bin/python"],
        ).entrypoint([])
        venv = "python3 -m venv --system-site-packages --without-pip /opt/speech"
        lock, flags = "triton/requirements.lock", "--no-deps"
    image = base.add_local_file(lock, "/src/lock", copy=True).run_commands(
        venv,
        f"/opt/speech/bin/python -m pip install --quiet {flags} --require-hashes -r /src/lock",
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        image = image.add_local_file(name, f"/src/{name}", copy=True)
    for name in SOURCES:
        image = image.add_local_dir(name, f"/src/{name}", copy=True, ignore=["**/__pycache__"])
    return image.run_commands(*INSTALL).env(deployment.variables())


app = modal.App("speech-engine")
weights = modal.Volume.from_name("speech-weights", create_if_missing=True)
engines = modal.Volume.from_name("speech-engines", create_if_missing=True)
folders: dict[Any, Any] = {f"{WORK}/weights": weights, f"{WORK}/engine": engines}
image = triton_image()
serving: dict[str, Any] = {
    "image": image,
    "volumes": folders,
    "secrets": [modal.Secret.from_name(deployment.secret)],
    "gpu": deployment.gpus or None,
    # Later than Triton's own, whose words say what was wrong.
    "startup_timeout": deployment.startup_seconds + 60,
    "max_containers": deployment.max_containers,
    "scaledown_window": deployment.scaledown_seconds,
}
"""What a container that serves has, whichever way it is reached."""


@app.function(image=image, volumes=folders, secrets=serving["secrets"], timeout=3600)
def download() -> None:
    """Fetch the weights; HF_TOKEN of the secret opens a private repository."""
    subprocess.run(deployment.step("download"), check=True)
    weights.commit()


@app.function(image=image, volumes=folders, gpu=deployment.gpu, timeout=4 * 3600)
def build() -> None:
    """Convert the weights and build the engine, on the GPU that will serve it."""
    subprocess.run(deployment.step("convert"), check=True)
    subprocess.run(deployment.step("build"), check=True)
    engines.commit()


@app.function(image=image, volumes=folders)
def render() -> None:
    """Write the model repository and show it: weights and engine are there and go together."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(deployment.render(folder), check=True)
        for config in sorted(Path(folder).rglob("config.pbtxt")):
            print(config.read_text(encoding="utf-8"))
