"""BiCodec, the codec of Spark-TTS, for inference: 50 semantic tokens a second, 32 for the voice.

Written from the description of the network; names of parameters are upstream's, so that its
`model.safetensors` loads. `BiCodecEncoder` holds the half that makes tokens, `BiCodecDecoder`
the half that makes sound; each reads its own tensors from the one file.
"""

from speech_backend.bicodec.config import BiCodecConfig, BiCodecConfigError
from speech_backend.bicodec.decoder import RECEPTIVE_TOKENS, BiCodecDecoder
from speech_backend.bicodec.encoder import BiCodecEncoder
from speech_backend.bicodec.wave_generator import FIELD_FRAMES

__all__ = [
    "FIELD_FRAMES",
    "RECEPTIVE_TOKENS",
    "BiCodecConfig",
    "BiCodecConfigError",
    "BiCodecDecoder",
    "BiCodecEncoder",
]
