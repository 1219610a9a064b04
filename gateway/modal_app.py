"""The gateway on Modal: `modal deploy -m gateway.modal_app`, from the root of a checkout.

Its settings are the variables of the Modal secret `speech-gateway`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import modal

if TYPE_CHECKING:
    from gateway.settings import Settings

log = logging.getLogger("speech")

LOCK = "gateway/requirements.lock"
PACKAGES = ("engine", "gateway", "triton")
REQUEST_SECONDS = 1200
"""Above SPEECH_REQUEST_TIMEOUT_SECONDS, which ends a request with an answer."""

MODALS = ("host", "port", "shutdown_grace_seconds")
"""Settings of `serve` itself."""

image = (
    modal.Image.debian_slim(python_version="3.11")
    .add_local_file(LOCK, "/src/lock", copy=True)
    .run_commands("python -m pip install --quiet --require-hashes -r /src/lock")
)
for name in ("pyproject.toml", "README.md", "LICENSE"):
    image = image.add_local_file(name, f"/src/{name}", copy=True)
for name in PACKAGES:
    image = image.add_local_dir(name, f"/src/{name}", copy=True, ignore=["**/__pycache__"])
image = image.run_commands("python -m pip install --quiet --no-deps --no-build-isolation /src")

app = modal.App("speech-gateway")
# Where voices are kept that were made or tokenised: the same ones after a new start.
cache = modal.Volume.from_name("speech-gateway-cache", create_if_missing=True)


@app.function(
    image=image,
    volumes={"/cache": cache},
    env={"SPEECH_CACHE_DIR": "/cache"},
    secrets=[modal.Secret.from_name("speech-gateway")],
    timeout=REQUEST_SECONDS,
    min_containers=1,
    # Admission and choice of a Triton go by what one process has in flight.
    max_containers=1,
)
@modal.concurrent(max_inputs=1000)
@modal.asgi_app()
def speech() -> Any:
    """Return the service, as `speech-gateway serve` runs it."""
    from gateway.settings import load_settings  # noqa: PLC0415  what Modal reads needs none of it

    return service(load_settings())


def service(settings: Settings) -> Any:
    """Return the service, after warnings of what has no effect here.

    Raises SettingsError for a deadline that Modal's own would cut.
    """
    from gateway.app import create_app  # noqa: PLC0415  as above
    from gateway.settings import SettingsError, unknown_settings  # noqa: PLC0415
    from gateway.settings.unused import unused_settings  # noqa: PLC0415
    from gateway.telemetry.logging import configure_logging  # noqa: PLC0415

    if settings.request_timeout_seconds >= REQUEST_SECONDS:
        raise SettingsError(
            f"SPEECH_REQUEST_TIMEOUT_SECONDS = {settings.request_timeout_seconds:g}, and on Modal "
            f"it must be below {REQUEST_SECONDS}, after which Modal cuts a request without a word"
        )
    ours = [name for name in MODALS if name in settings.model_fields_set]
    modals = [f"SPEECH_{name.upper()} has no effect: on Modal, Modal decides it" for name in ours]
    configure_logging(settings.log_level, settings.log_format)
    for detail in (*unknown_settings(), *unused_settings(settings), *modals):
        log.warning("gateway.setting_ignored", extra={"fields": {"detail": detail}})
    return create_app(settings)
