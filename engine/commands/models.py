"""The options that name models and their place, for every command that renders them."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.catalogue import DEFAULT_MODEL, MODELS, find_specs
from engine.render import model_source, render_model
from engine.site import MAX_SEQUENCE_TOKENS, TENSORRTLLM, TRANSFORMERS, VLLM, Site


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
        help=f"{TRANSFORMERS} (the default), {VLLM}, {TENSORRTLLM}, or a model that is in the "
        "repository already, with tensorrt_llm's tensors",
    )
    models.add_argument(
        "--engine-dir", type=Path, help=f"for {TENSORRTLLM}: the folder that trtllm-build wrote"
    )
    models.add_argument(
        "--kv-cache-fraction",
        type=_fraction,
        default=Site.kv_cache_fraction,
        metavar="SHARE",
        help=f"for {TENSORRTLLM}: of the free GPU memory, for keys and values; "
        f"for {VLLM}: of all of it, for the weights too (%(default)s)",
    )
    models.add_argument(
        "--max-sequence-tokens",
        type=_positive,
        help="the longest prompt and output together that the language model takes; default: the "
        f"engine's, else {MAX_SEQUENCE_TOKENS}",
    )
    models.add_argument(
        "--instances",
        type=_instances,
        action="append",
        default=[],
        metavar="MODEL=COUNT",
        help="how many processes a stage has (repeatable; default 1)",
    )
    models.add_argument("--device", default=Site.device, help="torch's name (%(default)s)")
    models.add_argument("--dtype", default=Site.dtype, help="torch's name (%(default)s)")
    models.add_argument(
        "--pruned-head",
        action="store_true",
        help=f"for {TRANSFORMERS}, experimental: compute nothing but speech once the model speaks",
    )
    return models


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


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
    return model, _positive(count)


def render_models(options: argparse.Namespace, triton_address: str, repository: Path) -> list[str]:
    """Render what the options name, and print each model's folder; return the models' names."""
    site = Site(
        model_dir=options.model_dir,
        llm=options.llm,
        engine_dir=options.engine_dir,
        kv_cache_fraction=options.kv_cache_fraction,
        triton_address=triton_address,
        max_sequence_tokens=options.max_sequence_tokens,
        device=options.device,
        dtype=options.dtype,
        instances=dict(options.instances),
        pruned_head=options.pruned_head,
    )
    specs = [spec for name in options.model or [DEFAULT_MODEL] for spec in find_specs(name, site)]
    for spec in specs:
        source = model_source(spec.name) if spec.backend == "python" else None
        print(render_model(spec, source, repository))
    return [spec.name for spec in specs]
