"""Has a model speak in a voice, whatever the voice is made from."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from gateway.errors import MisconfiguredError
from gateway.speech.deadline import Deadline
from gateway.speech.types import Labels, Reference, VoiceTokens
from gateway.speech.voice_cache import cache_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from gateway.speech.synthesizer import CallContext, Synthesizer
    from gateway.speech.types import Voice
    from gateway.speech.voice_cache import VoiceCache
    from speech_wire import PcmChunk, SynthesisRequest

    Stream: TypeAlias = Callable[[SynthesisRequest], AsyncGenerator[PcmChunk, None]]


class Speaker:
    """Turns voices into tensors. Make it inside the running event loop.

    A recording is tokenised once, and a model makes a voice from labels once; whoever asks
    meanwhile waits for that. The cache keeps both.
    """

    def __init__(
        self, synthesizer: Synthesizer, cache: VoiceCache, tokenise_seconds: float
    ) -> None:
        self._synthesizer = synthesizer
        self._cache = cache
        self._tokenise_seconds = tokenise_seconds
        self._tokenising: dict[str, asyncio.Task[VoiceTokens]] = {}
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def aclose(self) -> None:
        """Give up what is being tokenised."""
        tasks = list(self._tokenising.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def speak(
        self, voice: Voice, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield the chunks of `request` in this voice, as Synthesizer.stream does."""

        def stream(asked: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
            return self._synthesizer.stream(voice.model, asked, context)

        if isinstance(voice.source, Reference):
            chunks = stream(await self._cloned(voice, voice.source, request, context))
        elif isinstance(voice.source, Labels):
            chunks = self._speak_made(voice, voice.source, request, context.deadline, stream)
        else:
            chunks = stream(replace(request, voice=voice.id))
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
                del chunk

    async def _cloned(
        self, voice: Voice, reference: Reference, request: SynthesisRequest, context: CallContext
    ) -> SynthesisRequest:
        transcript, deadline = reference.transcript, context.deadline
        if not await self._synthesizer.takes(voice.model, "global_tokens", deadline):
            await self._check_takes(voice, deadline, "reference_wav", "reference_text")
            if transcript is None:
                raise MisconfiguredError(
                    f"voice {voice.id!r} of SPEECH_VOICES_FILE has no transcript, and Triton's "
                    f"model {voice.model!r} takes recordings only with one"
                )
            return replace(request, reference_wav=reference.samples, reference_text=transcript)
        if transcript is None:
            tokens = await self._tokens(voice, reference, context)
            return replace(request, global_tokens=tokens.global_tokens)
        await self._check_takes(voice, deadline, "semantic_tokens", "reference_text")
        tokens = await self._tokens(voice, reference, context)
        return replace(
            request,
            global_tokens=tokens.global_tokens,
            semantic_tokens=tokens.semantic_tokens,
            reference_text=transcript,
        )

    async def _tokens(
        self, voice: Voice, reference: Reference, context: CallContext
    ) -> VoiceTokens:
        tokenizer = await self._synthesizer.tokenizer()
        key = cache_key("reference", tokenizer, reference.digest)
        if key not in self._tokenising:
            task = asyncio.create_task(self._tokenise(key, voice, reference, context))
            self._tokenising[key] = task
            task.add_done_callback(partial(self._tokenised, key))
        # Whoever leaves does not take the tokens from the others.
        return await asyncio.shield(self._tokenising[key])

    async def _tokenise(
        self, key: str, voice: Voice, reference: Reference, context: CallContext
    ) -> VoiceTokens:
        if tokens := await self._cache.get(key):
            return tokens
        # In the trace it is a part of the request that came first; its time is its own.
        context = replace(context, deadline=Deadline.after(self._tokenise_seconds))
        tokens = await self._synthesizer.tokenise(reference.samples, context)
        await self._cache.put(key, _label(voice), tokens)
        return tokens

    def _tokenised(self, key: str, task: asyncio.Task[VoiceTokens]) -> None:
        del self._tokenising[key]
        # Those who waited have its error; if all have left, it is nobody's.
        _ = task.cancelled() or task.exception()

    async def _speak_made(
        self,
        voice: Voice,
        labels: Labels,
        request: SynthesisRequest,
        deadline: Deadline,
        stream: Stream,
    ) -> AsyncGenerator[PcmChunk, None]:
        await self._check_takes(voice, deadline, "gender", "pitch", "speed_label", "global_tokens")
        checkpoint = await self._synthesizer.checkpoint(voice.model, deadline)
        key = cache_key(
            "made", voice.model, checkpoint, voice.id, labels.gender, labels.pitch, labels.speed
        )
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._making[key])
            known = await self._cache.get(key)
            if known is not None:
                await turn.aclose()
            async with aclosing(stream(_made(request, labels, known))) as chunks:
                async for chunk in chunks:
                    if known is None:
                        known = _voice_of(chunk, voice)
                        await self._cache.put(key, _label(voice), known)
                        await turn.aclose()
                    yield chunk

    async def _check_takes(self, voice: Voice, deadline: Deadline, *inputs: str) -> None:
        lacking = [
            name
            for name in inputs
            if not await self._synthesizer.takes(voice.model, name, deadline)
        ]
        if lacking:
            raise MisconfiguredError(
                f"voice {voice.id!r} of SPEECH_VOICES_FILE is not for Triton's model "
                f"{voice.model!r}, which has no input {' or '.join(lacking)}"
            )


def _made(request: SynthesisRequest, labels: Labels, known: VoiceTokens | None) -> SynthesisRequest:
    if known is not None:
        return replace(request, global_tokens=known.global_tokens)
    return replace(request, gender=labels.gender, pitch=labels.pitch, speed_label=labels.speed)


def _voice_of(chunk: PcmChunk, voice: Voice) -> VoiceTokens:
    if chunk.global_tokens is None:
        raise MisconfiguredError(
            f"Triton's model {voice.model!r} made voice {voice.id!r} and did not give its "
            "global_tokens with the first audio, so nobody could speak as that again"
        )
    return VoiceTokens.of(chunk.global_tokens, ())


def _label(voice: Voice) -> str:
    return f"{voice.model}/{voice.id}"
