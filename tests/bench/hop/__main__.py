"""What the gateway adds to Triton: `make bench-hop`.

Triton (a fake one), the gateway and the clients are processes of their own. Figures that belong
together are taken in turn, round by round, so that all see the same machine, and given as the
medians of the rounds and as ratios. Nothing here is a test: figures are printed, not asserted.
"""

from __future__ import annotations

import argparse

import uvloop

from bench.hop import first_audio, memory, streams, throughput
from bench.hop.flags import at_least
from bench.hop.processes import machine


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, least, default, what in (
        ("--pairs", 4, 400, "pairs at concurrency 1"),
        ("--rounds", 1, 5, "rounds at concurrency 16"),
        ("--requests", throughput.CLIENTS, 800, "requests of each round"),
        ("--soak", throughput.CLIENTS, 20_000, "requests, for the memory"),
    ):
        parser.add_argument(
            name, type=at_least(least), default=default, metavar="N", help=f"{what} (%(default)s)"
        )
    options = parser.parse_args()
    print(machine())
    uvloop.run(first_audio.report(options.pairs))
    uvloop.run(throughput.report(options.rounds, options.requests))
    uvloop.run(streams.report())
    uvloop.run(memory.report(options.soak))


if __name__ == "__main__":
    main()
