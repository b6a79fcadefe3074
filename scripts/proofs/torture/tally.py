"""Aggregated results of all rounds by fault."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofs.finding import Finding, print_findings
from proofs.torture.harness import Harness


@dataclass(slots=True)
class FaultResults:
    """The results of all rounds of one fault."""

    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    recovery_s: list[float] = field(default_factory=list)
    findings: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """The results of the torture test by fault.

    Attributes:
        rows: results by fault name.
        unsupported: the reason why the latest harness does not support a fault, by fault name; empty if it does.
    """

    rows: dict[str, FaultResults] = field(default_factory=lambda: defaultdict(FaultResults))
    unsupported: dict[str, str] = field(default_factory=dict)
    _possible: set[str] = field(default_factory=set)

    def add_round(
        self, name: str, acknowledged: int, refused: int, recovery_s: float, findings: Sequence[Finding]
    ) -> None:
        """Add the results of a round."""
        row = self.rows[name]
        row.rounds += 1
        row.acknowledged += acknowledged
        row.refused += refused
        row.recovery_s.append(recovery_s)
        row.findings.update(finding.kind for finding in findings)

    def count_rounds(self, name: str) -> int:
        """Return the number of rounds of a fault."""
        return self.rows[name].rounds if name in self.rows else 0

    def record_support(self, name: str, unsupported_reason: str) -> None:
        """Record why a harness does not support a fault; an empty reason means that the harness supports it."""
        if not unsupported_reason:
            self._possible.add(name)
        self.unsupported[name] = unsupported_reason

    def list_skipped(self) -> list[str]:
        """Return a line with the reason for each fault that was not injected."""
        return [
            f"skipped: {name}: {'not enough rounds' if name in self._possible else why}"
            for name, why in self.unsupported.items()
            if name not in self.rows
        ]

    def print_report(self, harnesses: Sequence[Harness], seed: int) -> None:
        """Print the results, the skipped faults, and the findings."""
        print("\n| fault | rounds | changes acknowledged | calls refused | verification, s (longest) | findings |")
        print("|---|---|---|---|---|---|")
        for name, row in self.rows.items():
            kinds = ", ".join(f"{count} {kind}" for kind, count in row.findings.items()) or "0"
            longest = max(row.recovery_s)
            print(f"| {name} | {row.rounds} | {row.acknowledged} | {row.refused} | {longest:.1f} | {kinds} |")
        print(*self.list_skipped(), sep="\n")
        for harness in harnesses:
            starts = f"{len(harness.start_s)} starts, longest {max(harness.start_s, default=0):.1f} s"
            changes = f"{harness.acknowledged_changes} changes acknowledged, {harness.stored_messages} messages stored"
            print(f"{harness.name}: {changes}; {starts}")
        print(f"seed {seed}")
        print_findings([finding for harness in harnesses for finding in harness.findings])
