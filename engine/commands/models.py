"""The options that name models and their place, for every command that renders them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.artefacts import alone_in
from engine.catalogue import DEFAULT_MODEL, MODELS, find_specs
from engine.commands.values import check_distinct, device, positive, refuse_unused
from engine.language_models import check_language_model, check_no_other
from engine.render import render_specs
from engine.site import (
    LANGUAGE_MODELS,
    MAX_SEQUENCE_TOKENS,
    TENSORRTLLM,
    TRANSFORMERS,
    VLLM,
    Site,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

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
"""What is rendered into a repository for spark_tts. None stands for one that was not given."""

MAX_INSTANCES = 64
"""Of a stage: each is a process with the codec's weights of its own."""

DTYPES = ("float32", "bfloat16", "float16")
USED_BY = {"engine_dir": (TENSORRTLLM,), "kv_cache_fraction": (TENSORRTLLM, VLLM)}
"""Which language models these are for; all of them know the others."""


def model_options() -> argparse.ArgumentParser:
    """Return a parent parser with these options."""
    models = argparse.ArgumentParser(add_help=False)
    models.add_argument(
        "--model",
        action="append",
        help=f"a model (repeatable): {', '.join(MODELS)}; default {DEFAULT_MODEL}",
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
    models.add_argument(
        "--device", type=device, help=f"cpu, cuda or cuda:NUMBER; default {Site.device}"
    )
    models.add_argument(
        "--dtype", choices=DTYPES, help=f"of what is computed; default {Site.dtype}"
    )
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
    if not model or not count.isdecimal() or not 0 < int(count) <= MAX_INSTANCES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no MODEL=COUNT, the count from 1 to {MAX_INSTANCES}"
        )
    return model, int(count)


def given_site_options(options: argparse.Namespace) -> list[str]:
    """Return the names of those of SITE_OPTIONS that the command line has."""
    return [name for name in SITE_OPTIONS if getattr(options, name) is not None]


def render_models(
    options: argparse.Namespace, triton_address: str | None, repository: Path
) -> list[str]:
    """Render what the options name, and print each model's folder; return the models' names.

    Raises EngineError for an option that would change nothing.
    """
    names = options.model or [DEFAULT_MODEL]
    check_distinct("--model", names)
    _check_used(options, names)
    given = {name: getattr(options, name) for name in given_site_options(options)}
    if "instances" in given:
        check_distinct("--instances", [model for model, _ in given["instances"]])
        given["instances"] = dict(given["instances"])
    site = Site(triton_address=triton_address or Site.triton_address, **given)
    if site.llm not in LANGUAGE_MODELS:
        check_language_model(repository, site.llm)
    specs = [spec for name in names for spec in find_specs(name, site)]
    with alone_in(repository):
        check_no_other(repository, specs)
        folders = render_specs(specs, repository)
    for folder in folders:
        print(folder)
    return [spec.name for spec in specs]


def _check_used(options: argparse.Namespace, names: Sequence[str]) -> None:
    known = [name for name in names if name in MODELS]
    if known and "spark_tts" not in known:
        others = f"it is for spark_tts, not for {', '.join(known)}; add --model spark_tts"
        refuse_unused(options, (*SITE_OPTIONS, "triton_address"), f"{others}, or leave it out")
    llm = options.llm or Site.llm
    for name, users in USED_BY.items():
        if llm not in users:
            reason = f"it is for --llm {' and --llm '.join(users)}, and the language model is {llm}"
            refuse_unused(options, [name], reason)
    if (options.device or Site.device) == "cpu":
        refuse_unused(options, ["compile"], "on a CPU nothing is joined; add --device cuda")
