"""The options that name models and their place, for every command that renders them."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.catalogue import DEFAULT_MODEL, MODELS, find_specs
from engine.commands.values import positive
from engine.language_models import check_language_model, check_no_other
from engine.render import model_source, render_model
from engine.site import (
    LANGUAGE_MODELS,
    MAX_SEQUENCE_TOKENS,
    TENSORRTLLM,
    TRANSFORMERS,
    VLLM,
    Site,
)

SITE_OPTIONS = (
    "model_dir",
    "llm",
    "engine_dir",
    "kv_cache_fraction",
    "max_sequence_tokens",
    "instances",
    "device",
    "dtype",
    "pruned_head",
    "compile",
    "look_ahead",
    "first_chunk",
)
"""What is rendered into a repository. None stands for an option that was not given."""


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
        metavar="NAME",
        help=f"{TRANSFORMERS} (the default), {VLLM}, {TENSORRTLLM}, or a model that is in the "
        "repository already, with tensorrt_llm's tensors",
    )
    models.add_argument(
        "--engine-dir", type=Path, help=f"for {TENSORRTLLM}: the folder that trtllm-build wrote"
    )
    models.add_argument(
        "--kv-cache-fraction",
        type=_fraction,
        metavar="SHARE",
        help=f"for {TENSORRTLLM}: of the free GPU memory, for keys and values; for {VLLM}: of "
        f"all of it, for the weights too; default {Site.kv_cache_fraction:g}",
    )
    models.add_argument(
        "--max-sequence-tokens",
        type=positive,
        help="the longest prompt and output together that the language model takes; default: the "
        f"engine's, else {MAX_SEQUENCE_TOKENS}",
    )
    models.add_argument(
        "--instances",
        type=_instances,
        action="append",
        metavar="MODEL=COUNT",
        help="how many processes a stage has (repeatable; default 1)",
    )
    models.add_argument("--device", help=f"torch's name; default {Site.device}")
    models.add_argument("--dtype", help=f"torch's name; default {Site.dtype}")
    models.add_argument(
        "--pruned-head",
        action="store_true",
        default=None,
        help=f"for {TRANSFORMERS}, experimental: compute nothing but speech once the model speaks",
    )
    _add_vocoder(models)
    return models


def _add_vocoder(models: argparse.ArgumentParser) -> None:
    models.add_argument(
        "--compile",
        action="store_true",
        default=None,
        help="on a GPU: a faster vocoder, a minute later",
    )
    models.add_argument(
        "--look-ahead",
        type=positive,
        metavar="TOKENS",
        help=f"that spark_tts waits for beyond what it speaks: {Site.look_ahead} (the default) is "
        "exact, less is heard earlier",
    )
    models.add_argument(
        "--first-chunk",
        type=positive,
        metavar="TOKENS",
        help=f"that spark_tts speaks first, of 20 ms each; default {Site.first_chunk}",
    )


def _fraction(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1")
    return share


def _instances(text: str) -> tuple[str, int]:
    model, _, count = text.partition("=")
    return model, positive(count)


def given_site_options(options: argparse.Namespace) -> list[str]:
    """Return the names of those of SITE_OPTIONS that the command line has."""
    return [name for name in SITE_OPTIONS if getattr(options, name) is not None]


def render_models(options: argparse.Namespace, triton_address: str, repository: Path) -> list[str]:
    """Render what the options name, and print each model's folder; return the models' names."""
    given = {name: getattr(options, name) for name in given_site_options(options)}
    if "instances" in given:
        given["instances"] = dict(given["instances"])
    site = Site(triton_address=triton_address, **given)
    if site.llm not in LANGUAGE_MODELS:
        check_language_model(repository, site.llm)
    specs = [spec for name in options.model or [DEFAULT_MODEL] for spec in find_specs(name, site)]
    check_no_other(repository, specs)
    for spec in specs:
        source = model_source(spec.name) if spec.backend == "python" else None
        print(render_model(spec, source, repository))
    return [spec.name for spec in specs]
