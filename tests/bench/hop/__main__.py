"""What the gateway adds to Triton: `make bench-hop`.

Triton (a fake one), the gateway and the clients are processes of their own. Figures that belong
together are taken in turn, round by round, so that all see the same machine, and given as the
medians of the rounds and as ratios. Nothing here is a test: figures are printed, not asserted.
"""

from __future__ import annotations

import argparse

import uvloop

from bench.hop import first_audio, memory, streams, throughput
from bench.hop.processes import machine


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400, help="pairs at concurrency 1")
    parser.add_argument("--rounds", type=int, default=5, help="rounds at concurrency 16")
    parser.add_argument("--requests", type=int, default=800, help="requests of each round")
    parser.add_argument("--soak", type=int, default=20_000, help="requests, for the memory")
    options = parser.parse_args()
    print(machine())
    uvloop.run(first_audio.report(options.pairs))
    uvloop.run(throughput.report(options.rounds, options.requests))
    uvloop.run(streams.report())
    uvloop.run(memory.report(options.soak))


if __name__ == "__main__":
    main()
