"""What a model's Triton configuration says to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_parameters(args: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters in the arguments of a model's `initialize`."""
    parameters = json.loads(args["model_config"])["parameters"]
    return {name: value["string_value"] for name, value in parameters.items()}
