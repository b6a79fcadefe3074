"""Findings: violations of a guarantee that a verification tool detects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A detected violation of a guarantee."""

    kind: str
    description: str


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the number of findings by kind, and the first 20 findings of each kind."""
    if not findings:
        print("\nno findings")
        return
    kinds = Counter(finding.kind for finding in findings)
    print("\nFINDINGS: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for kind in kinds:
        for finding in [item for item in findings if item.kind == kind][:_SHOWN]:
            print(f"  {finding.kind}: {finding.description}")
