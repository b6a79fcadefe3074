"""Does a server show anybody what is not theirs, or fall over what they send? `scripts/isolation --help`.

Victims get canaries in every field that has room for one. Attackers (a user with a token, another application in a
namespace of its own, a service for its own user, nobody, somebody with a wrong key) then try every RPC: names in every
spelling, stolen and damaged cursors and write tokens, filters and masks, recalls with instructions in everything, a
chat model on their side, time, what others write, requests drawn from the contract's descriptors, raw bytes on the
port.

Every reply and every refusal is searched for the canaries. INTERNAL, UNKNOWN, a hang or a lost connection is a problem,
too. Exits 1 if there is one, and says what. Without --target it attacks a server of its own. With it, give a key that
may ingest, query, recall and act-as; what is planted is erased at the end.
"""

from __future__ import annotations

import argparse
import random
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from proofs.isolation.contract import Metadata
from proofs.isolation.fuzzing import fuzz
from proofs.isolation.grpc_way import GRPC
from proofs.isolation.holding import Held, hold, plant_long_messages
from proofs.isolation.http_way import HTTP
from proofs.isolation.influence import attack_by_influence
from proofs.isolation.injection import attack_recall
from proofs.isolation.judge import Judge
from proofs.isolation.names import attack_by_names
from proofs.isolation.own_server import address, own_world
from proofs.isolation.raw_bytes import (
    FORGED_LOG_LINE,
    PATH_THAT_IS_NO_TEXT,
    attack_with_bytes,
    attack_with_damage,
)
from proofs.isolation.stolen import attack_with_filters, attack_with_tokens
from proofs.isolation.timing import Difference, attack_by_timing
from proofs.isolation.transport import Transport
from proofs.isolation.way import Form, Way
from proofs.isolation.world import Attacker, World, new_victims
from proofs.problem import print_problems
from proofs.subject import Subject

_TRANSPORTS = 4
_WAYS = {way.name: way for way in (GRPC, HTTP)}
_CHECKS, _CHECK_S = 3, 10.0
_PART = 25
"""Connections with damaged bytes between two looks whether the server still answers."""


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/isolation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--over", choices=_WAYS, default="grpc", help="what the calls go over (default grpc)")
    parser.add_argument("--target", default="", help="HOST:PORT of a server to attack (default: one of its own)")
    parser.add_argument("--token", default="", help="with --target: a key with ingest, query, recall and act-as")
    parser.add_argument("--user-token", default="", help="with --target: a user's token, of the user that --user names")
    parser.add_argument("--user", default="", help="with --user-token: whose it is; this user is erased at the end")
    parser.add_argument("--tls-ca", type=Path, help="with --target: reach it over TLS, trusting these certificates")
    parser.add_argument("--share", type=float, default=1.0, help="of the fixed attacks that are made (default 1: all)")
    parser.add_argument("--requests", type=int, default=5_000, help="requests that are drawn (default 5,000)")
    parser.add_argument(
        "--odd", type=int, default=5_000, help="with --over http: requests that are odd (default 5,000)"
    )
    parser.add_argument("--timings", type=int, default=200, help="calls of each kind that are timed (default 200)")
    parser.add_argument("--connections", type=int, default=100, help="connections that are held (default 100)")
    parser.add_argument("--raw", type=int, default=200, help="connections that get damaged bytes (default 200)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all chances")
    parser.add_argument("--keep", type=Path, help="where to keep the directory and the log of its own server")
    return parser.parse_args(given)


class Isolation:
    """One run."""

    def __init__(self, arguments: argparse.Namespace, world: World, target: str, subject: Subject | None) -> None:
        self._arguments = arguments
        self._world = world
        self._target = target
        self._subject = subject
        self._way: Way = _WAYS[arguments.over]
        self._again = ExitStack()
        self.judge = Judge(world.canaries)
        self.differences: list[Difference] = []
        self.held: list[Held] = []

    def run(self) -> None:
        """Attack in every way, then look what is left of the victims and of the server."""
        with self._again:
            self._run()

    def _run(self) -> None:
        world, judge = self._world, self.judge
        world.plant()
        before, pids = world.held_by_victims(), self._pids()
        for name, attack in self._attacks():
            began, calls = time.monotonic(), judge.calls
            attack()
            seconds = time.monotonic() - began
            _say(f"{name}: {judge.calls - calls} calls in {seconds:.0f} s, {len(judge.problems)} problems in all")
            if not self._answers():
                judge.found("crash", f"after the attack with {name} the server answers nobody")
                if self._subject is None:
                    return
                self._start_again(self._subject)
                pids = self._pids()
        if world.held_by_victims() != before:
            judge.found("altered", "the victims' messages are not what they were")
        attack_by_influence(world, judge)
        if self._pids() != pids:
            judge.found("crash", "a process of the server has died")
        self._hold()
        self._read_log()

    def _answers(self) -> bool:
        """Return whether the server answers who connects now."""
        with self._opened() as transport:
            return all(transport.is_healthy(_CHECK_S) for _ in range(_CHECKS))

    def _start_again(self, subject: Subject) -> None:
        subject.kill()
        subject.start()
        self._target = address(subject, self._way)
        self._world.transport = self._again.enter_context(self._opened())

    def _attacks(self) -> Iterator[tuple[str, Callable[[], None]]]:
        given, world, judge = self._arguments, self._world, self.judge
        yield "names", lambda: attack_by_names(world, judge, given.share, given.seed)
        yield "tokens", lambda: attack_with_tokens(world, judge, given.share, given.seed)
        yield "filters and masks", lambda: attack_with_filters(world, judge)
        yield "recalls", lambda: attack_recall(world, judge, given.share, given.seed)
        if given.timings:
            yield "time", lambda: self.differences.extend(attack_by_timing(world, judge, given.timings, given.seed))
        if given.raw:
            yield "raw bytes", lambda: attack_with_bytes(self._target, self._forms(1), judge, _is_text)
            yield PATH_THAT_IS_NO_TEXT, lambda: attack_with_bytes(self._target, self._forms(1), judge, _is_no_text)
        for part in range(0, given.raw, _PART):
            seed = given.seed + part
            yield f"damaged bytes, seed {seed}", partial(self._damage, seed)
        yield "drawn requests", self._fuzz
        if drawn := self._way.drawn:
            yield "odd requests", lambda: drawn(self._target, world, judge, given.odd, given.seed)

    def _forms(self, seed: int) -> Sequence[Form]:
        return list(self._way.forms(self._target, self._world, random.Random(seed)))  # noqa: S311 - not secret

    def _damage(self, seed: int) -> None:
        attack_with_damage(self._target, self._forms(seed), self.judge, _PART, seed)

    def _fuzz(self) -> None:
        with ExitStack() as stack:
            transports = [stack.enter_context(self._opened()) for _ in range(_TRANSPORTS)]
            fuzz(self._world, self.judge, transports, self._arguments.requests, self._arguments.seed)

    def _opened(self) -> AbstractContextManager[Transport]:
        return self._way.open(self._target, self._arguments.tls_ca)

    def _hold(self) -> None:
        """Hold connections last. What they cost is a figure; that others get no answer is a problem."""
        connections, world = self._arguments.connections, self._world
        if not connections:
            return
        reader = next(one for one in world.attackers if one.stored_as)
        plant_long_messages(world, reader)
        for name, begin in self._way.holds(self._target, reader.metadata, reader).items():
            held = hold(name, begin, self._target, world, self._subject, connections)
            self.held.append(held)
            if held.health_ms is None or held.list_ms is None:
                self.judge.found("starved", f"others got no answer while there were {name}")

    def _pids(self) -> object:
        return self._subject.processes() if self._subject else None

    def _read_log(self) -> None:
        """Look through the server's own log: nothing of the victims, no line that somebody else wrote."""
        if self._subject is None:
            return
        log = self._subject.log.read_bytes()
        self.judge.see_bytes("the server's log", log)
        if any(line.startswith(FORGED_LOG_LINE.encode()) for line in log.splitlines()):
            self.judge.found("forged", "a line of the log was written by a caller")
        if b"Traceback" in log:
            self.judge.found("traceback", f"in the server's log, {self._subject.log}")


def print_report(isolation: Isolation, seed: int) -> None:
    """Print what was sent, what time told, what held connections did, and what was found."""
    codes = ", ".join(f"{name} {count}" for name, count in isolation.judge.codes.most_common())
    print(f"\n{isolation.judge.calls} calls: {codes}\nseed {seed}")
    print("\n| timed: what is there against what is nowhere | took longer | p |\n|---|---|---|")
    for one in isolation.differences:
        print(f"| {one.name} | {one.share:.1%} | {one.probability:.2g} |")
    print("\n| held | connections | kept | memory before → most, MB | others' health ms | others' list ms | refused |")
    print("|---|---|---|---|---|---|---|")
    for held in isolation.held:
        memory = f"{held.rss_mb[0]:.0f} → {held.rss_mb[1]:.0f}" if held.rss_mb else "not ours"
        health, listing = (f"{one:.0f}" if one is not None else "no answer" for one in (held.health_ms, held.list_ms))
        print(
            f"| {held.name} | {held.connections} | {held.accepted} | {memory} | {health} | {listing} | {held.refused} |"
        )
    print_problems(isolation.judge.problems)


@contextmanager
def _remote_world(arguments: argparse.Namespace) -> Iterator[World]:
    """Use a server that runs, as a trusted service and as the user whose token is given."""
    owner = _bearer(arguments.token)
    own = f"trudy-{secrets.token_hex(4)}"
    attackers = [
        Attacker("a service for its own user", owner, own, may_try_others=False, stored_as=own),
        Attacker("nobody", (), "", may_try_others=True),
        Attacker("somebody with a wrong key", _bearer(f"nm_{'0' * 12}_{'A' * 43}"), "", may_try_others=True),
    ]
    if arguments.user_token:
        user = arguments.user
        bearer = _bearer(arguments.user_token)
        attackers.insert(0, Attacker("a user with a token", bearer, user, may_try_others=True, stored_as=user))
    else:
        print("left out: a user with a token: needs --user-token and --user")
    print("left out: another application: it needs a server of its own (run without --target)")
    with _WAYS[arguments.over].open(arguments.target, arguments.tls_ca) as transport:
        world = World(transport, owner, attackers, new_victims(4))
        try:
            yield world
        finally:
            world.erase()


def _is_no_text(form: str) -> bool:
    return form == PATH_THAT_IS_NO_TEXT


def _is_text(form: str) -> bool:
    return form != PATH_THAT_IS_NO_TEXT


def _bearer(credential: str) -> Metadata:
    return (("authorization", f"Bearer {credential}"),)


def _say(what: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def _allow_connections(wanted: int) -> None:
    """Raise the limit on descriptors as far as it goes: every connection takes one, here and in the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, wanted + 500)), hard))


def main(given: Sequence[str] | None = None) -> int:
    """Run; return 0 if nothing was found."""
    arguments = arguments_of(given)
    _allow_connections(arguments.connections)
    with ExitStack() as stack:
        if arguments.target:
            isolation = Isolation(arguments, stack.enter_context(_remote_world(arguments)), arguments.target, None)
        else:
            root = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isolation-")))
            root.mkdir(parents=True, exist_ok=True)
            way = _WAYS[arguments.over]
            world, subject = stack.enter_context(own_world(root, {}, way))
            isolation = Isolation(arguments, world, address(subject, way), subject)
        isolation.run()
        print_report(isolation, arguments.seed)
    return 1 if isolation.judge.problems else 0


if __name__ == "__main__":
    sys.exit(main())
