"""Isolation checks: messages of another user with the same words do not affect reads, counts or rankings."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.conformance_run import CheckSkippedError, ConformanceCheck, ConformanceRun, expect_error
from proofs.conformance.dataset import WORDS, Dataset, draw_unit_vector, get_message_ids, list_differences


def _check_foreign_messages(run: ConformanceRun) -> Iterator[str]:
    (first, token), (other, _) = run.write_dataset("one", 40), run.write_dataset("other", 40)
    own_ids, query_vector = set(get_message_ids(first.messages)), draw_unit_vector(run.random, first.dimension)
    for name, got in (
        ("list", get_message_ids(run.list_messages(first.user_id))),
        ("export", get_message_ids(run.export_messages(first.user_id))),
        *(
            (word, get_message_ids(hit for hit, _ in run.lexical_search(first.user_id, word, at_least=token)))
            for word in WORDS
        ),
        (
            "semantic search",
            get_message_ids(hit for hit, _ in run.semantic_search(first.user_id, query_vector, at_least=token)),
        ),
    ):
        if foreign_ids := set(got) - own_ids:
            yield f"{name} returns {len(foreign_ids)} messages of another user"
    other_id = other.messages[0].message_id
    by_id = run.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=first.user_id, message_ids=[other_id]))
    if by_id.items:
        yield "a message of another user is returned by id"
    request = q.GetNeighborsRequest(user_id=first.user_id, message_id=other_id)
    yield from expect_error(lambda: run.query.GetNeighbors(request), grpc.StatusCode.NOT_FOUND)
    (retracting,) = other.create_messages([99])
    retracting.retracts.extend(sorted(own_ids)[:32])
    run.write_messages([retracting])
    if any(message.retracted_by for message in run.list_messages(first.user_id)):
        yield "another user can retract messages"
    deleted = run.delete_messages(first.user_id, message_ids=[other_id]).deleted
    if deleted or other_id not in get_message_ids(run.list_messages(other.user_id)):
        yield "a message of another user is deleted"


def _check_scores(run: ConformanceRun) -> Iterator[str]:
    (first, token), (other, _) = run.write_dataset("scored", 40), run.write_dataset("loud", 1)
    query_vector = draw_unit_vector(run.random, first.dimension)
    before = _read_serialized_replies(run, first, token, query_vector)
    token = run.write_messages(other.create_messages(range(1, 200))).write_token
    list(run.lexical_search(other.user_id, WORDS[0], at_least=token))
    run.semantic_search(other.user_id, query_vector, at_least=token)
    after = _read_serialized_replies(run, first, "", query_vector)
    yield from list_differences("replies after another user has written the same words", after, before)


def _read_serialized_replies(
    run: ConformanceRun, dataset: Dataset, token: str, query_vector: list[float]
) -> list[bytes]:
    """Return the serialized replies without cursors, because cursors differ on each call."""
    replies: list[bytes] = []
    for word in WORDS:
        request = q.LexicalSearchRequest(user_id=dataset.user_id, query_text=word, at_least=token)
        page = run.query.LexicalSearch(request)
        page.ClearField("next_cursor")
        replies.append(page.SerializeToString(deterministic=True))
    hybrid = q.HybridSearchRequest(user_id=dataset.user_id, query_text=WORDS[0], at_least=token)
    hybrid.query_embedding.values.extend(query_vector)
    return [*replies, run.query.HybridSearch(hybrid).SerializeToString(deterministic=True)]


def _check_user_list(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("named", 7)
    try:
        counts = dict(_read_message_counts(run))
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            raise CheckSkippedError("the key lacks the scope admin, which ListUsers requires") from None
        raise
    if counts.get(dataset.user_id) != len(dataset.messages):
        yield f"{counts.get(dataset.user_id)} messages, expected {len(dataset.messages)}"


def _read_message_counts(run: ConformanceRun) -> Iterator[tuple[str, int]]:
    cursor = ""
    while True:
        page = run.query.ListUsers(q.ListUsersRequest(page_size=run.info.limits.max_page_size, cursor=cursor))
        yield from ((user.user_id, user.message_count) for user in page.users)
        if not (cursor := page.next_cursor):
            return


CHECKS = (
    ConformanceCheck("reads and deletions are limited to the user's messages", _check_foreign_messages),
    ConformanceCheck("messages of another user do not change any reply", _check_scores),
    ConformanceCheck("users are listed with their message counts", _check_user_list),
)
