"""Attacks by names: every RPC is asked for a victim in every spelling, in requests and in metadata."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation.contract import METHODS, Metadata, Method
from proofs.isolation.judge import Judge
from proofs.isolation.world import TOPIC, Attacker, World

Values = Mapping[str, Any]
"""What to put into fields, by their names, wherever they stand; `...` fills what is inside."""

_SPELLINGS = (
    "{victim}", "b/{victim}", "/b/{victim}", "../b/{victim}", "a/../b/{victim}", "./{victim}", "b", "b/", "/", "..",
    "*", "%", "_", "", " ", "{victim} ", "{victim}\n", "\n{victim}", "{victim}\0", "{victim}\u200b", "{VICTIM}",
    "b\u2215{victim}", "b%2F{victim}", "b\\{victim}", "' OR 1=1 --", "x", "\U0001f525",
)  # fmt: skip


def attack_by_names(world: World, judge: Judge, share: float, seed: int) -> None:
    """Ask every RPC for victims under all spellings, as every attacker who may try; a share of all that, by chance."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for method, attacker, spelling in _attempts(world):
        if chance.random() >= share:
            continue
        for metadata in _named(attacker, spelling):
            request = filled(method.request_type, values(world, spelling))
            outcome = world.transport.call(method, request.SerializeToString(), metadata)
            judge.see(f"{method.name} for {spelling!r} by {attacker.name}", outcome)


def _attempts(world: World) -> Iterator[tuple[Method, Attacker, str]]:
    for attacker in world.attackers:
        names = spellings(world) if attacker.may_try_others else [attacker.user_id]
        yield from ((method, attacker, name) for method in METHODS.values() for name in names)


def spellings(world: World) -> list[str]:
    """Return names that might reach a victim. The canaries of those whose names are secret are not among them."""
    victims = [world.victims[0].user_id, *(one.user_id[2:] for one in world.victims if one.user_id.startswith("b/lin"))]
    return [form.format(victim=victim, VICTIM=victim.upper()) for victim in victims for form in _SPELLINGS]


def values(world: World, user_id: str, cursor: str = "", at_least: str = "") -> Values:
    """Return what to put into a request that asks for a user."""
    return {
        "user_id": user_id,
        "message_id": world.ids[0],
        "message_ids": world.ids,
        "retracts": world.ids,
        "messages": ...,
        "ts": Timestamp(seconds=7),
        "role": message_pb2.ROLE_USER,
        "content": "an attack",
        "query_text": TOPIC,
        "question": f"What do I like about {TOPIC}?",
        "recall": ...,
        "query_embedding": q.Embedding(values=[1.0] * world.dimension),
        "cursor": cursor,
        "at_least": at_least,
        "include_trace": True,
        "explain": True,
        "relate": True,
    }


def filled(request_type: type[Message], given: Values) -> Message:
    """Make a request: each field whose name has a value gets it."""
    request = request_type()
    for field in request.DESCRIPTOR.fields:
        if field.name in given and not (field.containing_oneof and request.WhichOneof(field.containing_oneof.name)):
            _fill(request, field, given)
    return request


def _fill(request: Message, field: Any, given: Values) -> None:  # noqa: ANN401 - either kind of descriptor
    value = given[field.name]
    if field.message_type is not None:
        inner = filled(GetMessageClass(field.message_type), given) if value is ... else value
        getattr(request, field.name).append(inner) if field.is_repeated else getattr(request, field.name).CopyFrom(
            inner
        )
    elif field.is_repeated:
        getattr(request, field.name).extend(value)
    elif isinstance(value, int | str):
        setattr(request, field.name, value)


def _named(attacker: Attacker, spelling: str) -> Iterator[Metadata]:
    """Give the credentials, alone and with the user named in metadata, beside the own and instead of it."""
    named = ("x-user-id-bin", spelling.encode())
    yield (*attacker.metadata, named)
    if attacker.may_try_others and attacker.user_id:
        yield (*attacker.metadata, ("x-user-id", attacker.user_id), named)


def call(method: str, world: World, request: Message, metadata: Metadata, judge: Judge, what: str) -> bytes:
    """Make a call that the judge sees; return all that it told."""
    outcome = world.transport.call(METHODS[method], request.SerializeToString(), metadata)
    judge.see(f"{method}: {what}", outcome)
    return outcome.told
