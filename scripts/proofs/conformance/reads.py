"""Reads by time, by id and by neighbourhood: what brute force gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import grpc

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.check import Check, refused
from proofs.conformance.talk import Admits, Message, Talk, differing, ids
from proofs.conformance.world import World

_SAID = 61
_PAGES = (1, 7, 60, 500)
_ROLE = message_pb2.ROLE_ASSISTANT


def _pages(world: World) -> Iterator[str]:
    talk, token = world.talk("pages", _SAID)
    for size in _PAGES:
        for order, wanted in (
            (q.LIST_ORDER_NEWEST_FIRST, talk.newest_first()),
            (q.LIST_ORDER_OLDEST_FIRST, talk.oldest_first()),
        ):
            got = world.listed(talk.user_id, size, order=order, at_least=token)
            yield from differing(f"pages of {size}, {q.ListOrder.Name(order)}", ids(got), ids(wanted))


def _contents(world: World) -> Iterator[str]:
    talk, _ = world.talk("contents", 20)
    for got, wanted in zip(world.listed(talk.user_id), talk.newest_first(), strict=True):
        bare = Message()
        bare.CopyFrom(wanted)
        bare.ClearField("embedding")
        got.ClearField("embedding")
        if got != bare:
            yield f"{wanted.message_id} came back as something else"


def _pages_while_writing(world: World) -> Iterator[str]:
    talk, _ = world.talk("meanwhile", 30)
    wanted, got = ids(talk.newest_first()), list[str]()
    for number, message in enumerate(world.listed(talk.user_id, 4)):
        got.append(message.message_id)
        if number % 4 == 0:
            world.write(talk.say([number]))
    yield from differing("a listing that had begun", got, wanted)
    yield from differing("the next one", ids(world.listed(talk.user_id)), ids(talk.newest_first()))


def narrowings(talk: Talk) -> Iterator[tuple[str, message_pb2.Filter, Admits]]:
    """Yield filters, with what each admits."""
    middle = talk.messages[len(talk.messages) // 2].ts.ToMicroseconds()
    later, earlier, both = message_pb2.Filter(), message_pb2.Filter(), message_pb2.Filter(role=_ROLE)
    later.time_range.since.FromMicroseconds(middle)
    earlier.time_range.until.FromMicroseconds(middle)
    both.time_range.CopyFrom(later.time_range)
    both.metadata["app"] = "a"
    yield "role", message_pb2.Filter(role=_ROLE), lambda one: one.role == _ROLE
    yield "conversation", message_pb2.Filter(conversation_id="c"), lambda one: one.conversation_id == "c"
    yield "metadata", message_pb2.Filter(metadata={"kind": "é"}), lambda one: one.metadata.get("kind") == "é"
    yield "since", later, lambda one: one.ts.ToMicroseconds() >= middle
    yield "until", earlier, lambda one: one.ts.ToMicroseconds() < middle
    yield (
        "all of them",
        both,
        lambda one: one.role == _ROLE and one.ts.ToMicroseconds() >= middle and one.metadata.get("app") == "a",
    )


def _filters(world: World) -> Iterator[str]:
    talk, _ = world.talk("filters", _SAID)
    for name, narrowed, admits in narrowings(talk):
        got = ids(world.listed(talk.user_id, 9, filter=narrowed))
        yield from differing(f"list by {name}", got, ids(talk.newest_first(admits)))
        exported = ids(world.exported(talk.user_id, filter=narrowed))
        yield from differing(f"export by {name}", exported, ids(talk.oldest_first(admits)))
        if (count := world.counted(talk.user_id, filter=narrowed)) != len(got):
            yield f"count by {name}: {count}, listed {len(got)}"


def _counts(world: World) -> Iterator[str]:
    talk, _ = world.talk("counts", _SAID)
    listed = list(world.listed(talk.user_id))
    if (count := world.counted(talk.user_id)) != len(listed):
        yield f"counted {count}, listed {len(listed)}"
    yield from differing("export", ids(world.exported(talk.user_id)), ids(reversed(listed)))
    page = world.query.ListConversations(q.ListConversationsRequest(user_id=talk.user_id))
    got = {one.conversation_id: one.message_count for one in page.conversations}
    wanted = Counter(one.conversation_id for one in talk.messages if one.conversation_id)
    if got != dict(wanted):
        yield f"conversations {got} in place of {dict(wanted)}"


def _by_id(world: World) -> Iterator[str]:
    talk, _ = world.talk("ids", 30)
    asked = ids(islice(talk.messages, 10))
    got = world.query.BatchGetMessages(
        q.BatchGetMessagesRequest(user_id=talk.user_id, message_ids=[*asked[:5], "nobody", *asked[5:]])
    )
    yield from differing("what was asked for", ids(got.items), asked)
    yield from differing("what is missing", list(got.missing_message_ids), ["nobody"])


def _neighbours(world: World) -> Iterator[str]:
    talk, _ = world.talk("neighbours", 40)
    everything = ids(talk.messages)
    for at in (0, 1, 20, 39):
        request = q.GetNeighborsRequest(user_id=talk.user_id, message_id=everything[at], before=3, after=4)
        got = world.query.GetNeighbors(request)
        yield from differing(f"around message {at}", ids(got.items), everything[max(0, at - 3) : at + 5])
        if ids(got.items)[got.anchor_index] != everything[at]:
            yield f"the anchor {at} is not where the reply says"


def _cursors(world: World) -> Iterator[str]:
    talk, _ = world.talk("cursors", 10)
    cursor = world.query.ListMessages(q.ListMessagesRequest(user_id=talk.user_id, page_size=3)).next_cursor
    other = message_pb2.Filter(role=_ROLE)
    for request in (
        q.ListMessagesRequest(user_id=talk.user_id, cursor=cursor, filter=other),
        q.ListMessagesRequest(user_id=talk.user_id, cursor=cursor[:-2]),
        q.ListMessagesRequest(user_id=world.new_user("another"), cursor=cursor),
    ):
        yield from refused(lambda asked=request: world.query.ListMessages(asked), grpc.StatusCode.INVALID_ARGUMENT)  # type: ignore[misc]


CHECKS = (
    Check("pages of every size, in both orders, are what brute force gives", _pages),
    Check("messages come back as they were written", _contents),
    Check("a listing that has begun does not change while others write", _pages_while_writing),
    Check("filters admit what brute force admits: list, export, count", _filters),
    Check("counts, lists, exports and conversations agree", _counts),
    Check("messages are found by their ids, and missing ones are named", _by_id),
    Check("neighbours are those that stand there", _neighbours),
    Check("cursors are bound to their user and query", _cursors),
)
