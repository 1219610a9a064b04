"""What is right with a model and with a sentence that it spoke; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.render import TRITON_TYPES
from speech_wire import INPUTS, OUTPUTS, PcmChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from speech_wire import TensorSpec

SENTENCE = "The quick brown fox jumps over the lazy dog."
CHARACTERS_PER_SECOND = 15.2
"""Of read English: LJ Speech has 1 308 678 characters in 86 117 s."""

PACE = 3.0
"""Speech may take a third of that time, or three times as long."""

LOUDNESS_DBFS = (-50.0, -3.0)
"""Speech is some -30 to -15 dB below full scale; silence and noise at full scale are neither."""


DTYPES = {number: name for name, number in TRITON_TYPES.items()}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and whether it is right."""

    name: str
    passed: bool
    found: str


@dataclass
class Heard:
    """A sentence as it came: samples, and the seconds until the first and the last of them."""

    chunks: list[PcmChunk] = field(default_factory=list)
    first_seconds: float = 0.0
    total_seconds: float = 0.0
    has_ended: bool = False

    def samples(self) -> Any:
        """Return all of them, float32[n]."""
        return np.concatenate([np.zeros(0, np.float32), *(c.samples for c in self.chunks)])


def named(tensors: Iterable[Any]) -> dict[str, Any]:
    """Return the tensors of a configuration by their names."""
    return {tensor.name: tensor for tensor in tensors}


def rate(chunks: list[PcmChunk], config: Any) -> int:
    """Return the samples a second that the chunks, or else the configuration, speak of."""
    said = config.parameters["sample_rate_hz"].string_value
    first = chunks[0].sample_rate_hz if chunks else None
    return first or int(said or 16_000)


def figures(heard: Heard, samples: Any, sample_rate_hz: int) -> dict[str, float]:
    """Return what was measured of a sentence; its loudness is the power of all samples.

    Where nothing was heard there are no times.
    """
    audio_seconds = len(samples) / sample_rate_hz
    finite = samples[np.isfinite(samples)].astype(np.float64)
    power = float(np.mean(np.square(finite))) if len(finite) else 0.0
    found = {
        "audio_seconds": audio_seconds,
        "loudness_dbfs": 10 * float(np.log10(max(power, 1e-12))),
    }
    if audio_seconds == 0:
        return found
    return {
        "first_audio_seconds": heard.first_seconds,
        "total_seconds": heard.total_seconds,
        **found,
        "real_time_factor": heard.total_seconds / audio_seconds,
    }


def check_contract(config: Any) -> Check:
    """Compare the tensors of a ModelConfig with the contract."""
    wrong = [*_differences(config.input, INPUTS), *_differences(config.output, OUTPUTS)]
    missing = [
        spec.name
        for specs, tensors in ((INPUTS, config.input), (OUTPUTS, config.output))
        for spec in specs
        if not spec.optional and spec.name not in named(tensors)
    ]
    wrong += [f"{name} is missing" for name in missing]
    if config.max_batch_size > 0:
        wrong.append("it has a batch dimension")
    if not config.model_transaction_policy.decoupled:
        wrong.append("it answers once instead of streaming")
    names = [*named(config.input), *named(config.output)]
    return Check("contract", not wrong, "; ".join(wrong) or ", ".join(names))


def _differences(tensors: Iterable[Any], specs: Iterable[TensorSpec]) -> list[str]:
    known = {spec.name: spec for spec in specs}
    wrong = []
    for tensor in tensors:
        dtype = DTYPES.get(tensor.data_type, str(tensor.data_type))
        spec = known.get(tensor.name)
        if spec is None:
            wrong.append(f"{tensor.name} is unknown")
        elif (dtype, tuple(tensor.dims)) != (spec.dtype, spec.shape):
            given, wanted = f"{dtype}{list(tensor.dims)}", f"{spec.dtype}{list(spec.shape)}"
            wrong.append(f"{tensor.name} is {given} instead of {wanted}")
    return wrong


def check_stream(heard: Heard, failure: str) -> Check:
    """Say whether the chunks follow each other up to an end; `failure` is the model's words."""
    offsets = np.cumsum([0, *(len(chunk.samples) for chunk in heard.chunks)])
    gaps = [
        f"a chunk begins at {chunk.sample_offset} instead of {offset}"
        for chunk, offset in zip(heard.chunks, offsets, strict=False)
        if chunk.sample_offset not in (None, offset)
    ]
    ended = [] if heard.has_ended or failure else ["it ended without Triton's final response"]
    reason = heard.chunks[-1].finish_reason if heard.chunks else None
    cut = [] if reason in (None, "stop") else [f"it was cut: {reason}"]
    wrong = [*filter(None, [failure]), *gaps[:1], *ended, *cut]
    return Check("stream", not wrong, "; ".join(wrong) or f"{len(heard.chunks)} chunks in order")


def check_length(figures: Mapping[str, float]) -> Check:
    """Say whether the sentence is as long as such a one is."""
    usual = len(SENTENCE) / CHARACTERS_PER_SECOND
    seconds = figures["audio_seconds"]
    found = f"{seconds:.2f} s of sound, {usual / PACE:.1f} to {usual * PACE:.1f} s are usual"
    return Check("length", usual / PACE <= seconds <= usual * PACE, found)


def check_loudness(samples: Any, figures: Mapping[str, float]) -> Check:
    """Say whether the sentence can be heard."""
    least, most = LOUDNESS_DBFS
    loudness = figures["loudness_dbfs"]
    found = f"{loudness:.1f} dBFS, {least:g} to {most:g} are usual"
    if not np.isfinite(samples).all():
        return Check("loudness", passed=False, found="samples that are no numbers")
    return Check("loudness", least <= loudness <= most, found)


def difference(
    before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return what was counted in between, of the models that counted anything."""
    difference = {
        name: tuple(now - then for now, then in zip(counts, before.get(name, (0, 0)), strict=True))
        for name, counts in after.items()
    }
    return {name: (ok, bad) for name, (ok, bad) in difference.items() if ok or bad}


def check_statistics(model: str, counted: Mapping[str, tuple[int, int]]) -> Check:
    """Say whether Triton counted the sentence; failures may be those of others who call it."""
    words = [f"{name} {ok} and {bad} failed" for name, (ok, bad) in counted.items()]
    passed = counted.get(model, (0, 0))[0] > 0
    return Check("statistics", passed, "requests: " + (", ".join(words) or "none counted"))
