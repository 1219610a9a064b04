"""Fetches repositories of the Hugging Face Hub, each into a folder of its own.

The library reads HF_TOKEN, HF_ENDPOINT and its other settings itself. A file whose transfer
breaks goes on where it stopped as long as this process lives; after a kill, complete files are
kept and the others begin anew, as the library's current releases do it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import re
import shutil
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_space, make
from engine.errors import EngineError
from engine.fingerprints import sha256
from engine.sizes import folder_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPARK_TTS_FILES = ("LLM/*", "BiCodec/*", "wav2vec2-large-xlsr-53/*", "config.yaml")
"""What Spark-TTS needs of its repository, which holds pictures, too."""


NO_HUB = (json.JSONDecodeError, KeyError, AttributeError, TypeError)
"""What the library raises over an answer that is not the Hub's, such as the page of a login."""
FAULTS = (ValueError, ImportError, *NO_HUB)
"""What it raises besides, over a proxy or a token that cannot be used."""
DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Those that name no file when a write fails."""
USERINFO = re.compile(r"//[^/\s]*@")


@dataclass(frozen=True, slots=True)
class Source:
    """A repository at a revision: a commit, or a branch or tag, which may move.

    `allow` and `ignore` are patterns of paths (`LLM/*`); without `allow`, all files.
    """

    repository: str
    revision: str = "main"
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def folder_name(self) -> str:
        """Return the name of its folder: plain for what Spark-TTS needs, as the steps look for it.

        Other patterns leave other files, and get a folder of their own.
        """
        name = f"{self.repository.replace('/', '--')}@{self.revision.replace('/', '--')}"
        if (self.allow, self.ignore) == (SPARK_TTS_FILES, ()):
            return name
        if not self.allow and not self.ignore:
            return f"{name}--all"
        patterns = json.dumps([self.allow, self.ignore])
        return f"{name}--{hashlib.sha256(patterns.encode()).hexdigest()[:12]}"


def download(source: Source, folder: Path) -> str:
    """Fetch into `folder` unless it is complete there, then without network; return the commit.

    Raises EngineError for a repository, revision, network, permission or disk that is not there.
    """
    made_of = {
        "repository": source.repository,
        "revision": source.revision,
        "allow": source.allow,
        "ignore": source.ignore,
    }
    manifest = make(folder, made_of, lambda part: _fetch(source, part), goes_on=True)
    return str(manifest["commit"])


def _fetch(source: Source, part: Path) -> dict[str, Any]:
    hub = _library()
    try:
        files = _listed(hub, source)
        _remove_torn(part)
        missing_bytes = max(0, files.total_bytes - folder_bytes(part))
        check_space(part, missing_bytes, source.repository)
        hub.snapshot_download(
            source.repository,
            revision=files.commit,
            local_dir=part,
            allow_patterns=list(source.allow) or None,
            ignore_patterns=list(source.ignore) or None,
        )
    except hub.errors.HFValidationError as error:
        raise EngineError(f"{source.repository} is no name of a repository: {error}") from error
    except (hub.errors.HTTPError, hub.errors.LocalEntryNotFoundError, OSError, *FAULTS) as error:
        if _is_the_disks(error):
            raise
        raise EngineError(_explain(source, error)) from error
    _check_whole(files, part)
    shutil.rmtree(part / ".cache", ignore_errors=True)
    return {"commit": files.commit, "versions": {"huggingface_hub": hub.__version__}}


def _library() -> Any:
    # The library's own requests are no news.
    for name in ("httpx2", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        import huggingface_hub  # noqa: PLC0415  an optional extra
        import huggingface_hub.constants  # noqa: PLC0415
        import huggingface_hub.errors  # noqa: PLC0415
        import huggingface_hub.utils.logging  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            f"to download needs the package {error.name}: pip install 'speech-gateway[download]'"
        ) from error
    except ValueError as error:
        # These are read when they are imported, and it does not say which one that was.
        raise EngineError(
            f"a setting of the Hub's library is no number: {error}; look at "
            "HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_ETAG_TIMEOUT and the other HF_HUB_… of the environment"
        ) from error
    own = logging.getLogger("huggingface_hub")
    # It prints by itself what it has to say, an address with its password, too.
    own.propagate = False
    for handler in own.handlers:
        handler.addFilter(_without_password)
    return huggingface_hub


def _without_password(record: logging.LogRecord) -> bool:
    record.msg, record.args = USERINFO.sub("//", record.getMessage()), ()
    return True


@dataclass(frozen=True, slots=True)
class Files:
    """What the Hub says a repository holds: size of each file, and SHA-256 of the large ones."""

    commit: str
    sizes: dict[str, int]
    hashes: dict[str, str]

    @property
    def total_bytes(self) -> int:
        """Of all files together."""
        return sum(self.sizes.values())


def _listed(hub: Any, source: Source) -> Files:
    info = hub.HfApi().model_info(source.repository, revision=source.revision, files_metadata=True)
    siblings = {sibling.rfilename: sibling for sibling in info.siblings}
    names = hub.utils.filter_repo_objects(
        list(siblings),
        allow_patterns=list(source.allow) or None,
        ignore_patterns=list(source.ignore) or None,
    )
    wanted = {name: siblings[name] for name in names}
    if not wanted:
        ignored = ", ".join(source.ignore) or "none"
        patterns = f"allow {', '.join(source.allow) or '*'}, ignore {ignored}"
        raise EngineError(f"{source.repository} has no file that the patterns leave ({patterns})")
    return Files(
        info.sha,
        {name: sibling.size or 0 for name, sibling in wanted.items()},
        {name: sibling.lfs.sha256 for name, sibling in wanted.items() if sibling.lfs},
    )


def _remove_torn(part: Path) -> None:
    # Each has a name of its own, which the library never reads again.
    for path in (part / ".cache" / "huggingface" / "download").rglob("*.incomplete"):
        path.unlink()


def _check_whole(files: Files, part: Path) -> None:
    for name in _broken(files, part):
        (part / name).unlink(missing_ok=True)
        raise EngineError(
            f"{name} did not arrive as the Hub describes it; run this again to fetch it anew"
        )


def _broken(files: Files, part: Path) -> Iterator[str]:
    for name, size in files.sizes.items():
        path = part / name
        if (
            not path.is_file()
            or path.stat().st_size != size
            or (name in files.hashes and sha256(path) != files.hashes[name])
        ):
            yield name


def _is_the_disks(error: Exception) -> bool:
    # OSErrors of the network and of certificates have no number (releases before 1.0, as NVIDIA's
    # images have them) or name no file.
    if isinstance(error, ConnectionError) or not isinstance(error, OSError):
        return False
    return error.errno in DISK_FAULTS or (error.errno is not None and error.filename is not None)


def _explain(source: Source, error: Exception) -> str:
    """Say in a sentence what went wrong, and what to do about it."""
    name = f"{source.repository} (revision {source.revision})"
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = _status(error)
    if "GatedRepoError" in kinds:
        return f"{name} asks for consent: give it on its page, then set HF_TOKEN to your token"
    if "RevisionNotFoundError" in kinds:
        return f"{name} is not there: the repository has no such revision"
    if status in (401, 403, 404):
        return (
            f"{name} is not there, or not for you: check its name, and if it is private set "
            f"HF_TOKEN to a token that may read it (the Hub answered {status})"
        )
    return (
        f"{name} cannot be fetched: {_reason(error, status)}; check the network (HTTPS_PROXY, "
        "ALL_PROXY, HF_ENDPOINT, SSL_CERT_FILE), or fetch elsewhere and name the folder with "
        "--model-dir"
    )


def _status(error: Exception) -> int | None:
    for each in (error, _innermost(error)):
        if (response := getattr(each, "response", None)) is not None:
            return int(response.status_code)
    return None


def _reason(error: Exception, status: int | None) -> str:
    inner = _innermost(error)
    # One line, without the name and password that an address may have.
    words = USERINFO.sub("//", " ".join(str(inner).split()))
    # The library's own words for an answer have the address and the body in them. An answer that
    # it cannot read is one of 200, by the error of some of its releases.
    if status is not None and status != HTTPStatus.OK:
        return f"the Hub answered {status}"
    if isinstance(inner, UnicodeEncodeError):
        return "HF_TOKEN has a character that no header can carry"
    if isinstance(inner, FileNotFoundError):
        return "SSL_CERT_FILE names a file that is not there"
    if isinstance(inner, NO_HUB):
        return f"what answers is no Hub ({words})"
    if isinstance(inner, (ValueError, ImportError)):
        return f"the Hub's library cannot use its settings: {words}"
    return f"the Hub does not answer as it should: {words}"


def _innermost(error: BaseException) -> BaseException:
    """Return what the network said, out of what each library has wrapped around it."""
    while True:
        inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if inner is None:
            return error
        error = inner
