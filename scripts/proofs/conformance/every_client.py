"""Every client against a server of its own: what it got is held against the scenario, and against the other clients."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from proofs.conformance.client_runners import CLIENT_RUNNERS, SCENARIO, ClientRunner, PlayError
from proofs.conformance.expectation import NO_TOOL, Outcome, Step, disagreements, faults


def play(names: Sequence[str]) -> int:
    """Play with the clients of these names, and say how they did; return 0 if all went as expected."""
    steps: Sequence[Step] = json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]
    with tempfile.TemporaryDirectory(prefix="nomemory-golden-") as work:
        return _play([runner for runner in CLIENT_RUNNERS if runner.name in names], steps, Path(work))


def _play(client_runners: Sequence[ClientRunner], steps: Sequence[Step], work: Path) -> int:
    reference: Sequence[Outcome] = ()
    failed = 0
    for runner in client_runners:
        if missing := runner.missing():
            print(f"{runner.name}: skipped, there is no {' and no '.join(missing)}", flush=True)
            continue
        began = time.monotonic()
        try:
            got = runner.played(work)
        except PlayError as error:
            got, troubles = (), [str(error)]
        else:
            troubles = [*_against_the_scenario(runner, steps, got), *_against_another(runner, steps, got, reference)]
            reference = reference or (() if runner.by_tools else got)
        failed += bool(troubles)
        for trouble in troubles:
            print(f"{runner.name}: {trouble}", file=sys.stderr, flush=True)
        told = f"{len(troubles)} faults in" if troubles else "as expected:"
        left_out = _left_out(steps, got)
        taken = len(steps) - sum(map(len, left_out.values()))
        of_all = f" of {len(steps)}" if left_out else ""
        print(f"{runner.name}: {told} {taken}{of_all} steps, {time.monotonic() - began:.0f} s", flush=True)
        for why, names in left_out.items():
            print(f"{runner.name}: left out {len(names)}, {why}: {'; '.join(names)}", flush=True)
    return 1 if failed else 0


def _left_out(steps: Sequence[Step], got: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the names of the steps that no tool can take, by what is missing."""
    found: dict[str, list[str]] = {}
    for step, outcome in zip(steps, got, strict=False):
        if NO_TOOL in outcome:
            found.setdefault(outcome[NO_TOOL], []).append(step["name"])
    return dict(sorted(found.items()))


def _against_the_scenario(runner: ClientRunner, steps: Sequence[Step], got: Sequence[Outcome]) -> Iterator[str]:
    if len(got) != len(steps):
        yield f"played {len(got)} of {len(steps)} steps"
        return
    for step, outcome in zip(steps, got, strict=True):
        if not (runner.by_tools and NO_TOOL in outcome):
            yield from (f"{step['name']}: {fault}" for fault in faults(runner.expected(step), outcome))


def _against_another(
    runner: ClientRunner, steps: Sequence[Step], got: Sequence[Outcome], reference: Sequence[Outcome]
) -> Iterator[str]:
    if not reference or not len(reference) == len(got) == len(steps):
        return
    taken = [
        (step, item, other) for step, item, other in zip(steps, got, reference, strict=True) if NO_TOOL not in item
    ]
    seen = [runner.seen(step, other) for step, _, other in taken]
    for name, item, other in disagreements([step for step, _, _ in taken], [item for _, item, _ in taken], seen):
        yield f"{name}: got {json.dumps(item)}, another client {json.dumps(other)}"
