"""What a client got, step by step, without what differs from run to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from golden_scenario.expectation import Outcome, Step

_GENERATED_ID: Final = re.compile(r"m_[0-9A-Z]{26}")
_OF_THE_RUN: Final = frozenset(
    {
        *("writeToken", "nextCursor", "elapsed", "eraseTs", "expireTs", "checkedTs"),
        *("checkpoint", "pending", "reads"),
    }
)
"""Fields that differ from server to server, and from moment to moment."""
_OF_THE_CLOCK: Final = frozenset({"until"})
"""Fields of a recall that differ with the time at which it is made."""
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
        ignored = _OF_THE_RUN if _says_when(step) else _OF_THE_RUN | _OF_THE_CLOCK
        if _comparable(one, ignored) != _comparable(other, ignored):
            yield step["name"], one, other


def _says_when(step: Step) -> bool:
    """Return whether a step says what time it is. Else the server's clock does."""
    request = step.get("request", {})
    return "now" in request.get("recall", request).get("context", {})


def _comparable(value: object, ignored: frozenset[str]) -> object:
    if isinstance(value, Mapping):
        return {key: _comparable(each, ignored) for key, each in value.items() if key not in ignored}
    if isinstance(value, list):
        return [_comparable(each, ignored) for each in value]
    if isinstance(value, str):
        return _GENERATED_ID.sub("m_…", value)
    return _number(value)


def _number(value: object) -> object:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, int | float) and not isinstance(value, bool) else value
