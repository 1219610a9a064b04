"""An utterance of Spark-TTS: prompt, tokens as they come, windows, samples.

Everything of an utterance is in one asynchronous generator. The token stream drains the language
model by itself, so decoding and generating overlap without a task here; closing the generator
closes the stream, which stops the model.
"""

from __future__ import annotations

import time
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from speech_backend.guards import ModelOutputError, OutputReader
from speech_backend.prompts import VOICE_PREAMBLE, check_room
from speech_backend.serving import InvalidInputError
from speech_backend.stages import Sampling
from speech_backend.tokens import SAMPLE_RATE_HZ, SAMPLES_PER_TOKEN
from speech_backend.windows import WindowPlan, WindowPlanner, bucket
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    import numpy.typing as npt

    from speech_backend.prompts import Prompt, Prompter
    from speech_backend.stages import Stages, TokenStream
    from speech_backend.tokens import TokenMap
    from speech_backend.windows import Window
    from speech_wire import SynthesisRequest

POLL_SECONDS = 0.1
"""How often it is looked whether a window has fallen due while no tokens come."""


class SparkSpeaker:
    """Speaks requests of the contract with the models behind `stages`.

    A voice comes as a recording or as tokens, with or without its transcript, or is made from
    labels; names of voices are resolved before. `max_sequence_tokens` is the longest sequence,
    prompt and output, that the language model's engine takes.
    """

    def __init__(
        self,
        stages: Stages,
        tokens: TokenMap,
        prompter: Prompter,
        max_sequence_tokens: int,
        plan: WindowPlan | None = None,
    ) -> None:
        self._stages = stages
        self._tokens = tokens
        self._prompter = prompter
        self._max_sequence_tokens = max_sequence_tokens
        self._plan = plan or WindowPlan()

    async def synthesize(
        self, request: SynthesisRequest, clock: Callable[[], float] = time.monotonic
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield the chunks of an utterance.

        Raises InvalidInputError before the first one for what cannot be asked, ModelOutputError
        for what is no speech, and whatever a stage raises.
        """
        prompt = await self._prompt(request)
        sampling = self._sampling(request, prompt)
        check_room(prompt, sampling.max_new_tokens, self._max_sequence_tokens)
        reader = OutputReader(self._tokens, prompt, sampling.max_new_tokens)
        planner = WindowPlanner(self._plan)
        with closing(await self._stages.stream_tokens(prompt.ids, sampling)) as stream:
            async with aclosing(self._speak(stream, reader, planner, clock)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _speak(
        self,
        stream: TokenStream,
        reader: OutputReader,
        planner: WindowPlanner,
        clock: Callable[[], float],
    ) -> AsyncGenerator[PcmChunk, None]:
        has_decoded = False
        while True:
            if reader.finish_reason is None:
                # What came while a window was decoded is read before the next one is chosen.
                await _listen(stream, reader, planner, 0.0 if has_decoded else POLL_SECONDS)
            window = planner.next_window(clock())
            has_decoded = window is not None
            if window is None:
                continue
            chunk = await self._chunk(window, planner, reader)
            planner.sent(window, clock())
            yield chunk
            if window.is_last:
                return

    async def _chunk(
        self, window: Window, planner: WindowPlanner, reader: OutputReader
    ) -> PcmChunk:
        padded = np.zeros(bucket(window.length), np.int32)
        padded[: window.length] = planner.codes(window)
        samples = await self._stages.decode_window(
            padded, window.length, window.kept, reader.voice()
        )
        if samples.shape != (len(window.kept) * SAMPLES_PER_TOKEN,):
            raise ModelOutputError(
                f"the vocoder made {list(samples.shape)} samples of {len(window.kept)} tokens"
            )
        return PcmChunk(
            samples,
            SAMPLE_RATE_HZ,
            window.start * SAMPLES_PER_TOKEN,
            reader.finish_reason if window.is_last else None,
            reader.made_voice if window.start == 0 else None,
        )

    async def _prompt(self, request: SynthesisRequest) -> Prompt:
        voice, semantic_tokens = await self._reference(request)
        labels = (request.gender, request.pitch, request.speed_label)
        if voice is None:
            return self._prompter.create_voice(request.target_text, *labels)
        if any(label is not None for label in labels):
            raise InvalidInputError(
                "gender, pitch and speed_label make a new voice; leave them out with a reference"
            )
        if request.reference_text is None:
            return self._prompter.clone(request.target_text, voice)
        return self._prompter.continue_reference(
            request.target_text, request.reference_text, voice, semantic_tokens
        )

    async def _reference(
        self, request: SynthesisRequest
    ) -> tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.int32]]:
        """Return the voice and the semantic tokens of the request's reference, if it has one."""
        spoken = request.semantic_tokens
        spoken = np.zeros(0, np.int32) if spoken is None else spoken
        if request.reference_wav is None:
            if request.global_tokens is None and (len(spoken) or request.reference_text):
                raise InvalidInputError(
                    "a transcript or semantic tokens came without a voice: send reference_wav or "
                    "global_tokens too"
                )
            return request.global_tokens, spoken
        if request.global_tokens is not None or len(spoken):
            raise InvalidInputError("a reference is either a recording or tokens, not both")
        reference = await self._stages.tokenise_reference(request.reference_wav)
        return reference.global_tokens, reference.semantic_tokens

    def _allowed(self, prompt: Prompt) -> tuple[tuple[int, int], ...]:
        """Return what may be written in a voice that is given: speech, what opens and ends it."""
        if prompt.global_tokens is None:
            return ()
        codes = self._tokens.semantic_codes
        marks = sorted({*self._tokens.stop_ids, *prompt.preamble})
        return (codes.first_id, codes.first_id + codes.count - 1), *((i, i) for i in marks)

    def _first_ids(self, prompt: Prompt) -> int:
        """Return what the first window is made of, and what is written before."""
        made = VOICE_PREAMBLE if prompt.global_tokens is None else len(prompt.preamble)
        return made + self._plan.first_chunk + self._plan.look_ahead

    def _sampling(self, request: SynthesisRequest, prompt: Prompt) -> Sampling:
        given = {
            name: getattr(request, name)
            for name in ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
            if getattr(request, name) is not None
        }
        sampling = replace(
            Sampling(
                prompt.max_new_tokens,
                self._tokens.stop_ids,
                allowed_ids=self._allowed(prompt),
                first_ids=self._first_ids(prompt),
            ),
            **given,
        )
        if sampling.max_new_tokens < 1:
            raise InvalidInputError(f"max_new_tokens is {sampling.max_new_tokens}, at least 1")
        if not sampling.temperature > 0 or sampling.top_k < 1 or not 0 < sampling.top_p <= 1:
            raise InvalidInputError(
                f"temperature is {sampling.temperature}, above 0; top_k is {sampling.top_k}, at "
                f"least 1; top_p is {sampling.top_p}, above 0 and at most 1"
            )
        return sampling


async def _listen(
    stream: TokenStream, reader: OutputReader, planner: WindowPlanner, timeout_seconds: float
) -> None:
    """Hand what the model has written over to the planner, and stop the model at its end."""
    ids = await stream.read(timeout_seconds)
    if ids is None:
        reader.end()
    else:
        planner.push(reader.read(ids))
    if reader.finish_reason is not None:
        planner.finish()
        stream.close()
