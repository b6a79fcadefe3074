"""Tests that no RPC returns messages of a victim, with any spelling of an id and any stolen token."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
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

NAMES = ("{victim}", "b/{victim}")
SPELLINGS = (
    *NAMES, "/b/{victim}", "../b/{victim}", "a/../b/{victim}", "./{victim}", "b", "b/", "/", "..",
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


def spelled(world: World, forms: Sequence[str]) -> list[str]:
    """Return ids that might resolve to victims with guessable ids."""
    guessable = [victim.user_id.removeprefix("b/") for victim in world.victims if "lin-" in victim.user_id]
    ids = (form.format(victim=victim, VICTIM=victim.upper()) for victim in guessable for form in forms)
    return list(dict.fromkeys(ids))


def calls_by_name(world: World, method: RpcMethod) -> Iterator[Call]:
    """Request the attacker's own user and victims: in every spelling, and by name together with the own id.

    Callers whose credentials are rejected only use the names, because no id of theirs is read.
    """
    for attacker in world.attackers:
        own_id = attacker.user_id
        others = spelled(world, SPELLINGS if own_id else NAMES) if attacker.may_name_others else []
        attempts: list[tuple[str, Metadata]] = [(user_id, ()) for user_id in (own_id, *others)]
        if own_id and others:
            attempts += [(user_id, (("x-user-id", own_id),)) for user_id in (own_id, *spelled(world, NAMES))]
        for user_id, before in attempts:
            request = filled(method.request_type, values(world, user_id))
            yield attacker, request, (*attacker.metadata, *before, ("x-user-id-bin", user_id.encode()))


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
        own_id = attacker.user_id
        used_pairs = pairs if own_id else pairs[:1]  # as in `calls_by_name`
        requests = [filled(method.request_type, values(world, own_id, *pair)) for pair in used_pairs]
        for n, request in enumerate(requests):
            if request not in requests[:n]:  # most methods have only one of the two fields
                yield attacker, request, (*attacker.metadata, ("x-user-id", own_id))


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
