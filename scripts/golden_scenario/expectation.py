"""Whether what a client got is what a step of the scenario expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
