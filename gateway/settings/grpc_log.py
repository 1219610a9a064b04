"""Keeps gRPC's own lines off standard error, between ours: every error has its words in a log line.

gRPC reads its variable once, when it is imported, so import this one before; one that is set stays.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
