"""Does a running server keep to the contract? `scripts/conformance --target HOST:PORT`.

It needs nothing but the address, and a key where the server wants one: with the scopes `ingest`, `query` and `recall`,
with `act-as` for recalls, with `admin` to list users. Several addresses are replicas of one server: the calls go to
them by turns, so what is written at one is read at another. It plays the scenario of all clients, and holds every read
against brute force over what it has written. All users are its own, with random names, and are erased at the end.

Prints a line for each check. Exits 1 if anything does not hold, and says what.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import grpc

from proofs.conformance import isolation, reads, searches, writes
from proofs.conformance.callers import Reached
from proofs.conformance.check import Check, LeftOutError
from proofs.conformance.scenario import Scenario
from proofs.conformance.world import World

_TOKEN = "NOMEMORY_API_KEY"  # noqa: S105 - the name of a variable
_SHOWN = 5


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target",
        nargs="+",
        required=True,
        help="HOST:PORT of the server, or of each replica; http://HOST:PORT: there over HTTP",
    )
    parser.add_argument("--token", default=os.environ.get(_TOKEN, ""), help=f"a key (default: that of {_TOKEN})")
    parser.add_argument("--tls-ca", type=Path, help="reach it over TLS, trusting these certificates (PEM)")
    parser.add_argument("--only", default="", help="only checks whose names have this in them")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is said")
    arguments = parser.parse_args(given)
    if not arguments.tls_ca and any(target.startswith("https:") for target in arguments.target):
        parser.error("https needs --tls-ca, the certificates to trust")
    return arguments


def checks(only: str) -> Iterator[Check]:
    """Yield all checks, or those with a word in their names."""
    everything: Iterable[Check] = (
        *Scenario().checks(),
        *writes.CHECKS,
        *reads.CHECKS,
        *searches.CHECKS,
        *isolation.CHECKS,
    )
    return (check for check in everything if only in check.name)


def main(given: Sequence[str] | None = None) -> int:
    """Run; return 0 if everything holds."""
    arguments = arguments_of(given)
    reached = Reached(arguments.target, arguments.token, arguments.tls_ca)
    draw = random.Random(arguments.seed)  # noqa: S311 - repeatable, not secret
    with reached.channel() as channel:
        try:
            world = World(reached, channel, draw)
        except grpc.RpcError as error:
            print(f"the server does not answer: {error.code().name}: {error.details()}")
            return 1
        try:
            failed = sum(_is_broken(check, world) for check in checks(arguments.only))
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


if __name__ == "__main__":
    sys.exit(main())
