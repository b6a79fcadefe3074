"""Comparison of step outcomes with the expectations of the scenario and with other clients."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ANYTHING: Final = "*"

Step = Mapping[str, Any]
Outcome = Mapping[str, Any]
"""The outcome of a step: `replies`, or `refused` with `code`, `reason`, `message` and `violations`.

Clients that call tools return `no_tool`, with the reason, for steps that no tool supports.
"""
NO_TOOL: Final = "no_tool"


def find_outcome_differences(step: Step, outcome: Outcome) -> Iterator[str]:
    """Yield the differences between an outcome and the expectation of its step."""
    if "refused" in step:
        yield from _find_error_differences(step["refused"], outcome)
    elif "refused" in outcome:
        yield f"unexpected error: {outcome['refused']}"
    else:
        yield from _find_reply_differences(step, outcome["replies"])


def _find_error_differences(expected: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    error = outcome.get("refused")
    if error is None:
        yield f"expected an error, got {outcome['replies']}"
        return
    for key in ("code", "reason"):
        if error[key] != expected[key]:
            yield f"{key}: expected {expected[key]}, got {error[key]}"
    if "violations" in expected and sorted(error["violations"]) != sorted(expected["violations"]):
        yield f"violations: expected {expected['violations']}, got {error['violations']}"


def _find_reply_differences(step: Step, replies: Sequence[object]) -> Iterator[str]:
    if "replies" in step:
        yield from find_value_differences(step["replies"], replies, "replies")
    for key, index in (("reply", 0), ("first", 0), ("last", -1)):
        if key in step:
            yield from find_value_differences(step[key], replies[index] if replies else None, key)


def find_value_differences(expected: object, actual: object, path: str) -> Iterator[str]:
    """Yield a line for each path at which a value differs from the expected value.

    In objects, only the expected fields are compared; null means that the field must be absent. Lists must have equal
    lengths. `*` matches any value that is present.
    """
    if expected is None or expected == ANYTHING:
        if (expected is None) != (actual is None):
            yield f"{path}: expected {expected!r}, got {actual!r}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            yield from find_value_differences(value, actual.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, value in enumerate(expected):
            yield from find_value_differences(value, actual[index], f"{path}[{index}]")
    elif expected != actual:
        yield f"{path}: expected {expected!r}, got {actual!r}"


_GENERATED_ID: Final = re.compile(r"m_[0-9A-Z]{26}")
_RUN_DEPENDENT: Final = frozenset(
    {
        *("writeToken", "nextCursor", "elapsed", "eraseTs", "expireTs", "purgeTs", "checkTs"),
        *("checkpoint", "pending", "reads"),
    }
)
"""Fields whose values differ between servers and runs."""
_TIME_DEPENDENT: Final = frozenset({"until"})
"""Fields of a recall that depend on the current time."""
_DIGITS: Final = 6
"""Significant digits of a 32-bit float that all clients print identically."""


def read_outcomes(file: Path) -> Sequence[Outcome]:
    """Read the outcomes that a client wrote, one line of JSON per step."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def find_client_disagreements(
    steps: Sequence[Step], first: Sequence[Outcome], second: Sequence[Outcome]
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield the name and both outcomes of each step at which two clients differ."""
    for step, item, other in zip(steps, first, second, strict=True):
        ignored = _RUN_DEPENDENT if _has_fixed_time(step) else _RUN_DEPENDENT | _TIME_DEPENDENT
        if _normalize_value(item, ignored) != _normalize_value(other, ignored):
            yield step["name"], item, other


def _has_fixed_time(step: Step) -> bool:
    """Return whether a step sets `now`; otherwise the server uses its clock."""
    request = step.get("request", {})
    return "now" in request.get("context", {})


def _normalize_value(value: object, ignored: frozenset[str]) -> object:
    if isinstance(value, Mapping):
        return {key: _normalize_value(item, ignored) for key, item in value.items() if key not in ignored}
    if isinstance(value, list):
        return [_normalize_value(item, ignored) for item in value]
    if isinstance(value, str):
        return _GENERATED_ID.sub("m_…", value)
    return _normalize_number(value)


def _normalize_number(value: object) -> object:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, int | float) and not isinstance(value, bool) else value
