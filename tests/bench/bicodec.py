"""What BiCodec's decoder costs and what half precision does to it: `make bench-bicodec`.

Random weights of the real size: times are real, errors only as good as random weights tell.
Nothing here is a test: figures are printed, never asserted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from engine.fixture.bicodec import write_bicodec
from speech_backend.bicodec import BiCodecDecoder

SAMPLE_RATE_HZ = 16_000
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def main() -> None:
    """Print a row for each dtype."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=["tiny", "full"], default="full")
    parser.add_argument("--items", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--padded", action="store_true", help="items of unequal lengths")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    batch = random_batch(args.items, args.tokens, padded=args.padded)
    with tempfile.TemporaryDirectory() as folder:
        write_bicodec(Path(folder) / "BiCodec", args.size, seed=1)
        exact = BiCodecDecoder.load(Path(folder) / "BiCodec").decode(*batch)
        decoders = {
            dtype: BiCodecDecoder.load(Path(folder) / "BiCodec", args.device, dtype)
            for dtype in DTYPES
        }
    print(f"{args.size}, {args.items} x {args.tokens} tokens on {args.device}:")
    print("| dtype | error, dB | largest error / peak | ms a batch | times real time |")
    print("|---|---|---|---|---|")
    for dtype, decoder in decoders.items():
        print(row(str(dtype).removeprefix("torch."), decoder, batch, exact, args.rounds))


def random_batch(items: int, tokens: int, *, padded: bool) -> Batch:
    """Make tokens of which, if padded, the last item has all and the first the fewest."""
    random = torch.Generator().manual_seed(0)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random)
    voices = torch.randint(0, 4096, (items, 32), generator=random)
    fewest = max(1, tokens // 2) if padded else tokens
    return semantic, voices, torch.linspace(fewest, tokens, items).round().long()


def row(name: str, decoder: BiCodecDecoder, batch: Batch, exact: torch.Tensor, rounds: int) -> str:
    """Measure one decoder against the float32 samples of the CPU."""
    error = decoder.decode(*batch).cpu() - exact
    ratio_db = 10 * torch.log10(error.square().mean() / exact.square().mean()).item()
    largest = (error.abs().max() / exact.abs().max()).item()
    seconds = statistics.median(measure(decoder, batch) for _ in range(rounds))
    speed = batch[2].sum().item() * decoder.config.samples_per_token / SAMPLE_RATE_HZ / seconds
    return f"| {name} | {ratio_db:.0f} | {largest:.1e} | {seconds * 1000:.1f} | {speed:.1f} |"


def measure(decoder: BiCodecDecoder, batch: Batch) -> float:
    """Return the seconds of one decode; the copy of its samples waits for a GPU."""
    start = time.perf_counter()
    decoder.decode(*batch).cpu()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
