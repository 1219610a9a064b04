"""The language model on vLLM where requests come and go, as behind the front.

Each client asks anew when its answer has ended. Beside the speed it counts ids that a request does
not allow. Alone: `python gpu_llm_churn.py FOLDER`, the folder that gpu_llm.py wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_llm_asks as asks
import numpy as np

from speech_backend.vllm_engine.model import VllmModel

if TYPE_CHECKING:
    from speech_wire import GenerationRequest

FIRST_IDS = 79
"""What the front's exact first window is made of, with a first chunk of 12 tokens."""

OTHER = (10, 2000)
"""Allowed ids that no other request of a mixed batch allows."""

PARAMETERS = {
    "dtype": "bfloat16",
    "max_sequence_tokens": "8192",
    "max_running": "128",
    "memory_fraction": "0.4",
}


@dataclass
class Heard:
    """What the clients of a level have heard."""

    until: float
    ids: int = 0
    wrong: int = 0
    ended: int = 0
    firsts: list[float] = field(default_factory=list)


async def level(
    model: VllmModel, asked: asks.Asks, clients: int, seconds: float, *, mixed: bool = False
) -> dict[str, Any]:
    """Have so many clients ask for so long; where `mixed`, half of them are held to other ids."""
    requests = asked.sampled(clients, 300, prompt_ids=400, semantic=True)
    if mixed:
        choices = ((OTHER,), ())
        requests[::2] = [
            replace(request, allowed_ids=choices[number % 2])
            for number, request in enumerate(requests[::2])
        ]
    began, before = time.monotonic(), replace(model.figures)
    heard = Heard(began + seconds)
    await asyncio.gather(*(_client(model, request, heard) for request in requests))
    lasted = time.monotonic() - began
    steps = model.figures.steps - before.steps
    first = np.percentile(heard.firsts, (50, 90, 99)) * 1000
    return {
        "clients": clients,
        "mixed": mixed,
        "step ms": 1000 * (model.figures.step_seconds - before.step_seconds) / steps,
        "ids a second": heard.ids / lasted,
        "first sound's ids ms p50": first[0],
        "p90": first[1],
        "p99": first[2],
        "requests": heard.ended,
        "ids not allowed": heard.wrong,
    }


async def _client(model: VllmModel, request: GenerationRequest, heard: Heard) -> None:
    draw = random.Random(int(request.input_ids.sum()))
    # Not all at once, which would stay so for a while.
    await asyncio.sleep(draw.random())
    while time.monotonic() < heard.until:
        length = draw.randrange(240, 320)
        asked = replace(request, max_new_tokens=length, first_ids=FIRST_IDS)
        began, count = time.monotonic(), 0
        async with aclosing(model.generate(asked)) as answers:
            async for new in answers:
                if not count:
                    heard.firsts.append(time.monotonic() - began)
                count += len(new.ids)
                heard.wrong += _outside(asked, new.ids)
        heard.ids += count
        heard.ended += 1


def _outside(request: GenerationRequest, ids: Any) -> int:
    if not request.allowed_ids:
        return 0
    inside = np.zeros(len(ids), bool)
    for first, last in request.allowed_ids:
        inside |= (first <= ids) & (ids <= last)
    return int((~inside).sum())


async def measure(folder: Path, clients: list[int], seconds: float) -> list[dict[str, Any]]:
    """Start an engine and measure each level, then one of mixed requests."""
    model = VllmModel({"model_dir": str(folder), **PARAMETERS})
    began = time.monotonic()
    await model.live.open()
    print(f"started in {time.monotonic() - began:.0f} s", flush=True)
    asked = asks.Asks(folder)
    rows = []
    for count, mixed in (*((count, False) for count in clients), (clients[-1], True)):
        rows.append(await level(model, asked, count, seconds, mixed=mixed))
        print(json.dumps(rows[-1]), flush=True)
    await model.live.close()
    return rows


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=(1, 16, 32, 64))
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    print(asks.table(asyncio.run(measure(options.folder, options.clients, options.seconds))))


if __name__ == "__main__":
    main()
