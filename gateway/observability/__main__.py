"""Write the dashboards' JSON: `python -m gateway.observability [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from gateway.observability import listener, replicas

FOLDER = Path(__file__).parent / "grafana" / "dashboards"


def main(folder: Path) -> None:
    """Write each dashboard to a file of its name."""
    for name, build in (("listener", listener.build), ("replicas", replicas.build)):
        text = JSONEncoder(sort_keys=True, indent=2).encode(build())
        (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
