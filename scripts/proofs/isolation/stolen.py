"""Attacks with what was stolen or made up: cursors and write tokens of others; filters and masks that reach too far."""

from __future__ import annotations

import random
from collections.abc import Iterator

from google.protobuf.field_mask_pb2 import FieldMask

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation.contract import METHODS
from proofs.isolation.judge import Judge
from proofs.isolation.names import call, filled, values
from proofs.isolation.world import TOPIC, Attacker, World

_MASKS = (
    ["user_id"], ["embedding"], ["*"], ["content", "user_id", "metadata"], ["items.content"], ["metadata.*"], [""],
    ["content "],
    ["expire_ts", "name", "conversation_id"],
)  # fmt: skip
_FLIPS = 12


def attack_with_tokens(world: World, judge: Judge, share: float, seed: int) -> None:
    """Send stolen, damaged and swapped cursors and write tokens to every RPC; a share of all that, by chance."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for attacker in world.attackers:
        metadata = (*attacker.metadata, ("x-user-id", attacker.user_id))
        for name, method in METHODS.items():
            for cursor, at_least in _tokens(world, chance):
                if chance.random() >= share:
                    continue
                request = filled(method.request_type, values(world, attacker.user_id, cursor, at_least))
                call(name, world, request, metadata, judge, f"stolen tokens, by {attacker.name}")


def attack_with_filters(world: World, judge: Judge) -> None:
    """Read with filters that name what is the victims', and with masks that ask for too much."""
    for attacker in world.attackers:
        for narrowed in _filters(world):
            for request in _reads(attacker, narrowed):
                name = type(request).__name__.removesuffix("Request")
                call(name, world, request, attacker.metadata, judge, f"filters, by {attacker.name}")
        for paths in _MASKS:
            masked = q.ListMessagesRequest(user_id=attacker.user_id, return_fields=FieldMask(paths=paths))
            call("ListMessages", world, masked, attacker.metadata, judge, f"mask {paths}, by {attacker.name}")


def _tokens(world: World, chance: random.Random) -> Iterator[tuple[str, str]]:
    for token in [*world.cursors, *world.write_tokens]:
        yield token, ""
        yield "", token
    for _ in range(_FLIPS):
        token = chance.choice([*world.cursors, *world.write_tokens])
        at = chance.randrange(len(token))
        yield token[:at] + chance.choice("AZaz09-_") + token[at + 1 :], token[: chance.randrange(len(token))]


def _filters(world: World) -> Iterator[message_pb2.Filter]:
    # The words stand in for what an attacker guesses: a canary is never sent, or its echo would look like a leak.
    yield message_pb2.Filter(conversation_id="talk")
    yield message_pb2.Filter(metadata={"user_id": world.victims[0].user_id})
    yield message_pb2.Filter(metadata={"": ""})
    everything = message_pb2.Filter()
    everything.time_range.since.FromSeconds(-62_135_596_800)
    everything.time_range.until.FromSeconds(253_402_300_799)
    yield everything


def _reads(
    attacker: Attacker, narrowed: message_pb2.Filter
) -> Iterator[
    q.ListMessagesRequest
    | q.LexicalSearchRequest
    | q.HybridSearchRequest
    | q.CountMessagesRequest
    | q.ExportMessagesRequest
]:
    user_id = attacker.user_id
    yield q.ListMessagesRequest(user_id=user_id, filter=narrowed)
    yield q.LexicalSearchRequest(user_id=user_id, filter=narrowed, query_text=f'{TOPIC} OR "user_id:*" OR NOT x')
    yield q.HybridSearchRequest(user_id=user_id, filter=narrowed, query_text=TOPIC, explain=True)
    yield q.CountMessagesRequest(user_id=user_id, filter=narrowed)
    yield q.ExportMessagesRequest(user_id=user_id, filter=narrowed)
