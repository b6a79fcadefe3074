"""What the rounds came to, ordeal by ordeal, as a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofs.problem import Problem, print_problems
from proofs.torture.arena import Arena


@dataclass(slots=True)
class Row:
    """All rounds of one ordeal."""

    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    recovery_s: list[float] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """Adds rounds up.

    Attributes:
        impossible: why an ordeal cannot happen, where no arena has been found yet in which it can.
    """

    rows: dict[str, Row] = field(default_factory=lambda: defaultdict(Row))
    impossible: dict[str, str] = field(default_factory=dict)
    _possible: set[str] = field(default_factory=set)

    def add(self, name: str, acknowledged: int, refused: int, recovery_s: float, problems: Sequence[Problem]) -> None:
        """Add a round."""
        row = self.rows[name]
        row.rounds += 1
        row.acknowledged += acknowledged
        row.refused += refused
        row.recovery_s.append(recovery_s)
        row.problems.update(problem.kind for problem in problems)

    def rounds_of(self, name: str) -> int:
        """Return how many rounds an ordeal had."""
        return self.rows[name].rounds if name in self.rows else 0

    def note(self, name: str, why_not: str) -> None:
        """Note that an ordeal can happen, or why it cannot here."""
        if not why_not:
            self._possible.add(name)
        self.impossible[name] = why_not

    def left_out(self) -> list[str]:
        """Say which ordeals have not happened, and why."""
        return [
            f"left out: {name}: {'its turn did not come' if name in self._possible else why}"
            for name, why in self.impossible.items()
            if name not in self.rows
        ]

    def report(self, arenas: Sequence[Arena], seed: int) -> None:
        """Print the table, what was left out and why, and what was found."""
        print("\n| ordeal | rounds | changes acknowledged | calls refused | all found again, s (longest) | problems |")
        print("|---|---|---|---|---|---|")
        for name, row in self.rows.items():
            kinds = ", ".join(f"{count} {kind}" for kind, count in row.problems.items()) or "0"
            longest = max(row.recovery_s)
            print(f"| {name} | {row.rounds} | {row.acknowledged} | {row.refused} | {longest:.1f} | {kinds} |")
        print(*self.left_out(), sep="\n")
        for arena in arenas:
            starts = f"{len(arena.start_s)} starts, the longest {max(arena.start_s, default=0):.1f} s"
            print(f"{arena.name}: {arena.acknowledged} changes acknowledged, {arena.stored} messages stored; {starts}")
        print(f"seed {seed}")
        print_problems([problem for arena in arenas for problem in arena.problems])
