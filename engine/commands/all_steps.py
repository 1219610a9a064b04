"""`all`: from nothing to a model repository for Triton, each step only where it is needed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_place, read_manifest, replace
from engine.build import build_command, check_engine
from engine.catalogue import find_specs
from engine.commands.specs import read_workplace, say_pinned, spec_options
from engine.commands.values import address, device
from engine.convert import check_version, convert_command
from engine.download import SPARK_TTS_FILES
from engine.errors import EngineError
from engine.gpu import check_gpu
from engine.render import render_specs
from engine.site import TENSORRTLLM, Site
from engine.sizes import converted_bytes, weights_bytes
from engine.spark import Room

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from engine.spec import EngineSpec
    from engine.workplace import Workplace

RENDERED = ("tensorrt_llm", "vocoder", "audio_tokenizer", "spark_tts")
UNUSABLE = "it cannot be used: "
IMAGE_GB = {"25.02": 28, "25.05": 17, "26.07": 14}


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "all", parents=[spec_options()], help="download, convert, build and render"
    )
    parser.add_argument(
        "--triton-address",
        type=address,
        default=Site.triton_address,
        metavar="HOST:PORT",
        help="that server's gRPC, as its own models reach it (%(default)s)",
    )
    parser.add_argument(
        "--device", type=device, default="cuda", help="of codec and tokenizer (%(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what is not done yet, and print the folders of weights, engine and repository.

    A dry run returns 1 where it finds something that cannot be used.
    """
    place = read_workplace(options)
    _check_servable(place.spec)
    if options.dry_run:
        states = states_of(place)
        for line in plan(place, states):
            print(line)
        return 1 if any(UNUSABLE in state for state in states.values()) else 0
    if not place.engine.exists():
        # Better known now than after four gigabytes.
        check_gpu(place.spec)
        check_version(place.spec)
    if commit := place.fetch():
        say_pinned(place.spec.model, place.spec.revision, commit)
    place.convert()
    place.build()
    render(place, options.triton_address, options.device)
    print(f"weights: {place.weights}")
    print(f"engine: {place.engine}")
    print(f"repository: {place.repository}")
    return 0


def _check_servable(spec: EngineSpec) -> None:
    """Raise EngineError for an engine that could be built but not rendered."""
    if spec.world_size > 1:
        raise EngineError(
            f"an engine for {spec.world_size} GPUs can be made with convert and build, but is not "
            "rendered here; for all of it take tensor and pipeline parallel 1"
        )
    if spec.pruned_head:
        raise EngineError(
            "an engine with a pruned head can be made with convert and build, but the front does "
            "not send its prompts' embeddings yet; leave out --pruned-head"
        )
    Room(spec.max_sequence, spec.max_tokens).max_text_characters()


def render(place: Workplace, triton_address: str, device: str) -> None:
    """Write the model repository around the engine."""
    site = Site(
        model_dir=place.weights,
        llm=TENSORRTLLM,
        engine_dir=place.engine,
        triton_address=triton_address,
        device=device,
    )
    specs = find_specs("spark_tts", site)
    replace(place.repository, lambda part: render_specs(specs, part))


def states_of(place: Workplace) -> dict[Path, str]:
    """Return what is to be said of each folder: nothing, that it is there, or that it is broken."""
    checks: dict[Path, Callable[[], object]] = {
        # Those that lie elsewhere have been looked at.
        place.weights: lambda: place.model_dir or read_manifest(place.weights),
        place.checkpoint: lambda: read_manifest(place.checkpoint),
        place.engine: lambda: _check_engine(place),
    }
    states = {folder: _looked_at(folder, check) for folder, check in checks.items()}
    anew = " (there, rendered anew)" if place.repository.exists() else ""
    return {place.folder: _work(place), **states, place.repository: anew}


def _work(place: Workplace) -> str:
    try:
        check_place(place.folder)
    except EngineError as error:
        return f" ({UNUSABLE}{error})"
    return ""


def _check_engine(place: Workplace) -> None:
    read_manifest(place.engine)
    check_engine(place.spec, place.engine)


def _looked_at(folder: Path, check: Callable[[], object]) -> str:
    if not folder.exists():
        return ""
    try:
        check()
    except EngineError as error:
        return f" (there, but {UNUSABLE}{error})"
    return " (there already)"


def plan(place: Workplace, states: Mapping[Path, str]) -> Iterator[str]:
    """Yield in lines what would be done, in which image, with which commands, and how large."""
    spec = place.spec
    size = f", {IMAGE_GB[spec.image]} GB" if spec.image in IMAGE_GB else ""
    yield f"image: {spec.container} (TensorRT-LLM {spec.trtllm_version}{size}), on {spec.gpu}"
    if states[place.folder]:
        yield f"work: {place.folder}{states[place.folder]}"
    about = f", about {weights_bytes(place.model_dir) / 1e9:.1f} GB"
    yield f"download: {place.weights}{about}{states[place.weights]}"
    yield f"  {spec.model} at {spec.revision} ({', '.join(SPARK_TTS_FILES)})"
    about = f", about {converted_bytes(spec, place.model_dir) / 1e9:.1f} GB"
    yield f"convert: {place.checkpoint}{about}{states[place.checkpoint]}"
    script = place.scripts.find(spec)
    yield f"  {shlex.join(convert_command(spec, place.llm, place.checkpoint, script))}"
    yield f"  writes config.json, {_ranks(spec, 'safetensors')}"
    yield f"build: {place.engine}{about}{states[place.engine]}"
    yield f"  {shlex.join(build_command(spec, place.checkpoint, place.engine))}"
    yield f"  writes config.json, model.cache, {_ranks(spec, 'engine')}"
    yield f"render: {place.repository}{states[place.repository]}"
    yield f"  writes config.pbtxt of {', '.join(RENDERED)}, model.py of all but the first"
    yield f"then: python -m engine serve --repository {shlex.quote(str(place.repository))}"
    yield "each folder is written beside, as .NAME.….part, and renamed when it is complete"
    yield "times: not known, no step with TensorRT-LLM has been run by this project"


def _ranks(spec: EngineSpec, kind: str) -> str:
    return ", ".join(f"rank{rank}.{kind}" for rank in range(spec.world_size))
