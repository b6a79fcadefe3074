"""What a client got, step by step, without what differs from run to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.expectation import Outcome, Step

_GENERATED_ID: Final = re.compile(r"m_[0-9A-Z]{26}")
_OF_THE_RUN: Final = frozenset(
    {
        *("writeToken", "nextCursor", "elapsed", "eraseTs", "expireTs", "checkedTs"),
        *("checkpoint", "pending", "reads"),
    }
)
"""Fields that differ from server to server, and from moment to moment."""
_DIGITS: Final = 6
"""What every language prints alike of a 32-bit float."""


def outcomes(file: Path) -> Sequence[Outcome]:
    """Read what a client wrote down: a line of JSON for each step."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def disagreements(
    steps: Sequence[Step], ours: Sequence[Outcome], theirs: Sequence[Outcome]
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield the steps at which two clients got something else, with what each got."""
    for step, one, other in zip(steps, ours, theirs, strict=True):
        if _comparable(one) != _comparable(other):
            yield step["name"], one, other


def _comparable(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _comparable(each) for key, each in value.items() if key not in _OF_THE_RUN}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, str):
        return _GENERATED_ID.sub("m_…", value)
    return _number(value)


def _number(value: object) -> object:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, int | float) and not isinstance(value, bool) else value
