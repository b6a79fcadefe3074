"""Structured fuzzing: requests drawn from the descriptors, for every RPC, from every attacker."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proofs.isolation.contract import METHODS, Metadata
from proofs.isolation.drawing import Drawing
from proofs.isolation.judge import Judge
from proofs.isolation.transport import Transport
from proofs.isolation.world import TOPIC, Attacker, World

_THREADS = 8
_QUERIES = (
    TOPIC,
    "火锅",
    "What do I like?",
    "我喜欢什么？",
    f'"{TOPIC}" AND NOT 火锅',
    "yesterday",
    "我上个月说了什么",
)


def fuzz(world: World, judge: Judge, transports: Sequence[Transport], requests: int, seed: int) -> None:
    """Send so many requests; the judge sees what comes of them. Each thread's requests follow from its seed."""
    shares = [requests // _THREADS + (n < requests % _THREADS) for n in range(_THREADS)]

    def work(n: int) -> None:
        _fuzz(world, judge, transports[n % len(transports)], shares[n], seed + n)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(work, range(_THREADS)))


def values(world: World, attacker: Attacker) -> Mapping[str, Sequence[Any]]:
    """Return what an attacker puts into fields, by their names: their own, what they stole, what they guess."""
    victims = [world.victims[0].user_id, "b/mallory", "a/mallory", "../b/lin"] if attacker.may_try_others else []
    own = [attacker.user_id] * 4
    return {
        "user_id": [*own, *victims],
        "message_id": ["own-0", "own-1", *world.ids],
        "message_ids": ["own-0", "own-1", *world.ids],
        "retracts": ["own-0", "own-1", *world.ids],
        "query_text": _QUERIES,
        "question": _QUERIES,
        "cursor": ["", *world.cursors],
        "at_least": ["", *world.write_tokens],
        "conversation_id": ["", "own", "talk"],
        "skill": [
            "",
            "nomemory-recall-default",
            "../../../etc",
            "/etc/passwd",
            "x" * 300,
            "nomemory-recall-default/..",
        ],
        "time_zone": ["", "UTC", "Asia/Shanghai", "../../../etc/passwd", "/etc/localtime", "posixrules", "\x00"],
        "paths": ["content", "user_id", "message_id", "embedding", "*", "content.x", "", "metadata", "a" * 300],
    }


def _fuzz(world: World, judge: Judge, transport: Transport, requests: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    drawings = [_drawing(world, attacker, chance) for attacker in world.attackers]
    methods = list(METHODS.values())
    for n in range(requests):
        at = _one_of(len(drawings), chance)
        method, attacker = chance.choice(methods), world.attackers[at]
        request = drawings[at].request(method.descriptor.input_type)
        outcome = transport.call(method, request, _metadata(attacker, world, chance))
        judge.see(f"fuzzing, thread's seed {seed}, request {n}: {method.name} by {attacker.name}", outcome)


def _drawing(world: World, attacker: Attacker, chance: random.Random) -> Drawing:
    """Let a service, which may write for anybody, draw nothing but its own user: all that is erased at the end."""
    held = frozenset() if attacker.may_try_others else frozenset({"user_id"})
    return Drawing(chance, values(world, attacker), world.dimension, held)


def _one_of(attackers: int, chance: random.Random) -> int:
    """Choose an attacker; the first ones, who are let in, more often than the others."""
    return min(chance.randrange(attackers), chance.randrange(attackers), chance.randrange(attackers))


def _metadata(attacker: Attacker, world: World, chance: random.Random) -> Metadata:
    """Add to the credentials what names a user, rightly or not."""
    own, victim = attacker.user_id, world.victims[0].user_id
    named: list[Metadata] = [(("x-user-id", own),), (("x-user-id-bin", own.encode()),), ()]
    if attacker.may_try_others:
        named += [(("x-user-id", victim),), (("x-user-id", own), ("x-user-id", victim)), (("x-user-id-bin", b"\xff"),)]
    asked: Metadata = (
        (("x-request-id", chance.choice(("", "a b", "x" * 500, '{"a": 1}'))),) if chance.random() < _ODD else ()
    )
    return (*attacker.metadata, *chance.choice(named), *asked)


_ODD = 0.1
"""How often the request id is odd."""
