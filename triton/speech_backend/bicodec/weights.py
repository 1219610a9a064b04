"""Reading one half's tensors from upstream's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

if TYPE_CHECKING:
    from pathlib import Path

# A convolution with weight normalisation stores a magnitude for each entry of the first axis,
# and a direction. The first spelling is older torch's, the second that of `parametrizations`.
MAGNITUDE_AND_DIRECTION = (
    (".weight_g", ".weight_v"),
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
)


def keep_float32_exact() -> None:
    """Stop cuDNN from rounding the inputs of float32 convolutions to ten bits (TF32).

    It is for the whole process: a setting around each call would end in the midst of another
    thread's.
    """
    torch.backends.cudnn.allow_tf32 = False


def read_tensors(path: Path, prefixes: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Read the tensors whose names start with one of `prefixes`, weight normalisation folded."""
    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(prefixes)]  # noqa: SIM118
        tensors = {name: file.get_tensor(name) for name in names}
    return fold_weight_norm(tensors)


def fold_weight_norm(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Replace each magnitude and direction by the weight they stand for: g * v / |v|.

    It is the same network with half the tensors, and nothing to compute before each call.
    """
    folded = dict(tensors)
    for magnitude_suffix, direction_suffix in MAGNITUDE_AND_DIRECTION:
        for name in [name for name in tensors if name.endswith(direction_suffix)]:
            layer = name.removesuffix(direction_suffix)
            direction = folded.pop(name).double()
            magnitude = folded.pop(layer + magnitude_suffix).double()
            norm = torch.linalg.vector_norm(direction, dim=(1, 2), keepdim=True)
            folded[f"{layer}.weight"] = (direction * (magnitude / norm)).float()
    return folded
