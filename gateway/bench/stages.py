"""What each of Triton's models did during a level: its statistics after, less those before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.backend.poller import DEADLINE_SECONDS
from gateway.backend.statistics import ask_statistics
from gateway.backend.triton import TritonSynthesizer
from gateway.settings import load_settings
from gateway.stats_table import since

if TYPE_CHECKING:
    from gateway.backend.statistics import Duration, ReplicaStatistics

STAGES = ("queue", "compute_input", "compute_infer", "compute_output")


class StatisticsReader:
    """Asks the Triton at host:port; make it inside the running event loop."""

    def __init__(self, address: str) -> None:
        settings = load_settings(triton_address=address, triton_metrics_address="")
        self._synthesizer = TritonSynthesizer(settings)
        self._patience_seconds = settings.connect_timeout_seconds + DEADLINE_SECONDS

    async def read(self) -> ReplicaStatistics:
        """Return what it says now; raises SpeechError."""
        for error in (await self._synthesizer.probe_all()).values():
            raise error
        [target] = self._synthesizer.targets()
        return await ask_statistics(target, (), self._patience_seconds)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._synthesizer.aclose()


def difference(
    before: ReplicaStatistics, after: ReplicaStatistics
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the figures of each model that worked in between, and what cannot be told, in words.

    They are requests, executions, how many of these had which batch size, and the mean seconds of
    each stage.
    """
    meanwhile, notes = since(before, after)
    models = {}
    for model in meanwhile.models:
        requests, failed = model.stages["success"].count, model.stages["fail"].count
        if requests or failed:
            name = model.name if model.version == "1" else f"{model.name}, version {model.version}"
            models[name] = {
                "requests": requests,
                "failed": failed,
                "inferences": model.inferences,
                "executions": model.executions,
                "mean_seconds": {stage: _mean(model.stages[stage]) for stage in STAGES},
                "batch_sizes": {
                    str(batch.batch_size): count
                    for batch in model.batches
                    if (count := batch.stages["compute_infer"].count)
                },
            }
    return models, notes


def _mean(duration: Duration) -> float:
    return duration.seconds / duration.count if duration.count else 0.0
