"""Whether what others write moves what a user gets: every answer has to stay the same to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation.contract import METHODS
from proofs.isolation.judge import Judge
from proofs.isolation.world import BEGIN_S, TOPIC, Attacker, Victim, World

_FLOOD = 300
_QUERIES = (TOPIC, "火锅", f"too {TOPIC}", "What do I like?")

Requests = (
    q.ListMessagesRequest
    | q.LexicalSearchRequest
    | q.SemanticSearchRequest
    | q.HybridSearchRequest
    | q.GetNeighborsRequest
    | q.CountMessagesRequest
    | q.ListConversationsRequest
    | i.GetIndexStatusRequest
)


def attack_by_influence(world: World, judge: Judge) -> None:
    """Compare what each attacker gets before and after a victim has written much of the same."""
    world.plant_own()
    readers = [one for one in world.attackers if one.stored_as]
    flooder = world.victims[1]
    first, *rest = _flood(flooder)
    _write_and_wait(world, flooder, [first])  # what the attackers have written themselves is indexed, too, before that
    before = {one.name: _answers(world, one, judge) for one in readers}
    _write_and_wait(world, flooder, rest)
    for one in readers:
        for name, answer in _answers(world, one, judge).items():
            if answer != before[one.name][name]:
                judge.found("moved", f"{name} of {one.name} changed with what somebody else wrote")


def _answers(world: World, attacker: Attacker, judge: Judge) -> dict[str, bytes]:
    found = {}
    for n, request in enumerate(_requests(world, attacker.user_id)):
        name = type(request).__name__.removesuffix("Request")
        outcome = world.transport.call(METHODS[name], request.SerializeToString(), attacker.metadata)
        judge.see(f"{name} while others write, by {attacker.name}", outcome)
        if outcome.code is not grpc.StatusCode.OK:
            judge.found("refused", f"{name} of one's own, by {attacker.name}: {outcome.code.name}: {outcome.details}")
        found[f"{name}, request {n}"] = b"".join(_without_position(name, reply) for reply in outcome.replies)
    return found


def _without_position(name: str, reply: bytes) -> bytes:
    """Take out what moves by its nature: sealed tokens, and the log's own counters in the status."""
    if name == "GetIndexStatus":
        return str(i.GetIndexStatusResponse.FromString(reply).log.messages).encode()
    message = METHODS[name].reply_type.FromString(reply)
    if "next_cursor" in message.DESCRIPTOR.fields_by_name:
        message.ClearField("next_cursor")
    return message.SerializeToString(deterministic=True)


def _requests(world: World, user_id: str) -> Iterator[Requests]:
    yield q.ListMessagesRequest(user_id=user_id)
    yield q.GetNeighborsRequest(user_id=user_id, message_id="own-2", before=9, after=9)
    yield q.CountMessagesRequest(user_id=user_id)
    yield q.ListConversationsRequest(user_id=user_id)
    yield i.GetIndexStatusRequest(user_id=user_id)
    vector = q.Embedding(values=[1.0] * world.dimension)
    yield q.SemanticSearchRequest(user_id=user_id, query_embedding=vector)
    for query in _QUERIES:
        yield q.LexicalSearchRequest(user_id=user_id, query_text=query, highlight=q.HighlightOptions())
        yield q.HybridSearchRequest(
            user_id=user_id, query_text=query, query_embedding=vector, explain=True, relate=True
        )


def _flood(victim: Victim) -> Iterator[message_pb2.ChatMessage]:
    for n in range(_FLOOD):
        message = message_pb2.ChatMessage(
            user_id=victim.user_id,
            message_id=f"flood-{n}",
            role=message_pb2.ROLE_USER,
            content=f"I like {TOPIC}, too. 火锅 {victim.canary} {n}",
            retracts=["own-1", "own-2"],
        )
        message.ts.FromSeconds(BEGIN_S + n)
        yield message


def _write_and_wait(world: World, victim: Victim, messages: Sequence[message_pb2.ChatMessage]) -> None:
    """Write for a victim, and wait until both indexes have it and all that was written before."""
    token = world.write(messages)
    for read in ("LexicalSearch", "SemanticSearch"):
        _wait_for(world, victim, read, token)


def _wait_for(world: World, victim: Victim, read: str, token: str) -> None:
    request: q.LexicalSearchRequest | q.SemanticSearchRequest
    if read == "LexicalSearch":
        request = q.LexicalSearchRequest(user_id=victim.user_id, query_text=TOPIC, at_least=token)
    else:
        vector = q.Embedding(values=[1.0] * world.dimension)
        request = q.SemanticSearchRequest(user_id=victim.user_id, query_embedding=vector, at_least=token)
    world.transport.call(METHODS[read], request.SerializeToString(), world.owner, timeout_s=60)
