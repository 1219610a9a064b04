"""Imports gRPC so that it prints nothing: what it would print is in its errors, too.

It reads the variable while it is imported. Programs that are started from here do not inherit it,
since a Triton's own lines are wanted.
"""

import os

VERBOSITY = "GRPC_VERBOSITY"

if VERBOSITY not in os.environ:
    os.environ[VERBOSITY] = "NONE"
    import grpc  # noqa: F401

    del os.environ[VERBOSITY]
