"""Tests that no RPC returns messages of a victim, with any spelling of an id and any stolen token."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from identity.contract import fields_below
from isolation.assertions import findings_of
from isolation.fixtures import DIMENSION, TOPIC, Attacker, World
from isolation.request_builder import Values, filled

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.contract import METHODS, Metadata, RpcMethod
from proofs.finding import Finding
from proofs.grpc_transport import GrpcTransport

Call = tuple[Attacker, Message, Metadata]

SPELLINGS = (
    "{victim}", "b/{victim}", "/b/{victim}", "../b/{victim}", "a/../b/{victim}", "./{victim}", "b", "b/", "/", "..",
    "*", "%", "_", "", " ", "{victim} ", "{victim}\n", "\n{victim}", "{victim}\0", "{victim}\u200b", "{VICTIM}",
    "b\u2215{victim}", "b%2F{victim}", "b\\{victim}", "' OR 1=1 --", "x", "\U0001f525",
)  # fmt: skip
DAMAGED_TOKENS = 6
THREADS = 4

each_method = pytest.mark.parametrize("name", METHODS)
with_tokens = pytest.mark.parametrize(
    "name",
    [
        name
        for name, method in METHODS.items()
        if {"cursor", "at_least"} & {field.name for field in fields_below(method.descriptor.input_type)}
    ],
)


def values(world: World, user_id: str, cursor: str = "", at_least: str = "") -> Values:
    """Return values for every field of a request for messages of a user."""
    return {
        "user_id": user_id,
        "message_id": world.message_ids[0],
        "message_ids": world.message_ids,
        "retracts": world.message_ids,
        "messages": ...,
        "ts": Timestamp(seconds=7),
        "role": message_pb2.ROLE_USER,
        "content": "an attack",
        "query_text": TOPIC,
        "question": f"What do I like about {TOPIC}?",
        "recall": ...,
        "query_embedding": q.Embedding(values=[1.0] * DIMENSION),
        "cursor": cursor,
        "at_least": at_least,
        "include_trace": True,
        "explain": True,
        "include_relations": True,
    }


def spellings(world: World) -> Iterator[str]:
    """Yield ids that might resolve to victims with guessable ids."""
    guessable = [victim.user_id.removeprefix("b/") for victim in world.victims if "lin-" in victim.user_id]
    for victim in guessable:
        yield from (form.format(victim=victim, VICTIM=victim.upper()) for form in SPELLINGS)


def calls_by_name(world: World, method: RpcMethod) -> Iterator[Call]:
    """Request the attacker's own user, and victims in every spelling, alone and with the own id."""
    for attacker in world.attackers:
        others = spellings(world) if attacker.may_name_others else ()
        for user_id in (attacker.user_id, *others):
            named: Metadata = (("x-user-id-bin", user_id.encode()),)
            request = filled(method.request_type, values(world, user_id))
            yield attacker, request, (*attacker.metadata, *named)
            if attacker.may_name_others and attacker.user_id:
                yield attacker, request, (*attacker.metadata, ("x-user-id", attacker.user_id), *named)


def calls_with_tokens(world: World, method: RpcMethod) -> Iterator[Call]:
    """Send stolen, swapped and corrupted cursors and write tokens with the attacker's own id."""
    chance = random.Random(1)  # noqa: S311 - repeatable, not secret
    tokens = [*world.cursors[:4], world.write_tokens[0], world.write_tokens[-1]]
    pairs = [*((token, "") for token in tokens), *(("", token) for token in tokens)]
    for _ in range(DAMAGED_TOKENS):
        token = chance.choice(tokens)
        at = chance.randrange(len(token))
        pairs.append((token[:at] + chance.choice("AZaz09-_") + token[at + 1 :], token[: chance.randrange(len(token))]))
    for attacker in world.attackers:
        for cursor, at_least in pairs:
            request = filled(method.request_type, values(world, attacker.user_id, cursor, at_least))
            yield attacker, request, (*attacker.metadata, ("x-user-id", attacker.user_id))


def findings(world: World, method: RpcMethod, calls: Iterator[Call]) -> list[Finding]:
    """Make calls concurrently; return the problems in their outcomes."""
    with world.channel() as channel:
        transport = GrpcTransport(channel)

        def made(call: Call) -> list[Finding]:
            attacker, request, metadata = call
            outcome = transport.call(method, request.SerializeToString(), metadata)
            return list(findings_of(f"{method.name} by {attacker.name}: {request}", outcome, world.canaries))

        with ThreadPoolExecutor(THREADS) as threads:
            return [finding for call_findings in threads.map(made, calls) for finding in call_findings]


@each_method
def test_message_ids_of_other_users_return_nothing(world: World, name: str) -> None:
    before = world.messages_of_victims()
    assert findings(world, METHODS[name], calls_by_name(world, METHODS[name])) == []
    assert world.messages_of_victims() == before


@with_tokens
def test_stolen_and_damaged_cursors_return_nothing(world: World, name: str) -> None:
    assert world.cursors
    assert findings(world, METHODS[name], calls_with_tokens(world, METHODS[name])) == []
