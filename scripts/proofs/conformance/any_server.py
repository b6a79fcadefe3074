"""Conformance checks of a running server: the scenario with one caller, writes, reads and isolation of users."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator

import grpc

from proofs.conformance import isolation, reads, writes
from proofs.conformance.callers import ServerConnection
from proofs.conformance.conformance_run import CheckSkippedError, ConformanceCheck, ConformanceRun
from proofs.conformance.scenario import Scenario

_SHOWN = 5


def select_checks(only: str) -> Iterator[ConformanceCheck]:
    """Yield the checks whose name contains `only`."""
    all_checks: Iterable[ConformanceCheck] = (
        *Scenario().build_checks(),
        *writes.CHECKS,
        *reads.CHECKS,
        *isolation.CHECKS,
    )
    return (check for check in all_checks if only in check.name)


def run_checks(connection: ServerConnection, only: str, seed: int) -> int:
    """Run the checks whose name contains `only` and print the results; return 0 if all pass."""
    generator = random.Random(seed)  # noqa: S311 - repeatable, not secret
    with connection.open_channel() as channel:
        try:
            run = ConformanceRun(connection, channel, generator)
        except grpc.RpcError as error:
            print(f"the server is unavailable: {error.code().name}: {error.details()}")
            return 1
        try:
            failed = sum(_run_check(check, run) for check in select_checks(only))
        finally:
            run.erase_users()
    print(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


def _run_check(check: ConformanceCheck, run: ConformanceRun) -> bool:
    began = time.monotonic()
    try:
        faults = check.find_violations(run)
    except CheckSkippedError as reason:
        print(f"skipped   {check.name}: {reason}")
        return False
    print(f"{'FAILED' if faults else 'passed':8}  {check.name} ({time.monotonic() - began:.1f} s)", flush=True)
    for fault in faults[:_SHOWN]:
        print(f"          {fault}")
    return bool(faults)
