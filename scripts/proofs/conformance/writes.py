"""Checks of writes: idempotency, read-your-writes, imports, deletion and erasure."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.conformance_run import ConformanceCheck, ConformanceRun
from proofs.conformance.dataset import Dataset, Message, draw_unit_vector, get_message_ids, list_differences

_TURNS = 10
_CONCURRENCY = 6


def _check_read_your_writes(run: ConformanceRun) -> Iterator[str]:
    dataset = Dataset(run.create_user("yours"), run.random, run.info.embedding_dimension)
    for turn in range(_TURNS):
        (message,) = dataset.create_messages([turn])
        token = run.write_messages([message]).write_token
        for name, actual in _read_with_token(run, dataset, f"no{turn}", token):
            if message.message_id not in actual:
                yield f"write {turn} is not visible to {name}"


def _read_with_token(run: ConformanceRun, dataset: Dataset, word: str, token: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each read, and the message ids that it returns with a write token."""
    user_id, query_vector = dataset.user_id, draw_unit_vector(run.random, dataset.dimension)
    yield "list", get_message_ids(run.list_messages(user_id, at_least=token))
    yield "lexical search", get_message_ids(entry for entry, _ in run.lexical_search(user_id, word, at_least=token))
    yield (
        "semantic search",
        get_message_ids(entry for entry, _ in run.semantic_search(user_id, query_vector, at_least=token)),
    )
    request = q.HybridSearchRequest(user_id=user_id, query_text=word, at_least=token)
    request.query_embedding.values.extend(query_vector)
    yield "hybrid search", get_message_ids(item.message for item in run.query.HybridSearch(request).items)


def _check_idempotent_writes(run: ConformanceRun) -> Iterator[str]:
    dataset = Dataset(run.create_user("once"), run.random, run.info.embedding_dimension)
    batch = dataset.create_messages(range(5))
    for message in batch:
        message.message_id = ""
    with ThreadPoolExecutor(_CONCURRENCY) as threads:
        replies = list(threads.map(lambda _: run.write_messages(batch, request_id="the request"), range(_CONCURRENCY)))
    if len({tuple(result.message_id for result in reply.results) for reply in replies}) != 1:
        yield "concurrent retries of one request were assigned different ids"
    yield from list_differences(
        "stored messages",
        sorted(item.content for item in run.list_messages(dataset.user_id)),
        sorted(item.content for item in batch),
    )


def _check_imports(run: ConformanceRun) -> Iterator[str]:
    dataset = Dataset(run.create_user("imported"), run.random, run.info.embedding_dimension)
    messages = dataset.create_messages(range(30))
    bad = Message(user_id=dataset.user_id, content=" ")
    stream = [
        i.ImportMessagesRequest(messages=batch)
        for batch in (messages[:10], [*messages[10:20], bad], messages[20:], messages[:5])
    ]
    reply = run.ingest.ImportMessages(iter(stream))
    if (reply.created, reply.unchanged, reply.rejected) != (30, 5, 1):
        yield f"created {reply.created}, unchanged {reply.unchanged}, rejected {reply.rejected}; expected 30, 5, 1"
    actual = get_message_ids(run.list_messages(dataset.user_id, at_least=reply.write_token))
    yield from list_differences("stored messages", actual, get_message_ids(dataset.list_newest_first()))


def _check_deletions(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("deleted", 40)
    deleted_ids = get_message_ids(dataset.messages[5:15])
    reply = run.delete_messages(dataset.user_id, message_ids=[*deleted_ids, "nobody"])
    dataset.remove_messages(lambda item: item.message_id in deleted_ids)
    if reply.deleted != len(deleted_ids) or list(reply.missing_message_ids) != ["nobody"]:
        yield f"{reply.deleted} deleted, {list(reply.missing_message_ids)} missing"
    yield from _compare_all_reads(run, dataset, reply.write_token, "after a deletion by ids")
    message_filter = message_pb2.Filter(conversation_id="c")
    removed = dataset.remove_messages(lambda item: item.conversation_id == "c")
    reply = run.delete_messages(dataset.user_id, filter=message_filter)
    if reply.deleted != len(removed):
        yield f"{reply.deleted} deleted by a filter, expected {len(removed)}"
    yield from _compare_all_reads(run, dataset, reply.write_token, "after a deletion by a filter")


def _compare_all_reads(run: ConformanceRun, dataset: Dataset, token: str, when: str) -> Iterator[str]:
    """Yield a line for each read that does not return exactly the dataset."""
    user_id, expected = dataset.user_id, get_message_ids(dataset.list_newest_first())
    everything = " OR ".join(f"no{number}" for number in range(40))
    query_vector = draw_unit_vector(run.random, dataset.dimension)
    yield from list_differences(f"list {when}", get_message_ids(run.list_messages(user_id)), expected)
    yield from list_differences(f"export {when}", get_message_ids(reversed(run.export_messages(user_id))), expected)
    words = get_message_ids(item for item, _ in run.lexical_search(user_id, everything, at_least=token))
    yield from list_differences(f"lexical search {when}", sorted(words), sorted(expected))
    meaning = get_message_ids(item for item, _ in run.semantic_search(user_id, query_vector, at_least=token))
    yield from list_differences(f"semantic search {when}", sorted(meaning), sorted(expected))
    if (count := run.count_messages(user_id)) != len(expected):
        yield f"count {when}: {count}, expected {len(expected)}"


def _check_erasure(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("erased", 40)
    reply = run.ingest.EraseUser(i.EraseUserRequest(user_id=dataset.user_id))
    everything = dataset.remove_messages(lambda _: True)
    if reply.deleted != len(everything):
        yield f"{reply.deleted} erased, expected {len(everything)}"
    yield from _compare_all_reads(run, dataset, reply.write_token, "after the erasure")
    actual = run.query.BatchGetMessages(
        q.BatchGetMessagesRequest(user_id=dataset.user_id, message_ids=get_message_ids(everything))
    )
    if actual.items:
        yield f"{len(actual.items)} erased messages are returned by id"
    token = run.write_messages(dataset.create_messages([1])).write_token
    yield from _compare_all_reads(run, dataset, token, "after the user has written again")


CHECKS = (
    ConformanceCheck("reads with a write token return the write", _check_read_your_writes),
    ConformanceCheck("concurrent retries of a request are stored once", _check_idempotent_writes),
    ConformanceCheck("an import reports rejected messages and stores the others", _check_imports),
    ConformanceCheck("deleted messages are absent from every read", _check_deletions),
    ConformanceCheck("an erased user is absent from every read and can write again", _check_erasure),
)
