from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.fixture.bicodec import write_bicodec
from speech_backend.bicodec import (
    FIELD_FRAMES,
    RECEPTIVE_TOKENS,
    BiCodecDecoder,
    BiCodecEncoder,
)
from speech_backend.bicodec.wave_generator import Snake

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

HOP = 320


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "BiCodec"
    write_bicodec(folder, "tiny", seed=1)
    return folder


@pytest.fixture(scope="module")
def decoder(tiny_folder: Path) -> BiCodecDecoder:
    return BiCodecDecoder.load(tiny_folder)


def random_tokens(items: int, tokens: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random, dtype=torch.int32)
    return semantic, torch.randint(0, 4096, (items, 32), generator=random, dtype=torch.int32)


def full(items: int, tokens: int) -> torch.Tensor:
    return torch.full((items,), tokens, dtype=torch.int32)


def test_a_token_is_320_samples_in_float32_within_full_scale(decoder: BiCodecDecoder) -> None:
    waveform = decoder.decode(*random_tokens(2, 7), full(2, 7))

    assert waveform.shape == (2, 7 * HOP)
    assert waveform.dtype == torch.float32
    assert 0.05 < waveform.std() < 1.0
    assert waveform.abs().max() <= 1.0


@pytest.mark.parametrize("lengths", [[1, 5, 40, 23], [1, 1, 2], [80, 1], [66, 67, 68, 134]])
def test_an_item_of_a_padded_batch_sounds_as_it_does_alone(
    decoder: BiCodecDecoder, lengths: list[int]
) -> None:
    semantic, voices = random_tokens(len(lengths), max(lengths))

    together = decoder.decode(semantic, voices, torch.tensor(lengths))

    for item, length in enumerate(lengths):
        one = slice(item, item + 1)
        alone = decoder.decode(semantic[one, :length], voices[one], full(1, length))
        assert (together[one, : length * HOP] - alone).abs().max() <= 1e-5
        assert not together[item, length * HOP :].any()


def test_what_stands_in_the_pads_does_not_matter(decoder: BiCodecDecoder) -> None:
    semantic, voices = random_tokens(2, 30)
    other = semantic.clone()
    other[0, 10:] = 17
    lengths = torch.tensor([10, 30])

    assert torch.equal(
        decoder.decode(semantic, voices, lengths), decoder.decode(other, voices, lengths)
    )


def test_the_masks_of_a_batch_without_pads_change_nothing(decoder: BiCodecDecoder) -> None:
    semantic, voices = random_tokens(3, 20)

    with torch.inference_mode():
        masked = decoder(semantic, voices, full(3, 20))

    assert torch.equal(masked, decoder.decode(semantic, voices, full(3, 20)))


def test_both_kinds_of_tokens_are_heard(decoder: BiCodecDecoder) -> None:
    (semantic, voices), (others, strangers) = random_tokens(1, 20), random_tokens(1, 20, seed=1)
    first = decoder.decode(semantic, voices, full(1, 20))

    assert not torch.allclose(first, decoder.decode(others, voices, full(1, 20)), atol=0.01)
    assert not torch.allclose(first, decoder.decode(semantic, strangers, full(1, 20)), atol=0.01)


@pytest.mark.parametrize("changed", [0, 100, 199])
def test_a_token_moves_no_sample_beyond_67_tokens(decoder: BiCodecDecoder, changed: int) -> None:
    """The window planner relies on this; the layers, kernels and dilations are the full ones."""
    semantic, voices = random_tokens(1, 200)
    other = semantic.clone()
    other[0, changed] = (other[0, changed] + 4000) % 8192

    difference = (
        decoder.decode(semantic, voices, full(1, 200)) - decoder.decode(other, voices, full(1, 200))
    )[0]

    first = max(0, changed - RECEPTIVE_TOKENS) * HOP
    last = (changed + 1 + RECEPTIVE_TOKENS) * HOP
    assert difference[first:last].abs().max() > 0.01
    assert not difference[:first].any()
    assert not difference[last:].any()


@pytest.mark.parametrize(("phase", "edge"), [(0, 100 - 67), (319, 100 + 67)])
def test_a_sample_does_depend_on_the_67th_token(tiny_folder: Path, phase: int, edge: int) -> None:
    """67 is not too many: gradients show what is too faint for the sum in a sample."""
    decoder = BiCodecDecoder.load(tiny_folder).double()
    semantic, voices = random_tokens(1, 200)
    codes = decoder.quantizer(semantic).requires_grad_()
    voice = decoder.speaker_encoder(voices)
    frames = decoder.prenet(codes, voice, None) + voice[:, None]

    decoder.decoder(frames.mT, None)[0, 100 * HOP + phase].backward()

    assert codes.grad is not None
    heard = codes.grad[0].any(-1).nonzero()
    assert edge in (heard.min(), heard.max())
    assert heard.min() >= 100 - RECEPTIVE_TOKENS
    assert heard.max() <= 100 + RECEPTIVE_TOKENS


@pytest.mark.parametrize("context", [FIELD_FRAMES, FIELD_FRAMES - 1])
def test_the_wave_generator_needs_ten_frames_to_each_side(
    decoder: BiCodecDecoder, context: int
) -> None:
    """The layers, kernels and dilations are the full ones; in float64, to see the faintest."""
    exact = copy.deepcopy(decoder.decoder).double()
    frames = torch.randn((1, 64, decoder.config.wave.input_channels), dtype=torch.float64)
    whole = exact(frames.mT, None)[0, 30 * HOP : 34 * HOP]

    part = exact(frames[:, 30 - context : 34 + context].mT, None)[0, context * HOP : -context * HOP]

    assert torch.allclose(part, whole, rtol=0, atol=1e-12) == (context == FIELD_FRAMES)


def test_a_window_with_67_tokens_around_equals_the_whole(decoder: BiCodecDecoder) -> None:
    semantic, voices = random_tokens(1, 220)
    whole = decoder.decode(semantic, voices, full(1, 220))[0]

    start, end = 90, 110
    window = semantic[:, start - RECEPTIVE_TOKENS : end + RECEPTIVE_TOKENS]
    decoded = decoder.decode(window, voices, full(1, window.shape[1]))[0]

    inner = decoded[RECEPTIVE_TOKENS * HOP : -RECEPTIVE_TOKENS * HOP]
    assert (inner - whole[start * HOP : end * HOP]).abs().max() <= 1e-5


@pytest.mark.parametrize(
    ("dtype", "least_db"), [(torch.bfloat16, 30), (torch.float16, 45), (torch.float32, 100)]
)
def test_half_precision_is_close(
    tiny_folder: Path, decoder: BiCodecDecoder, dtype: torch.dtype, least_db: float
) -> None:
    tokens = (*random_tokens(2, 20), torch.tensor([20, 9]))
    exact = decoder.decode(*tokens)

    rounded = BiCodecDecoder.load(tiny_folder, dtype=dtype).decode(*tokens)

    assert rounded.dtype == torch.float32
    error = (rounded - exact).square().mean() / exact.square().mean()
    assert 10 * torch.log10(error + 1e-20) < -least_db


def test_a_faint_alpha_is_no_division_of_zero_by_zero_in_half_precision() -> None:
    snake = Snake(1)
    snake.alpha.data.fill_(1e-8)
    x = torch.linspace(-3, 3, 7, dtype=torch.float16)[None, None]

    assert torch.equal(snake(x), x)


@pytest.mark.parametrize("half", [BiCodecDecoder, BiCodecEncoder])
def test_a_gpu_is_told_not_to_round_float32(
    tiny_folder: Path, half: type[BiCodecDecoder | BiCodecEncoder]
) -> None:
    torch.backends.cudnn.allow_tf32 = True

    half.load(tiny_folder)

    assert not torch.backends.cudnn.allow_tf32


def test_decoding_twice_gives_the_same_samples(decoder: BiCodecDecoder) -> None:
    tokens = (*random_tokens(2, 20), torch.tensor([20, 9]))

    assert torch.equal(decoder.decode(*tokens), decoder.decode(*tokens))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("semantic", 8192, "semantic tokens are .* to 8192; allowed are 0 to 8191"),
        ("semantic", -1, "semantic tokens are -1 to"),
        ("voices", 4096, "global tokens are .* to 4096; allowed are 0 to 4095"),
        ("lengths", 0, "lengths are 0 to 5; allowed are 1 to 5"),
        ("lengths", 6, "lengths are 5 to 6; allowed are 1 to 5"),
    ],
)
def test_tokens_out_of_range_are_an_error(
    decoder: BiCodecDecoder, name: str, value: int, message: str
) -> None:
    semantic, voices = random_tokens(2, 5)
    tensors = {"semantic": semantic, "voices": voices, "lengths": full(2, 5)}
    tensors[name].view(-1)[0] = value

    with pytest.raises(ValueError, match=message):
        decoder.decode(*tensors.values())


def test_shapes_that_do_not_fit_are_an_error(decoder: BiCodecDecoder) -> None:
    semantic, voices = random_tokens(2, 5)

    with pytest.raises(ValueError, match=r"need global tokens \[2, 32\] and 2 lengths"):
        decoder.decode(semantic, voices[:1], full(2, 5))
    with pytest.raises(ValueError, match="no semantic tokens"):
        decoder.decode(semantic[:, :0], voices, full(2, 0))


@pytest.fixture
def damaged_folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """Give a copy of the checkpoint that a test may change."""
    return shutil.copytree(tiny_folder, tmp_path / "BiCodec")


@pytest.mark.parametrize(
    ("half", "name"),
    [
        (BiCodecDecoder, "prenet.vocos_backbone.convnext.11.gamma"),
        (BiCodecDecoder, "decoder.model.4.block.4.block.3.bias"),
        (BiCodecEncoder, "encoder.project.weight"),
        (BiCodecEncoder, "speaker_encoder.perceiver_sampler.latents"),
    ],
)
def test_a_missing_tensor_is_named(
    damaged_folder: Path, half: type[BiCodecDecoder | BiCodecEncoder], name: str
) -> None:
    path = damaged_folder / "model.safetensors"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path)

    with pytest.raises(RuntimeError, match=f'Missing key.*"{name}"'):
        half.load(damaged_folder)


def test_a_tensor_that_the_network_has_no_place_for_is_named(damaged_folder: Path) -> None:
    path = damaged_folder / "model.safetensors"
    save_file({**load_file(path), "prenet.extra.weight": torch.zeros(1)}, path)

    BiCodecEncoder.load(damaged_folder)  # it is not in this half
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"prenet\.extra\.weight"'):
        BiCodecDecoder.load(damaged_folder)


def test_newer_torchs_names_of_weight_normalisation_load_the_same(
    decoder: BiCodecDecoder, damaged_folder: Path
) -> None:
    path = damaged_folder / "model.safetensors"
    renamed = {
        name.replace(".weight_g", ".parametrizations.weight.original0").replace(
            ".weight_v", ".parametrizations.weight.original1"
        ): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(renamed, path)
    tokens = (*random_tokens(1, 10), full(1, 10))

    assert torch.equal(BiCodecDecoder.load(damaged_folder).decode(*tokens), decoder.decode(*tokens))


def test_each_half_holds_its_own_tensors_only(tiny_folder: Path) -> None:
    decoder = set(BiCodecDecoder.load(tiny_folder).state_dict())
    encoder = set(BiCodecEncoder.load(tiny_folder).state_dict())

    assert decoder & encoder == {"quantizer.codebook.weight"}
    assert not [name for name in decoder | encoder if name.startswith("postnet")]
