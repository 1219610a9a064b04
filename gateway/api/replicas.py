"""GET /v1/replicas: the Tritons behind the service, for operators."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from gateway.api.deps import StateDep

router = APIRouter(tags=["health"])


@router.get("/v1/replicas")
async def list_replicas(state: StateDep) -> dict[str, Any]:
    """List the Tritons behind the service, with what each does now.

    `problem` is why it cannot be told now which there are, "" while it can.
    """
    synthesizer = state["synthesizer"]
    return {
        "replicas": [asdict(status) for status in synthesizer.statuses()],
        "problem": synthesizer.address_problem(),
    }
