"""What `gpu_e2e.py` measures without Triton, each in a process of its own: prints JSON.

`vocoder FOLDER` times batches of the vocoder and says how far half precision is off;
`reference FOLDER VOICE` speaks with the reference pipeline (transformers' generate and
spark-tts-lib's modules), one request after the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from speech_backend.vocoder import Vocoder

if TYPE_CHECKING:
    from speech_wire import Tensors

SHAPES = ((1, 48), (1, 96), (1, 160), (1, 384), (4, 160), (8, 160), (16, 160), (16, 384))
VARIANTS = {
    "fp32": {"dtype": "float32"},
    "fp16": {"dtype": "float16"},
    "fp16 compiled": {"dtype": "float16", "compiled": True},
}
ROUNDS = 15
TEXT = "The train to the coast leaves from platform four in half an hour."
UTTERANCES = 3
SEMANTIC_CODES = 8192


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("vocoder", "reference"))
    parser.add_argument("folder", type=Path, help="the checkpoint")
    parser.add_argument("voice", type=Path, nargs="?", help="a recording, for the reference")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.part == "reference":
        show(reference(options.folder, options.voice, options.device))
        return
    shown: dict[str, Any] = {}
    exact: list[np.ndarray] = []
    for name, how in VARIANTS.items():
        try:
            vocoder_row(name, how, options, shown, exact)
        except Exception as error:  # noqa: BLE001  the other variants are worth having
            shown[name] = f"{type(error).__name__}: {error}"
        show(shown)


def show(values: dict[str, Any]) -> None:
    """Print a line; the last one has all."""
    print(json.dumps(values))
    sys.stdout.flush()


def vocoder_row(
    name: str,
    how: dict[str, Any],
    options: argparse.Namespace,
    shown: dict[str, Any],
    exact: list[np.ndarray],
) -> None:
    """Add the load time, the batches' times and the error of a variant."""
    began = time.perf_counter()
    if options.device == "cpu":
        how = {"dtype": "float32"}
    vocoder = Vocoder.load(options.folder, options.device, **how)
    row: dict[str, Any] = {"load s": time.perf_counter() - began}
    for items, tokens in SHAPES:
        row[f"{items} x {tokens}"] = milliseconds(vocoder, windows(items, tokens))
    samples = [window["waveform"][0] for window in vocoder.decode(windows(4, 160))]
    exact.extend([] if exact else samples)
    row["error"] = float(
        np.linalg.norm(np.concatenate(samples) - np.concatenate(exact))
        / np.linalg.norm(np.concatenate(exact))
    )
    if torch.cuda.is_available():
        row["peak GB"] = torch.cuda.max_memory_allocated() / 1e9
    shown[name] = row


def windows(items: int, tokens: int) -> list[Tensors]:
    """Make windows of random tokens, each a little padded."""
    random = np.random.default_rng(items * tokens)
    return [
        {
            "semantic_tokens": random.integers(0, 8192, tokens).astype(np.int32),
            "length": np.array([tokens - 1 - number], np.int32),
            "kept_tokens": np.array([0, tokens - 1 - number], np.int32),
            "global_tokens": random.integers(0, 4096, 32).astype(np.int32),
        }
        for number in range(items)
    ]


def milliseconds(vocoder: Vocoder, batch: list[Tensors]) -> float:
    """Return the median time of a decode, the copies to and from the GPU included."""
    times = []
    for number in range(3 + ROUNDS):
        start = time.perf_counter()
        vocoder.decode(batch)
        if number >= 3:
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def reference(folder: Path, voice: Path, device: str) -> dict[str, Any]:
    """Speak with the reference pipeline; the first sound is there when all of it is."""
    from spark_tts_lib.SparkTTS import SparkTTS  # noqa: PLC0415  the vocoder's part lacks it

    pipeline = SparkTTS(folder, torch.device(device))
    pipeline.model.to(torch.bfloat16)
    spoken = [speak(pipeline, voice) for _ in range(1 + UTTERANCES)][1:]
    return {
        "utterances": spoken,
        "first audio ms": 1000 * statistics.median(seconds for _, seconds in spoken),
        "audio s per s": sum(audio for audio, _ in spoken) / sum(wall for _, wall in spoken),
    }


@torch.inference_mode()
def speak(pipeline: Any, voice: Path) -> tuple[float, float]:
    """Return the seconds of speech, and those that they took, as the pipeline's `inference` does.

    Only the codes are read from ids, since a random checkpoint's are special tokens, which
    decoding to text leaves out.
    """
    began = time.perf_counter()
    prompt, voice_tokens = pipeline.process_prompt(TEXT, voice)
    inputs = pipeline.tokenizer([prompt], return_tensors="pt").to(pipeline.device)
    sampling = {"do_sample": True, "top_k": 50, "top_p": 0.95, "temperature": 0.8}
    ids = pipeline.model.generate(**inputs, max_new_tokens=3000, **sampling)[0]
    first = pipeline.tokenizer.convert_tokens_to_ids("<|bicodec_semantic_0|>")
    codes = ids[inputs.input_ids.shape[1] :] - first
    codes = codes[(codes >= 0) & (codes < SEMANTIC_CODES)]
    samples = pipeline.audio_tokenizer.detokenize(
        voice_tokens.to(pipeline.device).squeeze(0), codes[None]
    )
    return np.size(samples) / 16_000, time.perf_counter() - began


if __name__ == "__main__":
    main()
