"""BiCodec on a CUDA GPU beside the reference modules, with random weights: `make gpu-bench`.

Prints wall times (medians, milliseconds) of one run on one GPU; nothing is asserted. Needs torch
with CUDA, transformers and spark-tts-lib.
"""

from __future__ import annotations

import platform
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import yaml
from spark_tts_lib.models.audio_tokenizer import BiCodecTokenizer
from spark_tts_lib.models.bicodec import BiCodec

from engine.fixture import CONFIG
from engine.fixture.bicodec import write_bicodec
from engine.fixture.wav2vec2 import write_wav2vec2
from speech_backend.audio_tokenizer import AudioTokenizer
from speech_backend.bicodec import BiCodecDecoder
from speech_backend.vocoder import Vocoder
from speech_backend.windows import WindowPlan, WindowPlanner, bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from speech_backend.windows import Window
    from speech_wire import Tensors

SHAPES = ((1, 48), (1, 160), (1, 384), (8, 160), (8, 384), (32, 160))
ROUNDS = 15
UTTERANCES = (250, 500)
FASTER_THAN_SPEECH = 6.0
"""How fast the language model is assumed to write when windows are planned."""


def main() -> None:
    """Print the tables."""
    gpu = torch.cuda.get_device_name()
    print(f"{gpu}, torch {torch.__version__}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder)
        exact = BiCodecDecoder.load(folder / "BiCodec", "cuda")
        half = BiCodecDecoder.load(folder / "BiCodec", "cuda", torch.float16)
        reference = BiCodec.load_from_checkpoint(folder / "BiCodec").to("cuda").eval()
        compiled = torch.compile(half.forward, mode="reduce-overhead", dynamic=False)
        print_windows(reference, exact, half, compiled)
        print_streams(half, Vocoder.load(folder, "cuda", "float16", compiled=True))
        print_tokenizers(folder)


def write_checkpoint(folder: Path) -> None:
    """Write BiCodec and wav2vec2 at their real sizes, random."""
    write_bicodec(folder / "BiCodec", "full", seed=1)
    write_wav2vec2(folder / "wav2vec2-large-xlsr-53", "full", seed=1)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")


def random_batch(items: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make tokens on the GPU: [items, tokens] and [items, 32]."""
    random = torch.Generator().manual_seed(items * tokens)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random)
    voices = torch.randint(0, 4096, (items, 32), generator=random)
    return semantic.cuda(), voices.cuda()


@torch.inference_mode()
def milliseconds(work: Callable[[], Any]) -> float:
    """Return the median time of a call, after three that warm it up."""
    times = []
    for number in range(3 + ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if number >= 3:
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def print_windows(reference: Any, exact: Any, half: Any, compiled: Any) -> None:
    """Print the time of one decode for each batch and window."""
    print(
        "\n| batch x tokens | reference, TF32 | fp32 | ours, fp32 | fp16 | fp16 compiled | gain |"
    )
    print("|---|---|---|---|---|---|---|")
    for items, tokens in SHAPES:
        semantic, voices = random_batch(items, tokens)
        # PyTorch's own default, which loading our modules turns off in the whole process.
        torch.backends.cudnn.allow_tf32 = True
        rounded = milliseconds(lambda s=semantic, v=voices: reference.detokenize(s, v[:, None]))
        torch.backends.cudnn.allow_tf32 = False
        times = [
            rounded,
            milliseconds(lambda s=semantic, v=voices: reference.detokenize(s, v[:, None])),
            milliseconds(lambda s=semantic, v=voices: exact(s, v)),
            milliseconds(lambda s=semantic, v=voices: half(s, v)),
            milliseconds(lambda s=semantic, v=voices: compiled(s, v)),
        ]
        shown = " | ".join(f"{value:.1f}" for value in times)
        print(f"| {items} x {tokens} | {shown} | {times[1] / min(times[2:]):.1f} |", flush=True)


def print_streams(half: Any, vocoder: Vocoder) -> None:
    """Print what the windows of an utterance cost together, beside one decode of all of it."""
    print("\n| tokens | windows | all windows, compiled | one decode, eager | ratio |")
    print("|---|---|---|---|---|")
    for tokens in UTTERANCES:
        windows = planned(tokens)
        lengths = [window.length for window in windows]
        utterance = random_batch(1, tokens)
        given = [[tensors(window)] for window in windows]
        streamed = sum(milliseconds(partial(vocoder.decode, one)) for one in given)
        whole = milliseconds(partial(half, *utterance))
        print(f"| {tokens} | {lengths} | {streamed:.1f} | {whole:.1f} | {streamed / whole:.2f} |")


def tensors(window: Window) -> Tensors:
    """Return a window of random tokens as the front sends it."""
    semantic, voices = (batch[0].cpu().numpy() for batch in random_batch(1, bucket(window.length)))
    return {
        "semantic_tokens": semantic,
        "length": np.array([window.length]),
        "kept_tokens": np.array([window.kept.start, window.kept.stop]),
        "global_tokens": voices,
    }


def planned(tokens: int) -> list[Window]:
    """Return the windows of an utterance whose tokens come evenly and are decoded at once."""
    planner, windows, now = WindowPlanner(WindowPlan()), [], 0.0
    for number in range(tokens + 1):
        now = number / (50 * FASTER_THAN_SPEECH)
        planner.push([0]) if number < tokens else planner.finish()
        while window := planner.next_window(now):
            windows.append(window)
            planner.sent(window, now)
            if window.is_last:
                break
    return windows


def print_tokenizers(folder: Path) -> None:
    """Print the time of six seconds of a reference."""
    random = np.random.default_rng(0)
    samples = (0.1 * random.standard_normal(96_000)).astype(np.float32)
    theirs = BiCodecTokenizer(folder, torch.device("cuda"))
    ours = AudioTokenizer(folder, "cuda")
    reference = milliseconds(lambda: theirs_tokens(theirs, samples))
    own = milliseconds(lambda: ours.tokenize(samples))
    print(f"\n6 s of a reference: {reference:.1f} ms by the reference, {own:.1f} ms by ours")


def theirs_tokens(tokenizer: Any, samples: np.ndarray) -> None:
    """Do what the reference does with a clip that is loaded already."""
    features = tokenizer.extract_wav2vec2_features(samples)
    wav = torch.from_numpy(samples)[None].float().cuda()
    batch = {"ref_wav": wav, "wav": wav, "feat": features.cuda()}
    tokenizer.model.tokenize(batch)


if __name__ == "__main__":
    main()
