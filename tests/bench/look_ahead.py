"""What less context to the right does to the joined chunks: `make bench-look-ahead`.

Random weights of the real size: with real ones the error of a token's neighbours is smaller or
greater, but zero at 67 all the same. Figures are printed, never asserted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from engine.fixture.bicodec import write_bicodec
from speech_backend.bicodec import BiCodecDecoder
from speech_backend.windows import WindowPlan, WindowPlanner

TOKENS = 150
LOOK_AHEADS = (67, 60, 45, 30, 20, 10, 5, 1)
SAMPLES_PER_TOKEN = 320
FIRST_CHUNK = 25


def main() -> None:
    """Print a row for each look-ahead."""
    random = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 8192, (1, TOKENS), generator=random)
    voice = torch.randint(0, 4096, (1, 32), generator=random)
    with tempfile.TemporaryDirectory() as folder:
        write_bicodec(Path(folder) / "BiCodec", "full", seed=1)
        decoder = BiCodecDecoder.load(Path(folder) / "BiCodec")
    whole = decoder.decode(codes, voice, torch.tensor([TOKENS]))[0]
    print(f"full size, float32, {TOKENS} tokens, first chunk {FIRST_CHUNK}:")
    print("| look-ahead, tokens | first sound after, s of tokens | error, dB | largest / peak |")
    print("|---|---|---|---|")
    for look_ahead in LOOK_AHEADS:
        error = joined(decoder, codes, voice, look_ahead) - whole
        ratio_db = 10 * torch.log10(error.square().mean() / whole.square().mean()).item()
        largest = (error.abs().max() / whole.abs().max()).item()
        first = (FIRST_CHUNK + look_ahead) / 50
        print(f"| {look_ahead} | {first:.2f} | {ratio_db:.0f} | {largest:.1e} |", flush=True)


def joined(
    decoder: BiCodecDecoder, codes: torch.Tensor, voice: torch.Tensor, look_ahead: int
) -> torch.Tensor:
    """Decode window by window, as tokens come at twice the speed of speech."""
    planner = WindowPlanner(WindowPlan(look_ahead, first_chunk=FIRST_CHUNK))
    pieces = []
    for number in range(TOKENS + 1):
        now = number / 100
        planner.push([int(codes[0, number])]) if number < TOKENS else planner.finish()
        while window := planner.next_window(now):
            tokens = torch.from_numpy(planner.codes(window))[None].long()
            samples = decoder.decode(tokens, voice, torch.tensor([window.length]))[0]
            first, stop = (n * SAMPLES_PER_TOKEN for n in (window.kept.start, window.kept.stop))
            pieces.append(samples[first:stop])
            planner.sent(window, now)
            if window.is_last:
                break
    return torch.cat(pieces)


if __name__ == "__main__":
    main()
