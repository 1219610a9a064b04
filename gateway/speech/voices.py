"""What a caller may name as `voice`: the model's own, those of the voices file, aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.errors import MisconfiguredError, UnknownVoiceError
from gateway.speech.types import Voice

if TYPE_CHECKING:
    from gateway.speech.aliases import Aliases
    from gateway.speech.synthesizer import Synthesizer
    from gateway.speech.voice_file import FileVoices


class Voices:
    """Finds voices by name.

    A voice's own name is never an alias. A name that both the model and the file have is
    nobody's: it is not listed, and an error where it is asked for.
    """

    def __init__(self, synthesizer: Synthesizer, aliases: Aliases, of_file: FileVoices) -> None:
        self._synthesizer = synthesizer
        self._aliases = aliases
        self._of_file = {
            model: {voice.id: voice for voice in voices} for model, voices in of_file.items()
        }

    async def listed(self, model: str) -> dict[str, Voice]:
        """Return the voice of each name: the model's, the file's, then their aliases."""
        own = await self._own(model, is_fresh=True)
        of_file = self._of_file.get(model, {})
        twice = own.keys() & of_file.keys()
        known = {name: voice for name, voice in (own | of_file).items() if name not in twice}
        aliases = self._aliases.of(model, known)
        return known | {alias: known[voice] for alias, voice in aliases.items()}

    async def named(self, model: str, name: str) -> Voice:
        """Return the voice that is meant; raises UnknownVoiceError, MisconfiguredError."""
        meant = self._aliases.voice(model, name)
        of_file = self._of_file.get(model, {})
        # The model may have got new ones since it was asked last.
        for is_fresh in (False, True):
            own = await self._own(model, is_fresh=is_fresh)
            known = own | of_file
            if not known:
                return Voice(meant, model)  # A model that names no voices takes any.
            if found := known.get(name) or known.get(meant):
                if found.id in own and found.id in of_file:
                    raise MisconfiguredError(
                        f"voice {found.id!r} of SPEECH_VOICES_FILE is also one of Triton's model "
                        f"{model!r} itself; give it another name in the file"
                    )
                return found
        raise UnknownVoiceError.among(name, [*known, *self._aliases.of(model, known)])

    async def _own(self, model: str, *, is_fresh: bool) -> dict[str, Voice]:
        return {
            voice.id: voice for voice in await self._synthesizer.voices(model, is_fresh=is_fresh)
        }
