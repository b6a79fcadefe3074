"""A server that runs already: the scenario by one caller, and every read against brute force over what was written."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator

import grpc

from proofs.conformance import isolation, reads, writes
from proofs.conformance.callers import Reached
from proofs.conformance.scenario import Scenario
from proofs.conformance.world import Check, LeftOutError, World

_SHOWN = 5


def checks(only: str) -> Iterator[Check]:
    """Yield all checks, or those with a word in their names."""
    everything: Iterable[Check] = (
        *Scenario().checks(),
        *writes.CHECKS,
        *reads.CHECKS,
        *isolation.CHECKS,
    )
    return (check for check in everything if only in check.name)


def play(reached: Reached, only: str, seed: int) -> int:
    """Try every check whose name has a word in it, and say what holds; return 0 if everything does."""
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    with reached.channel() as channel:
        try:
            world = World(reached, channel, draw)
        except grpc.RpcError as error:
            print(f"the server does not answer: {error.code().name}: {error.details()}")
            return 1
        try:
            failed = sum(_is_broken(check, world) for check in checks(only))
        finally:
            world.erase()
    print(f"{failed} checks failed" if failed else "everything holds")
    return 1 if failed else 0


def _is_broken(check: Check, world: World) -> bool:
    began = time.monotonic()
    try:
        faults = check.faults(world)
    except LeftOutError as why:
        print(f"left out  {check.name}: {why}")
        return False
    print(f"{'FAILED' if faults else 'holds':8}  {check.name} ({time.monotonic() - began:.1f} s)", flush=True)
    for fault in faults[:_SHOWN]:
        print(f"          {fault}")
    return bool(faults)
