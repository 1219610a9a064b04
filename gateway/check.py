"""`speech-gateway check`: prints the settings, asks Triton, speaks one word."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.backend.discovery.static import StaticSource
from gateway.backend.triton import TritonSynthesizer
from gateway.backend.way import Way
from gateway.errors import BackendFailedError, SpeechError
from gateway.speech.aliases import Aliases, load_aliases
from gateway.speech.deadline import Deadline
from gateway.speech.speaker import Speaker
from gateway.speech.synthesizer import CallContext
from gateway.speech.voice_cache import VoiceCache
from gateway.speech.voice_file import load_voices
from gateway.speech.voices import Voices
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from gateway.backend.discovery.source import Addresses, AddressSource
    from gateway.settings import Settings
    from gateway.speech.voice_file import FileVoices

WORD = "Yes."
TIMEOUT_SECONDS = 30.0


async def check(settings: Settings) -> int:
    """Print what works and what does not; return 0 if every model really speaks.

    A voice of the voices file is tokenised or made by that, and kept in the cache. Raises
    SettingsError for what the service would not start with.
    """
    load_aliases(settings.aliases_file, settings.models)
    of_file = load_voices(settings.voices_file, settings.models)
    way = Way.of(settings)
    print("settings:")
    for name, value in settings:
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
        print(f"  SPEECH_{name.upper()}={'' if shown is None else shown}")
    addresses = await _addresses(settings, way.source)
    results = []
    for address in addresses:
        if len(addresses) > 1:
            print(f"Triton {address.id}:")
        to_one = replace(way, source=StaticSource((address,)))
        results.append(await _check_one(settings, to_one, of_file))
    return 0 if results and all(results) else 1


async def _addresses(settings: Settings, source: AddressSource) -> Addresses:
    try:
        async with aclosing(source.watch()) as sets:
            addresses = await asyncio.wait_for(anext(sets), settings.connect_timeout_seconds)
    except asyncio.TimeoutError:
        print(f"SPEECH_TRITON_ADDRESS: NO ADDRESSES: {source.problem}")
        return ()
    if not addresses:
        print("SPEECH_TRITON_ADDRESS: NO ADDRESSES: there is none now")
    return addresses


async def _check_one(settings: Settings, way: Way, of_file: FileVoices) -> bool:
    synthesizer = TritonSynthesizer(settings, way)
    cache = VoiceCache(settings.cache_dir)
    speaker = Speaker(synthesizer, cache, settings.first_audio_timeout_seconds)
    probe = _Probe(synthesizer, speaker, of_file)
    try:
        unready = await synthesizer.unready()
        results = [await probe.model(model, unready.get(model)) for model in settings.models]
    finally:
        await speaker.aclose()
        await synthesizer.aclose()
    return all(results)


class _Probe:
    """Speaks one word with each model, and with each of its voices in the file."""

    def __init__(
        self, synthesizer: TritonSynthesizer, speaker: Speaker, of_file: FileVoices
    ) -> None:
        self._synthesizer = synthesizer
        self._speaker = speaker
        self._of_file = of_file
        self._voices = Voices(synthesizer, Aliases(), of_file)

    async def model(self, model: str, unready: SpeechError | None) -> bool:
        """Print whether the model speaks, and return it."""
        if unready:
            print(f"model {model}: NOT READY: {_explained(unready)}")
            return False
        of_file = [voice.id for voice in self._of_file.get(model, ())]
        try:
            own = [voice.id for voice in await self._synthesizer.voices(model)]
            # Spark-TTS, say, has no voice without the file.
            if own or not of_file:
                seconds = await self._spoken(model, own[0] if own else None)
                spoken = f"{seconds:.2f} s for {WORD!r}"
                print(f"model {model}: speaks ({spoken}); voices: {', '.join(own)}")
        except SpeechError as error:
            print(f"model {model}: DOES NOT SPEAK: {_explained(error)}")
            return False
        return all([await self._voice(model, name) for name in of_file])

    async def _voice(self, model: str, name: str) -> bool:
        try:
            seconds = await self._spoken(model, name)
        except SpeechError as error:
            print(f"model {model}, voice {name}: DOES NOT SPEAK: {_explained(error)}")
            return False
        print(f"model {model}, voice {name}: speaks ({seconds:.2f} s for {WORD!r})")
        return True

    async def _spoken(self, model: str, voice: str | None) -> float:
        request = SynthesisRequest(target_text=WORD)
        context = CallContext(f"check_{uuid.uuid4().hex}", Deadline.after(TIMEOUT_SECONDS))
        if voice is None:
            chunks = self._synthesizer.stream(model, request, context)
        else:
            named = await self._voices.named(model, voice)
            chunks = self._speaker.speak(named, request, context)
        seconds = 0.0
        async with aclosing(chunks):
            async for chunk in chunks:
                seconds += len(chunk.samples) / (chunk.sample_rate_hz or 1)
        if seconds == 0:
            raise BackendFailedError("the model ended without any audio")
        return seconds


def _explained(error: SpeechError) -> str:
    detail = error.detail or error.said
    return f"{error.message} ({detail})" if detail else error.message
