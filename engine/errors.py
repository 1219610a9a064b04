"""What can go wrong while Triton is prepared, started or watched."""


class EngineError(Exception):
    """Says what is missing or failed and how to mend it; the command line prints it alone."""


class ServerDiedError(EngineError):
    """Tritonserver ended by itself; the message carries its exit code and own error lines."""
