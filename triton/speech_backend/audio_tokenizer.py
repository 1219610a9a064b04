"""A reference recording to Spark-TTS's tokens: 32 for the voice, 50 a second for the speech."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import Wav2Vec2FeatureExtractor, Wav2Vec2Model
from transformers.utils.logging import disable_progress_bar

from speech_backend.bicodec import BiCodecEncoder
from speech_backend.reference import (
    SAMPLE_RATE_HZ,
    BadReferenceError,
    check,
    even_volume,
    voice_clip,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from speech_wire import Tensors

# The semantic encoder takes the mean of what these layers of wav2vec2 give.
FEATURE_LAYERS = (11, 14, 16)

INPUTS = ("reference_wav", "reference_wav_len")
WARM_UP_SECONDS = 6


class AudioTokenizer:
    """Tokenises one recording at a time.

    Both models look at a whole recording (means, attention), so padding several to one length
    would change their tokens. A token is a comparison that rounding can flip, so convolutions
    are exact and deterministic, in the whole process.
    """

    def __init__(self, model_dir: Path, device: torch.device | str = "cpu") -> None:
        """Load `BiCodec/` and `wav2vec2-large-xlsr-53/` of a Spark-TTS checkpoint."""
        torch.backends.cudnn.deterministic = True
        self._device = torch.device(device)
        self._bicodec = BiCodecEncoder.load(model_dir / "BiCodec", self._device)
        folder = model_dir / "wav2vec2-large-xlsr-53"
        self._normalize = Wav2Vec2FeatureExtractor.from_pretrained(folder, local_files_only=True)
        speech = Wav2Vec2Model.from_pretrained(folder, local_files_only=True)
        # One layer more than is listened to: some releases of transformers normalise the last.
        speech.encoder.layers = speech.encoder.layers[: max(FEATURE_LAYERS) + 1]
        self._speech = speech.to(device=self._device, dtype=torch.float32).eval()

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> AudioTokenizer:
        """Load what the model's configuration says, for a process of its own, and warm it up."""
        torch.set_num_threads(int(parameters["threads"]))
        # Its bar would stand among the server's errors.
        disable_progress_bar()
        tokenizer = cls(Path(parameters["model_dir"]), parameters["device"])
        noise = np.random.default_rng(0).uniform(-1, 1, WARM_UP_SECONDS * SAMPLE_RATE_HZ)
        tokenizer.tokenize(noise.astype(np.float32))
        return tokenizer

    def tokenize(
        self, samples: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the global tokens and the semantic tokens of samples at 16 kHz, mono.

        The voice is that of the first 6 s, the semantic tokens are those of the whole. Raises
        BadReferenceError, whose message is for the one who sent the recording.
        """
        check(samples)
        even = even_volume(samples)
        voice = torch.from_numpy(voice_clip(even)).to(self._device)
        global_tokens = self._bicodec.global_tokens(voice)
        semantic_tokens = self._bicodec.semantic_tokens(self._features(even))
        return _int32(global_tokens), _int32(semantic_tokens)

    def answer(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """Return `global_tokens` and `semantic_tokens` for each `reference_wav`.

        Its first `reference_wav_len` samples count. Raises BadReferenceError, as `tokenize` does.
        """
        return [self._answer(**tensors) for tensors in requests]

    def _answer(
        self, reference_wav: npt.NDArray[np.float32], reference_wav_len: npt.NDArray[np.int32]
    ) -> Tensors:
        length = int(reference_wav_len[0])
        if not 0 <= length <= len(reference_wav):
            raise BadReferenceError(
                f"reference_wav_len is {length}, reference_wav has {len(reference_wav)} samples"
            )
        global_tokens, semantic_tokens = self.tokenize(reference_wav[:length])
        return {"global_tokens": global_tokens, "semantic_tokens": semantic_tokens}

    @torch.inference_mode()
    def _features(self, samples: npt.NDArray[np.float32]) -> torch.Tensor:
        inputs = self._normalize(samples, sampling_rate=SAMPLE_RATE_HZ, return_tensors="pt")
        values = inputs.input_values.to(self._device)
        states = self._speech(values, output_hidden_states=True).hidden_states
        return torch.stack([states[layer][0] for layer in FEATURE_LAYERS]).mean(0)


def _int32(tokens: torch.Tensor) -> npt.NDArray[np.int32]:
    return tokens.cpu().numpy().astype(np.int32)
