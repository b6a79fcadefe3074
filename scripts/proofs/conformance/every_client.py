"""Golden test of all clients, which compares their results with the scenario and with each other."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from proofs.conformance.client_runners import CLIENT_RUNNERS, SCENARIO, ClientRunError, ClientRunner
from proofs.conformance.expectation import NO_TOOL, Outcome, Step, find_client_disagreements, find_outcome_differences


def run_clients(names: Sequence[str]) -> int:
    """Run the scenario with the named clients and print the results; return 0 if all pass."""
    steps: Sequence[Step] = json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]
    with tempfile.TemporaryDirectory(prefix="nomemory-golden-") as work:
        return _run_and_compare_clients(
            [runner for runner in CLIENT_RUNNERS if runner.name in names], steps, Path(work)
        )


def _run_and_compare_clients(client_runners: Sequence[ClientRunner], steps: Sequence[Step], work: Path) -> int:
    reference: Sequence[Outcome] = ()
    failed = 0
    for runner in client_runners:
        if missing := runner.find_missing_programs():
            print(f"skipped: {runner.name}: not installed: {', '.join(missing)}", flush=True)
            continue
        began = time.monotonic()
        try:
            outcomes = runner.run_scenario(work)
        except ClientRunError as error:
            outcomes, errors = (), [str(error)]
        else:
            errors = [
                *_find_scenario_errors(runner, steps, outcomes),
                *_find_client_differences(runner, steps, outcomes, reference),
            ]
            reference = reference or (() if runner.by_tools else outcomes)
        failed += bool(errors)
        for error_text in errors:
            print(f"{runner.name}: {error_text}", file=sys.stderr, flush=True)
        result = f"{len(errors)} errors in" if errors else "passed:"
        skipped = _find_skipped_steps(steps, outcomes)
        executed = len(steps) - sum(map(len, skipped.values()))
        total = f" of {len(steps)}" if skipped else ""
        print(f"{runner.name}: {result} {executed}{total} steps, {time.monotonic() - began:.0f} s", flush=True)
        for reason, names in skipped.items():
            print(f"{runner.name}: skipped {len(names)}, {reason}: {'; '.join(names)}", flush=True)
    return 1 if failed else 0


def _find_skipped_steps(steps: Sequence[Step], outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the names of the steps that no MCP tool supports, by reason."""
    by_reason: dict[str, list[str]] = {}
    for step, outcome in zip(steps, outcomes, strict=False):
        if NO_TOOL in outcome:
            by_reason.setdefault(outcome[NO_TOOL], []).append(step["name"])
    return dict(sorted(by_reason.items()))


def _find_scenario_errors(runner: ClientRunner, steps: Sequence[Step], outcomes: Sequence[Outcome]) -> Iterator[str]:
    if len(outcomes) != len(steps):
        yield f"ran {len(outcomes)} of {len(steps)} steps"
        return
    for step, outcome in zip(steps, outcomes, strict=True):
        if not (runner.by_tools and NO_TOOL in outcome):
            yield from (
                f"{step['name']}: {difference}"
                for difference in find_outcome_differences(runner.select_checkable_expectations(step), outcome)
            )


def _find_client_differences(
    runner: ClientRunner, steps: Sequence[Step], outcomes: Sequence[Outcome], reference: Sequence[Outcome]
) -> Iterator[str]:
    if not reference or not len(reference) == len(outcomes) == len(steps):
        return
    executed = [
        (step, item, other) for step, item, other in zip(steps, outcomes, reference, strict=True) if NO_TOOL not in item
    ]
    visible = [runner.select_visible_outcome(step, other) for step, _, other in executed]
    for name, item, other in find_client_disagreements(
        [step for step, _, _ in executed], [item for _, item, _ in executed], visible
    ):
        yield f"{name}: got {json.dumps(item)}, another client {json.dumps(other)}"
