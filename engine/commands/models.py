"""The options that name models and their place, for every command that renders them."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.catalogue import DEFAULT_MODEL, MODELS, find_specs
from engine.render import model_source, render_model
from engine.site import Site
from engine.spark import TRANSFORMERS


def model_options() -> argparse.ArgumentParser:
    """Return a parent parser with these options."""
    models = argparse.ArgumentParser(add_help=False)
    models.add_argument(
        "--model",
        action="append",
        help=f"a model to serve (repeatable): {', '.join(MODELS)}; default {DEFAULT_MODEL}",
    )
    models.add_argument("--model-dir", type=Path, help="the checkpoint of spark_tts")
    models.add_argument(
        "--llm",
        default=Site.llm,
        metavar="NAME",
        help=f"{TRANSFORMERS}, or a model of the repository with tensorrt_llm's tensors",
    )
    models.add_argument(
        "--max-sequence-tokens",
        type=int,
        default=Site.max_sequence_tokens,
        help="the longest prompt and output together that this one takes (%(default)s)",
    )
    models.add_argument("--device", default=Site.device, help="torch's name (%(default)s)")
    models.add_argument("--dtype", default=Site.dtype, help="torch's name (%(default)s)")
    return models


def render_models(options: argparse.Namespace, triton_address: str, repository: Path) -> list[str]:
    """Render what the options name, and print each model's folder; return the models' names."""
    site = Site(
        options.model_dir,
        options.llm,
        triton_address,
        options.max_sequence_tokens,
        options.device,
        options.dtype,
    )
    specs = [spec for name in options.model or [DEFAULT_MODEL] for spec in find_specs(name, site)]
    for spec in specs:
        print(render_model(spec, model_source(spec.name), repository))
    return [spec.name for spec in specs]
