"""What a step of the scenario expects, and whether what a client got is that, and what other clients got."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ANYTHING: Final = "*"

Step = Mapping[str, Any]
Outcome = Mapping[str, Any]
"""What a client wrote down of a step: `replies`, or `refused` with `code`, `reason`, `message` and `violations`.

One that calls tools writes down `no_tool`, and what is missing, where no tool can take a step.
"""
NO_TOOL: Final = "no_tool"


def faults(step: Step, outcome: Outcome) -> Iterator[str]:
    """Yield what differs; nothing: the step went as expected."""
    if "refused" in step:
        yield from _refusal_faults(step["refused"], outcome)
    elif "refused" in outcome:
        yield f"was refused: {outcome['refused']}"
    else:
        yield from _reply_faults(step, outcome["replies"])


def _refusal_faults(expected: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    got = outcome.get("refused")
    if got is None:
        yield f"was not refused: {outcome['replies']}"
        return
    for key in ("code", "reason"):
        if got[key] != expected[key]:
            yield f"{key} is {got[key]}, not {expected[key]}"
    if "violations" in expected and sorted(got["violations"]) != sorted(expected["violations"]):
        yield f"the violations are {got['violations']}, not {expected['violations']}"


def _reply_faults(step: Step, replies: Sequence[object]) -> Iterator[str]:
    if "replies" in step:
        yield from differences(step["replies"], replies, "replies")
    for key, place in (("reply", 0), ("first", 0), ("last", -1)):
        if key in step:
            yield from differences(step[key], replies[place] if replies else None, key)


def differences(expected: object, got: object, path: str) -> Iterator[str]:
    """Yield where a value lacks what is expected of it.

    Of an object only the named fields count, and null means that a field is absent. A list has to be as long as the
    expected one. `*` stands for anything that is there.
    """
    if expected is None or expected == ANYTHING:
        if (expected is None) != (got is None):
            yield f"{path} is {got!r}, expected {expected!r}"
    elif isinstance(expected, dict) and isinstance(got, dict):
        for key, value in expected.items():
            yield from differences(value, got.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for place, value in enumerate(expected):
            yield from differences(value, got[place], f"{path}[{place}]")
    elif expected != got:
        yield f"{path} is {got!r}, expected {expected!r}"


_GENERATED_ID: Final = re.compile(r"m_[0-9A-Z]{26}")
_OF_THE_RUN: Final = frozenset(
    {
        *("writeToken", "nextCursor", "elapsed", "eraseTs", "expireTs", "purgeTs", "checkTs"),
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
    for step, item, other in zip(steps, ours, theirs, strict=True):
        ignored = _OF_THE_RUN if _says_when(step) else _OF_THE_RUN | _OF_THE_CLOCK
        if _comparable(item, ignored) != _comparable(other, ignored):
            yield step["name"], item, other


def _says_when(step: Step) -> bool:
    """Return whether a step says what time it is. Else the server's clock does."""
    request = step.get("request", {})
    return "now" in request.get("context", {})


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
