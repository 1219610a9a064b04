"""The seam between an utterance and the models that it calls: Protocols, and what they carry.

Whether a stage is a sibling model behind gRPC or a module in this process is not seen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

AT_ONCE = 128
"""Utterances that are spoken at once, as many as a language model batches; the others wait."""


class StageError(RuntimeError):
    """A stage failed or does not answer as it should; the message names it and says how."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the language model picks tokens; the defaults are those of Spark-TTS's own runtimes.

    `max_new_tokens` counts everything that is written; `stop_ids` end the output; without a
    `seed` the stage draws one, so that a second try is another take. `allowed_ids` are ranges of
    ids, the last included, for a model that can be held to them; without any, all are allowed.
    Fewer than `first_ids` are of no use at first.
    """

    max_new_tokens: int
    stop_ids: tuple[int, ...]
    temperature: float = 0.8
    top_k: int = 50
    top_p: float = 0.95
    seed: int | None = None
    allowed_ids: tuple[tuple[int, int], ...] = ()
    first_ids: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceTokens:
    """A recording as BiCodec's codes: int32[32] and int32[50 a second]."""

    global_tokens: npt.NDArray[np.int32]
    semantic_tokens: npt.NDArray[np.int32]


class TokenStream(Protocol):
    """What the language model writes, as it comes.

    The stream drains its source by itself, in a task of its own, into a buffer that holds all of
    `max_new_tokens`: a reader who is busy decoding never holds the model up, and finds everything
    that came meanwhile with the next read. One reader; a read that is cancelled leaves the stream
    as it is.
    """

    async def read(self, timeout_seconds: float) -> npt.NDArray[np.int32] | None:
        """Return all ids that came since the last read, int32[n], or None after the end.

        Waits at most `timeout_seconds` for the first one; an empty array means that none came
        in time, so that the reader can look whether sound is due.
        A stop id may be the last one or be left out. A failure, a stall included, is raised
        once what came before it has been read.
        """
        ...

    def close(self) -> None:
        """Stop the model, and give everything back in the background; returns at once.

        May be called again, and before the end.
        """
        ...


class Stages(Protocol):
    """The models behind an utterance, for many utterances of one event loop.

    They raise StageError, and InvalidInputError where a stage blames the caller.
    """

    async def stream_tokens(
        self, prompt_ids: npt.NDArray[np.int32], sampling: Sampling
    ) -> TokenStream:
        """Let the language model go on from `prompt_ids`, int32[n]; waits for nothing of it."""
        ...

    async def decode_window(
        self,
        semantic_tokens: npt.NDArray[np.int32],
        length: int,
        kept: range,
        global_tokens: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.float32]:
        """Return the samples of the `kept` tokens, float32[320 * len(kept)] at 16 kHz.

        `semantic_tokens` is int32, zeros after `length` up to one of windows.WINDOW_LENGTHS, so
        that windows of one length can share a batch; the padding must not be heard, the samples
        are those of a sequence that ends at `length`. The other tokens before it are context for
        the kept ones. `global_tokens` is int32[32].
        """
        ...

    async def tokenise_reference(self, samples: npt.NDArray[np.float32]) -> ReferenceTokens:
        """Return the codes of a recording, float32 mono at 16 kHz.

        Raises InvalidInputError for one that cannot be a voice (too short, silent, too long).
        """
        ...
