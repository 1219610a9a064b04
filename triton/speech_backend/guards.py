"""What the language model writes, checked: the voice it makes, the speech, and how it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from speech_backend.tokens import GLOBAL_TOKENS, TOKENS_PER_SECOND

if TYPE_CHECKING:
    import numpy.typing as npt

    from speech_backend.prompts import Prompt
    from speech_backend.tokens import TokenMap

log = logging.getLogger(__name__)

MAX_CYCLE_TOKENS = 10
MAX_REPETITION_SECONDS = 3.0
"""A cycle of up to 0.2 s that lasts this long is no speech: users of Spark-TTS met a minute of
silence, and 1 000 s for one text. Pauses in read speech are shorter than that."""


class ModelOutputError(RuntimeError):
    """The language model wrote what is not speech; another seed may do better."""


class OutputReader:
    """Reads the ids of one utterance; what it answers does not depend on how they are grouped.

    `finish_reason` is None until the end is known: `stop` where the model ended by itself,
    `length` where it was cut, at its limit or because it had begun to repeat itself.
    `made_voice`, int32[32], is the voice if the model has made it.
    """

    def __init__(self, tokens: TokenMap, prompt: Prompt, max_new_tokens: int) -> None:
        self._tokens = tokens
        self._preamble = prompt.preamble
        self._left = max_new_tokens
        self._repetition = Repetition()
        self._voice: list[int] | None = [] if prompt.global_tokens is None else None
        self._has_spoken = False
        self._global_tokens = prompt.global_tokens
        self.made_voice: npt.NDArray[np.int32] | None = None
        self.finish_reason: str | None = None

    def read(self, ids: npt.NDArray[np.int32]) -> list[int]:
        """Return the semantic codes in `ids`; raises ModelOutputError for what is out of place."""
        codes: list[int] = []
        for token_id in ids.tolist():
            if self.finish_reason is not None:
                break
            self._left -= 1
            if token_id in self._tokens.semantic_codes:
                codes.append(self._speak(self._tokens.semantic_codes.code(token_id)))
            elif token_id in self._tokens.stop_ids:
                self.finish_reason = "stop"
            else:
                self._prepare(token_id)
            if self._left == 0 and self.finish_reason is None:
                self.finish_reason = "length"
        if self.finish_reason is not None:
            self._check_spoken()
        return codes

    def end(self) -> None:
        """Note that the model's output has ended, with or without a stop id."""
        self.finish_reason = self.finish_reason or "stop"
        self._check_spoken()

    def voice(self) -> npt.NDArray[np.int32]:
        """Return the 32 codes of the voice; raises ModelOutputError while it is incomplete."""
        if self._global_tokens is None:
            raise ModelOutputError(
                f"speech began after {len(self._voice or ())} of the voice's {GLOBAL_TOKENS} tokens"
            )
        return self._global_tokens

    def _speak(self, code: int) -> int:
        self.voice()
        self._has_spoken = True
        if self._repetition.lasts(code):
            log.warning("the model repeated itself for %.0f s and was cut", MAX_REPETITION_SECONDS)
            self.finish_reason = "length"
        return code

    def _prepare(self, token_id: int) -> None:
        if not self._has_spoken and token_id in self._preamble:
            return
        if self._voice is None or token_id not in self._tokens.global_codes:
            name = self._tokens.names.get(token_id, "text")
            place = "in" if self._has_spoken else "before"
            raise ModelOutputError(f"the model wrote id {token_id} ({name}) {place} its speech")
        if len(self._voice) == GLOBAL_TOKENS:
            raise ModelOutputError(f"the model wrote more than {GLOBAL_TOKENS} tokens for a voice")
        self._voice.append(self._tokens.global_codes.code(token_id))
        if len(self._voice) == GLOBAL_TOKENS:
            self._global_tokens = self.made_voice = np.array(self._voice, np.int32)

    def _check_spoken(self) -> None:
        if not self._has_spoken:
            raise ModelOutputError("the model ended without any speech")


class Repetition:
    """Counts for how many tokens the speech has been going round in a short cycle."""

    def __init__(self) -> None:
        self._recent = [-1] * MAX_CYCLE_TOKENS
        self._runs = [0] * MAX_CYCLE_TOKENS

    def lasts(self, code: int) -> bool:
        """Add a code; whether it ends MAX_REPETITION_SECONDS of a repeated cycle."""
        # Lists, since for ten numbers arrays take four times as long.
        pairs = zip(self._runs, self._recent, strict=True)
        self._runs = [run + 1 if before == code else 0 for run, before in pairs]
        self._recent = [code, *self._recent[:-1]]
        return max(self._runs) >= MAX_REPETITION_SECONDS * TOKENS_PER_SECOND
