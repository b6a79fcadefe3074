"""What a proof finds wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not hold: its kind in a word, and what exactly, in words."""

    kind: str
    what: str


def print_problems(problems: Sequence[Problem]) -> None:
    """Print how many there are of each kind, and the first of them."""
    if not problems:
        print("\nno problems")
        return
    kinds = Counter(problem.kind for problem in problems)
    print("\nPROBLEMS: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for kind in kinds:
        for problem in [one for one in problems if one.kind == kind][:_SHOWN]:
            print(f"  {problem.kind}: {problem.what}")
