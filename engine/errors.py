"""What can go wrong while Triton is prepared, started or watched."""

import errno


class EngineError(Exception):
    """Says what is missing or failed and how to mend it; the command line prints it alone."""


class ServerDiedError(EngineError):
    """Tritonserver ended by itself; the message carries its exit code and own error lines."""


SERVER_DIED = 3
"""The exit code of `engine serve` whose server has died."""


ADVICE = {
    errno.EACCES: "{file} is not for this user (permission denied); give it to this user, or "
    "choose another place",
    errno.EEXIST: "{file} is there already, and is no folder; remove it, or choose another place",
    errno.EISDIR: "{file} is a folder, where a file is to be; remove it, or choose another place",
    errno.ENOENT: "{file} is not there; check its path",
    errno.ENOSPC: "the disk is full; make room, or choose another place",
    errno.ENOTDIR: "{file} is a file or lies below one, where a folder is needed; check its path",
    errno.EROFS: "{file} lies on a disk that can only be read; choose another place",
}
ADVICE |= {errno.EPERM: ADVICE[errno.EACCES], errno.EDQUOT: ADVICE[errno.ENOSPC]}


def in_words(error: OSError) -> str:
    """Return what the system refused, as a sentence that names the file."""
    file = error.filename if error.filename2 is None else error.filename2
    words = ADVICE.get(error.errno or 0)
    if words is not None and (file is not None or "{file}" not in words):
        return words.format(file=file)
    reason = error.strerror or str(error)
    return reason if file is None else f"{file}: {reason}"
