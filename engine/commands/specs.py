"""The options that describe an engine, for every command that makes a part of it."""

from __future__ import annotations

import argparse
import logging
import re
from pathlib import Path

from engine.commands.values import positive, refuse_unused, share
from engine.convert import EXAMPLES, Scripts
from engine.errors import EngineError, in_words
from engine.options import parse_extra
from engine.spec import CAPABILITIES, DTYPES, IMAGES, KV_CACHES, QUANTIZATIONS, EngineSpec
from engine.workplace import Workplace

COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
DEFAULTS = EngineSpec()
LIMITS = {
    "max_batch": "requests at once",
    "max_input": "tokens of a prompt",
    "max_sequence": "tokens of prompt and output",
    "max_tokens": "tokens of all prompts that are computed at once",
    "tensor_parallel": "GPUs that share each layer",
    "pipeline_parallel": "GPUs that follow each other",
}

log = logging.getLogger(__name__)


def spec_options() -> argparse.ArgumentParser:
    """Return a parent parser with these options: all steps take the same, each uses its own."""
    parser = argparse.ArgumentParser(add_help=False)
    add_work(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and do nothing"
    )
    weights = parser.add_argument_group("weights")
    weights.add_argument(
        "--repository", type=repository, metavar="OWNER/NAME", help=f"default {DEFAULTS.model}"
    )
    weights.add_argument("--revision", help=f"commit, branch or tag; default {DEFAULTS.revision}")
    weights.add_argument("--model-dir", type=Path, help="a checkpoint of Spark-TTS that is here")
    _add_engine(parser.add_argument_group("engine"))
    tools = parser.add_argument_group("TensorRT-LLM's tools (options: engine/README.md)")
    tools.add_argument("--convert-script", type=Path, help=f"default: found below {EXAMPLES}")
    for name, tool in (("convert", "convert_checkpoint.py"), ("build", "trtllm-build")):
        tools.add_argument(
            f"--extra-{name}-arg",
            type=parse_extra,
            action="append",
            default=[],
            metavar="NAME[=VALUE]",
            help=f"one more option of {tool} (repeatable)",
        )
    return parser


def repository(text: str) -> str:
    """Return the name of a repository on the Hub."""
    if not REPOSITORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no repository; one is named owner/name")
    return text


def add_work(parser: argparse.ArgumentParser) -> None:
    """Declare the folder that all steps share."""
    parser.add_argument(
        "--work", type=_folder, required=True, metavar="DIR", help="where all that is made is kept"
    )


def _folder(text: str) -> Path:
    path = Path(text)
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError as error:
        raise argparse.ArgumentTypeError(in_words(error)) from error
    if is_file:
        raise argparse.ArgumentTypeError(f"{text!r} is a file, where a folder is needed")
    return path


def _add_engine(engine: argparse._ArgumentGroup) -> None:
    engine.add_argument(
        "--dtype", default=DEFAULTS.dtype, help=f"{' or '.join(DTYPES)} (%(default)s)"
    )
    engine.add_argument(
        "--quantization",
        default=DEFAULTS.quantization,
        help=f"{', '.join(QUANTIZATIONS)} (%(default)s)",
    )
    engine.add_argument(
        "--kv-cache", default=DEFAULTS.kv_cache, help=f"{', '.join(KV_CACHES)} (%(default)s)"
    )
    engine.add_argument(
        "--calibration",
        default=DEFAULTS.calibration,
        metavar="DATASET",
        help="name or folder of a data set of prompts with their speech tokens",
    )
    engine.add_argument(
        "--smoothquant",
        type=share,
        metavar="ALPHA",
        help=f"for quantization smoothquant: 0 to 1 ({DEFAULTS.smoothquant})",
    )
    for name, meaning in LIMITS.items():
        default = getattr(DEFAULTS, name)
        option = f"--{name.replace('_', '-')}"
        engine.add_argument(option, type=positive, default=default, help=f"{meaning} ({default})")
    engine.add_argument(
        "--pruned-head", action="store_true", help="experimental: output speech tokens only"
    )
    engine.add_argument(
        "--gpu", default=DEFAULTS.gpu, help=f"{', '.join(CAPABILITIES)} (%(default)s)"
    )
    engine.add_argument("--trtllm-version", help=f"default: the image's, {DEFAULTS.trtllm_version}")
    engine.add_argument("--image", help=f"tritonserver's tag; default {DEFAULTS.image}")


def read_spec(options: argparse.Namespace) -> EngineSpec:
    """Return the spec; raises EngineError for what cannot go together.

    Version and image follow from each other, where one of them is not given.
    """
    _check_used(options)
    image, version = options.image, options.trtllm_version
    if image is None and version is not None:
        tags = [tag for tag, found in IMAGES.items() if found == version]
        if not tags:
            known = ", ".join(dict.fromkeys(IMAGES.values()))
            raise EngineError(f"no image has TensorRT-LLM {version}; there are: {known}")
        image = tags[-1]
    image = image or DEFAULTS.image
    return EngineSpec(
        model=options.repository or DEFAULTS.model,
        revision=options.revision or DEFAULTS.revision,
        dtype=options.dtype,
        quantization=options.quantization,
        kv_cache=options.kv_cache,
        calibration=options.calibration,
        smoothquant=DEFAULTS.smoothquant if options.smoothquant is None else options.smoothquant,
        **{name: getattr(options, name) for name in LIMITS},
        pruned_head=options.pruned_head,
        gpu=options.gpu,
        trtllm_version=version or IMAGES.get(image, DEFAULTS.trtllm_version),
        image=image,
        extra_convert=tuple(options.extra_convert_arg),
        extra_build=tuple(options.extra_build_arg),
    )


def _check_used(options: argparse.Namespace) -> None:
    if options.model_dir is not None:
        here = f"the weights are those in --model-dir {options.model_dir}; leave one of them out"
        refuse_unused(options, ["repository", "revision"], here)
    if options.quantization != "smoothquant":
        reason = f"it is for --quantization smoothquant, and here it is {options.quantization}"
        refuse_unused(options, ["smoothquant"], reason)


def read_workplace(options: argparse.Namespace) -> Workplace:
    """Return the spec's folders; raises EngineError for weights that are not Spark-TTS's.

    And for a script or a calibration that is to be here and is not.
    """
    _check_here(options)
    spec, scripts = read_spec(options), Scripts(convert=options.convert_script)
    if options.model_dir is not None:
        return Workplace.of_local_weights(options.work, spec, options.model_dir, scripts)
    return Workplace(options.work, spec, scripts=scripts)


def _check_here(options: argparse.Namespace) -> None:
    script, calibration = options.convert_script, options.calibration
    if script is not None and not script.is_file():
        raise EngineError(f"--convert-script {script} is not there, or no file; check its path")
    # The Hub's names of data sets begin otherwise.
    if calibration.startswith(("/", ".")) and not Path(calibration).exists():
        raise EngineError(
            f"--calibration {calibration} is not there; it is a folder here, or the name of a data "
            "set that the library `datasets` loads"
        )


def say_pinned(repository: str, revision: str, commit: str) -> None:
    """Say how to get the same weights again, where a branch was asked for."""
    if not COMMIT.fullmatch(revision):
        log.warning(
            "%s: '%s' was commit %s when it was fetched; to get the same elsewhere: --revision %s",
            repository,
            revision,
            commit,
            commit,
        )
