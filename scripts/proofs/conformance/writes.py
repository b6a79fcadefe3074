"""Writes: once, all or nothing, seen by whoever has their token, gone when they are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.dataset import Dataset, Message, differing, ids, vector
from proofs.conformance.world import Check, World

_TURNS = 10
_AT_ONCE = 6


def _read_your_writes(world: World) -> Iterator[str]:
    dataset = Dataset(world.new_user("yours"), world.random, world.info.embedding_dimension)
    for turn in range(_TURNS):
        (message,) = dataset.say([turn])
        token = world.write([message]).write_token
        for name, got in _seen(world, dataset, f"no{turn}", token):
            if message.message_id not in got:
                yield f"write {turn} is not seen by {name}"


def _seen(world: World, dataset: Dataset, word: str, token: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what each read finds that waits for a write."""
    user_id, asked = dataset.user_id, vector(world.random, dataset.dimension)
    yield "list", ids(world.listed(user_id, at_least=token))
    yield "words", ids(entry for entry, _ in world.found(user_id, word, at_least=token))
    yield "meaning", ids(entry for entry, _ in world.near(user_id, asked, at_least=token))
    request = q.HybridSearchRequest(user_id=user_id, query_text=word, at_least=token)
    request.query_embedding.values.extend(asked)
    yield "both", ids(item.message for item in world.query.HybridSearch(request).items)


def _once(world: World) -> Iterator[str]:
    dataset = Dataset(world.new_user("once"), world.random, world.info.embedding_dimension)
    batch = dataset.say(range(5))
    for message in batch:
        message.message_id = ""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        replies = list(threads.map(lambda _: world.write(batch, request_id="the request"), range(_AT_ONCE)))
    if len({tuple(result.message_id for result in reply.results) for reply in replies}) != 1:
        yield "one request, sent several times at once, got several sets of ids"
    yield from differing(
        "what is stored of it",
        sorted(item.content for item in world.listed(dataset.user_id)),
        sorted(item.content for item in batch),
    )


def _imported(world: World) -> Iterator[str]:
    dataset = Dataset(world.new_user("imported"), world.random, world.info.embedding_dimension)
    said = dataset.say(range(30))
    bad = Message(user_id=dataset.user_id, content=" ")
    stream = [i.ImportMessagesRequest(messages=part) for part in (said[:10], [*said[10:20], bad], said[20:], said[:5])]
    reply = world.ingest.ImportMessages(iter(stream))
    if (reply.created, reply.unchanged, reply.rejected) != (30, 5, 1):
        yield f"created {reply.created}, unchanged {reply.unchanged}, rejected {reply.rejected}; 30, 5, 1 are due"
    got = ids(world.listed(dataset.user_id, at_least=reply.write_token))
    yield from differing("what is stored", got, ids(dataset.newest_first()))


def _deleted(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("deleted", 40)
    gone = ids(dataset.messages[5:15])
    reply = world.delete(dataset.user_id, message_ids=[*gone, "nobody"])
    dataset.forget(lambda item: item.message_id in gone)
    if reply.deleted != len(gone) or list(reply.missing_message_ids) != ["nobody"]:
        yield f"{reply.deleted} deleted, {list(reply.missing_message_ids)} missing"
    yield from _holds(world, dataset, reply.write_token, "after a deletion by ids")
    narrowed = message_pb2.Filter(conversation_id="c")
    removed = dataset.forget(lambda item: item.conversation_id == "c")
    reply = world.delete(dataset.user_id, filter=narrowed)
    if reply.deleted != len(removed):
        yield f"{reply.deleted} deleted by a filter that admits {len(removed)}"
    yield from _holds(world, dataset, reply.write_token, "after a deletion by a filter")


def _holds(world: World, dataset: Dataset, token: str, when: str) -> Iterator[str]:
    """Say which read does not have exactly what the dataset has."""
    user_id, wanted = dataset.user_id, ids(dataset.newest_first())
    everything = " OR ".join(f"no{number}" for number in range(40))
    asked = vector(world.random, dataset.dimension)
    yield from differing(f"list {when}", ids(world.listed(user_id)), wanted)
    yield from differing(f"export {when}", ids(reversed(world.exported(user_id))), wanted)
    words = ids(item for item, _ in world.found(user_id, everything, at_least=token))
    yield from differing(f"words {when}", sorted(words), sorted(wanted))
    meaning = ids(item for item, _ in world.near(user_id, asked, at_least=token))
    yield from differing(f"meaning {when}", sorted(meaning), sorted(wanted))
    if (count := world.counted(user_id)) != len(wanted):
        yield f"count {when}: {count} in place of {len(wanted)}"


def _erased(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("erased", 40)
    reply = world.ingest.EraseUser(i.EraseUserRequest(user_id=dataset.user_id))
    everything = dataset.forget(lambda _: True)
    if reply.deleted != len(everything):
        yield f"{reply.deleted} erased of {len(everything)}"
    yield from _holds(world, dataset, reply.write_token, "after the erasure")
    got = world.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=dataset.user_id, message_ids=ids(everything)))
    if got.items:
        yield f"{len(got.items)} erased messages are found by their ids"
    token = world.write(dataset.say([1])).write_token
    yield from _holds(world, dataset, token, "after the user has begun anew")


CHECKS = (
    Check("a read with a write token sees the write: list, words, meaning, both", _read_your_writes),
    Check("a request that is sent several times at once is stored once", _once),
    Check("an import reports what it refuses and stores the rest", _imported),
    Check("what is deleted is gone from every read", _deleted),
    Check("whoever is erased is gone from every read, and may begin anew", _erased),
)
