"""Which of these tests can run at all."""

from __future__ import annotations

from importlib.util import find_spec

# The other environments have no torch: `make test-spark` and `make parity` run these.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
