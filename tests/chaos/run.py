"""Many clients, four real Tritons and every fault: what is heard of it, as a table.

`python tests/chaos/run.py` brings one fault after the other, then two at once, and ends with 1 if
a request did what none may: mixed voices, an end before the last sample that looks like one, a
status that blames the caller, waiting past the deadline, a loss where a Triton was only drained.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from chaos.clients import Clients
from chaos.faults import ALONE, EVERYWHERE, PAIRS, SHORT, Fault, name_of
from chaos.noise import write_repository
from chaos.report import HEAD, Trial
from chaos.service import DEADLINE_SECONDS, Gateway
from chaos.station import SECRET, WRONG_MODEL, Site, Station
from engine import certs

CLIENTS = 32
STATIONS = 4
CALM_SECONDS = 5.0


class Chaos:
    """All that is running. Make it inside the running event loop."""

    def __init__(self, folder: Path) -> None:
        site = make_site(folder)
        self.stations = [Station(f"triton-{n}", site) for n in range(STATIONS)]
        self.gateway = Gateway(folder, self.stations)
        self.clients = Clients(self.gateway.url, CLIENTS, DEADLINE_SECONDS)
        self.trials: list[Trial] = []
        self._turn = 0

    async def start(self) -> None:
        """Return once all can speak; raises AssertionError where one cannot."""
        await asyncio.gather(*(asyncio.to_thread(each.wait_ready) for each in self.stations))
        await asyncio.to_thread(self.gateway.start)
        assert await self.gateway.wait_ready(self.stations), self.gateway.log()

    async def close(self) -> None:
        """End all of it."""
        await self.gateway.close()
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in self.stations))

    async def calm(self, seconds: float) -> None:
        """Measure without any fault."""
        trial = Trial(())
        await asyncio.sleep(seconds)
        self._note(trial)

    async def bring(self, faults: tuple[Fault, ...], seconds: float) -> None:
        """Bring each of these to another Triton, for so long, and wait until all are well."""
        order = self.stations[self._turn :] + self.stations[: self._turn]
        self._turn = (self._turn + 1) % STATIONS
        cases = list(zip(faults, order, strict=False))
        trial = Trial(faults)
        await asyncio.gather(*(asyncio.to_thread(fault.harm, at) for fault, at in cases))
        self.gateway.write_addresses(self.stations)
        await asyncio.sleep(seconds)
        healed_at = time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(fault.heal, at) for fault, at in cases))
        self.gateway.write_addresses(self.stations)
        trial.is_well = await self.gateway.wait_ready(self.stations)
        trial.well_after_seconds = time.monotonic() - healed_at
        self._note(trial)

    def _note(self, trial: Trial) -> None:
        trial.close(self.clients.endings)
        self.trials.append(trial)
        print(trial.row(), flush=True)

    def print_sums(self) -> None:
        """Print a row for all pairs, and one for all faults."""
        pairs = [trial for trial in self.trials if trial.count == 2]
        for name, trials in ((f"all {len(pairs)} pairs", pairs), ("all", self.trials)):
            if trials:
                print(Trial.together(name, trials).row())

    def wrong(self) -> list[str]:
        """Return all that must never be and was."""
        found = [words for trial in self.trials for words in trial.wrong()]
        found += [f"request {e.said}: {e.wrong}" for e in self.clients.endings if e.wrong]
        found += [f"{s.name} spoke to strangers" for s in self.stations if s.told_to_strangers]
        return found


def make_site(folder: Path) -> Site:
    """Make what all stations share."""
    ours, theirs, secret = folder / "ours", folder / "theirs", folder / "secret"
    for authority in (ours, theirs):
        certs.make(authority, ["triton.internal"], datetime.now(timezone.utc))
    secret.write_text(f"{SECRET}\n", "utf-8")
    models = write_repository(folder / "models")
    wrong = write_repository(folder / "wrong", WRONG_MODEL)
    return Site(models, wrong, secret, ours, theirs)


async def run(folder: Path, plan: tuple[tuple[Fault, ...], ...], seconds: float) -> list[str]:
    """Bring all faults of the plan; return what must never be and was."""
    chaos = Chaos(folder)
    try:
        await chaos.start()
        print(HEAD)
        asking = asyncio.create_task(chaos.clients.run())
        await chaos.calm(CALM_SECONDS)
        before = await chaos.gateway.held()
        for faults in plan:
            await chaos.bring(faults, seconds)
        chaos.clients.stop()
        await asking
        chaos.print_sums()
        after = await chaos.gateway.held()
        print(f"the gateway held {before} before and {after} after")
        kept = [name for name in ("files", "threads") if after[name] > before[name]]
        return chaos.wrong() + [f"the gateway kept {name}" for name in kept]
    finally:
        await chaos.close()


def main() -> int:
    """Run the chaos; return 1 where something was that must never be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="five trials, a minute")
    parser.add_argument("--only", help="the trials with this word in their name")
    parser.add_argument("--seconds", type=float, help="how long each lasts (6, with --short 3)")
    options = parser.parse_args()
    plan = SHORT if options.short else (*ALONE, *EVERYWHERE, *PAIRS)
    plan = tuple(faults for faults in plan if (options.only or "") in name_of(faults))
    seconds = options.seconds or (3.0 if options.short else 6.0)
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(run(Path(folder), plan, seconds))
    print("\n".join(wrong) or "nothing was wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
