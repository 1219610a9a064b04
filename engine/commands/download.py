"""`download`: fetch repositories of the Hugging Face Hub."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from engine.artefacts import read_manifest
from engine.commands.specs import add_work, say_pinned
from engine.commands.values import check_distinct, refuse_unused
from engine.download import SPARK_TTS_FILES, Source, download
from engine.spec import MODEL

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"\w[\w.-]*/[\w.-]+(@.+)?")
REVISION = "main"


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "download",
        help="fetch weights from the Hugging Face Hub",
        description="The token of private repositories is read from HF_TOKEN.",
    )
    parser.add_argument(
        "repositories",
        nargs="*",
        type=_name,
        metavar="OWNER/NAME[@REVISION]",
        help=f"each gets a folder of its own; default: {MODEL}, what Spark-TTS needs of it",
    )
    add_work(parser)
    parser.add_argument("--revision", help=f"of those that name none ({REVISION})")
    for name, meaning in (("allow", "nothing but these"), ("ignore", "not these")):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN", help=f"files: {meaning}"
        )
    parser.add_argument("--dry-run", action="store_true", help="print what would be fetched")
    parser.set_defaults(run=run)


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no repository; one is named owner/name, and a folder that is here is "
            "given to the next steps with --model-dir"
        )
    return text


def run(options: argparse.Namespace) -> None:
    """Fetch them, and print each one's folder."""
    names = options.repositories or [MODEL]
    if all("@" in name for name in names):
        refuse_unused(options, ["revision"], "each repository names its own, after the @")
    default = options.revision or REVISION
    named = [name if "@" in name else f"{name}@{default}" for name in names]
    check_distinct("download", named)
    for name in named:
        repository, _, revision = name.partition("@")
        allow, ignore = tuple(options.allow), tuple(options.ignore)
        if repository == MODEL and not (allow or ignore):
            allow = SPARK_TTS_FILES
        source = Source(repository, revision, allow, ignore)
        folder = options.work / "weights" / source.folder_name()
        if options.dry_run:
            print(_plan(source, folder))
        else:
            say_pinned(repository, source.revision, download(source, folder))
            print(folder)


def _plan(source: Source, folder: Path) -> str:
    files = ", ".join(source.allow) or "all files"
    without = f" without {', '.join(source.ignore)}" if source.ignore else ""
    there = ""
    if folder.exists():
        read_manifest(folder)
        there = " (there already, nothing would be fetched)"
    return (
        f"{source.repository} at {source.revision}, {files}{without}, from the Hugging Face Hub\n"
        f"  into {folder}{there}"
    )
