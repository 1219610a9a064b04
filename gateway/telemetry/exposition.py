"""Prometheus' text format, written where the figures come from and joined by family at a scrape.

prometheus_client writes it anew at each scrape, and gives counters without `_total` another name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric

ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """A metric's name, its type in the text format, and what it means."""

    name: str
    type: str
    help: str


class Lines:
    """Samples as lines of text, by family."""

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[Family, list[str]]] = {}

    def add(self, family: Family, value: float, **labels: str) -> None:
        """Add a sample of that family under its name."""
        self.add_sample(family, family.name, value, labels)

    def add_sample(self, family: Family, name: str, value: float, labels: dict[str, str]) -> None:
        """Add a sample that may have another name than its family, as a histogram's have."""
        text = ",".join(f'{key}="{word.translate(ESCAPES)}"' for key, word in labels.items())
        _, lines = self.by_name.setdefault(family.name, (family, []))
        number = floatToGoString(value)  # type: ignore[no-untyped-call]
        lines.append(f"{name}{{{text}}} {number}\n")

    def extend(self, others: Lines) -> None:
        """Add the samples of other families."""
        self.by_name.update(others.by_name)


def native_lines(page: str, prefixes: tuple[str, ...], *, replica: str) -> Lines:
    """Return those families of a metrics page, under their own names, with the label replica.

    Raises ValueError where the page is not in the text format.
    """
    lines = Lines()
    for metric in text_string_to_metric_families(page):
        if metric.name.startswith(prefixes):
            for family, name, value, labels in _samples(metric, page):
                own = {_renamed(key): word for key, word in labels.items()}
                lines.add_sample(family, name, value, own | {"replica": replica})
    return lines


def _samples(metric: Metric, page: str) -> Iterator[tuple[Family, str, float, dict[str, str]]]:
    # The parser takes `_total` from a counter's family and gives it to all of its samples.
    has_total = metric.type == "counter" and f"# TYPE {metric.name} " not in page
    name = f"{metric.name}_total" if has_total else metric.name
    kind = "untyped" if metric.type == "unknown" else metric.type
    family = Family(name, kind, metric.documentation)
    for sample in metric.samples:
        is_counter = metric.type == "counter"
        yield family, name if is_counter else sample.name, sample.value, dict(sample.labels)


def _renamed(label: str) -> str:
    """Return Prometheus' name for a label that is also the one who asks'."""
    return "exported_replica" if label == "replica" else label


def join(known: Sequence[Family], pages: Iterable[Lines]) -> bytes:
    """Return the text of these families, samples or not, and after them of all others.

    A family that pages describe differently has the first one's help, and no type if that differs.
    """
    families: dict[str, list[tuple[Family, list[str]]]]
    families = {family.name: [(family, [])] for family in known}
    for page in pages:
        for name, entry in page.by_name.items():
            families.setdefault(name, []).append(entry)
    return "".join(_text(entries) for entries in families.values()).encode()


def _text(entries: list[tuple[Family, list[str]]]) -> str:
    family = entries[0][0]
    kinds = {described.type for described, _ in entries}
    kind = family.type if len(kinds) == 1 else "untyped"
    words = family.help.translate(HELP_ESCAPES)
    head = f"# HELP {family.name} {words}\n# TYPE {family.name} {kind}\n"
    return head + "".join(line for _, lines in entries for line in lines)
