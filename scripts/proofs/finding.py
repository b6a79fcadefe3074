"""A violation that a proof found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation: its kind in a word, and what exactly."""

    kind: str
    what: str


def print_findings(findings: Sequence[Finding]) -> None:
    """Print how many there are of each kind, and the first of them."""
    if not findings:
        print("\nno findings")
        return
    kinds = Counter(finding.kind for finding in findings)
    print("\nFINDINGS: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for kind in kinds:
        for finding in [item for item in findings if item.kind == kind][:_SHOWN]:
            print(f"  {finding.kind}: {finding.what}")
