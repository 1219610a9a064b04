"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from gateway.api.deps import StateDep
from gateway.telemetry.metrics import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.head("/livez", include_in_schema=False)
@router.get("/livez")
async def live() -> dict[str, str]:
    """Answer that the process runs, whatever Triton does."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.head("/health", include_in_schema=False)
@router.get("/readyz")
@router.get("/health")
async def ready(state: StateDep) -> JSONResponse:
    """Answer 200 when every model can be used, else 503 with the reason for each."""
    unready = await state["synthesizer"].unready()
    if unready:
        reasons = {model: error.message for model, error in unready.items()}
        return JSONResponse({"status": "unavailable", "models": reasons}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics")
async def metrics(state: StateDep) -> Response:
    """Answer in Prometheus' text format."""
    return Response(state["metrics"].exposition(), media_type=CONTENT_TYPE)
