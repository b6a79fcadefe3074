"""Checks that all reads return the brute-force results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.conformance_run import ConformanceCheck, ConformanceRun
from proofs.conformance.dataset import (
    WORDS,
    Dataset,
    Message,
    Predicate,
    compute_cosine_similarity,
    draw_unit_vector,
    get_message_ids,
    list_differences,
    match_all_words,
    match_phrase,
)

_MESSAGES = 61
_PAGES = (1, 7, 60, 500)
_ROLE = message_pb2.ROLE_ASSISTANT


def _check_pages(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("pages", _MESSAGES)
    for size in _PAGES:
        for order, expected in (
            (q.LIST_ORDER_NEWEST_FIRST, dataset.list_newest_first()),
            (q.LIST_ORDER_OLDEST_FIRST, dataset.list_oldest_first()),
        ):
            actual = run.list_messages(dataset.user_id, size, order=order, at_least=token)
            yield from list_differences(
                f"pages of {size}, {q.ListOrder.Name(order)}", get_message_ids(actual), get_message_ids(expected)
            )


def _check_contents(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("contents", 20)
    for actual, expected in zip(run.list_messages(dataset.user_id), dataset.list_newest_first(), strict=True):
        bare = Message()
        bare.CopyFrom(expected)
        bare.ClearField("embedding")
        actual.ClearField("embedding")
        if actual != bare:
            yield f"{expected.message_id} differs from the written message"


def _check_pages_while_writing(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("meanwhile", 30)
    expected, actual = get_message_ids(dataset.list_newest_first()), list[str]()
    for number, message in enumerate(run.list_messages(dataset.user_id, 4)):
        actual.append(message.message_id)
        if number % 4 == 0:
            run.write_messages(dataset.create_messages([number]))
    yield from list_differences("listing during writes", actual, expected)
    yield from list_differences(
        "next listing",
        get_message_ids(run.list_messages(dataset.user_id)),
        get_message_ids(dataset.list_newest_first()),
    )


def build_filters(dataset: Dataset) -> Iterator[tuple[str, message_pb2.Filter, Predicate]]:
    """Yield filters, each with a name and with a predicate that matches the same messages."""
    middle = dataset.messages[len(dataset.messages) // 2].ts.ToMicroseconds()
    later, earlier, both = message_pb2.Filter(), message_pb2.Filter(), message_pb2.Filter(role=_ROLE)
    later.time_range.since.FromMicroseconds(middle)
    earlier.time_range.until.FromMicroseconds(middle)
    both.time_range.CopyFrom(later.time_range)
    both.metadata["app"] = "a"
    yield "role", message_pb2.Filter(role=_ROLE), lambda item: item.role == _ROLE
    yield "conversation", message_pb2.Filter(conversation_id="c"), lambda item: item.conversation_id == "c"
    yield "metadata", message_pb2.Filter(metadata={"kind": "é"}), lambda item: item.metadata.get("kind") == "é"
    yield "since", later, lambda item: item.ts.ToMicroseconds() >= middle
    yield "until", earlier, lambda item: item.ts.ToMicroseconds() < middle
    yield (
        "all of them",
        both,
        lambda item: item.role == _ROLE and item.ts.ToMicroseconds() >= middle and item.metadata.get("app") == "a",
    )


def _check_filters(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("filters", _MESSAGES)
    for name, message_filter, matches in build_filters(dataset):
        actual = get_message_ids(run.list_messages(dataset.user_id, 9, filter=message_filter))
        yield from list_differences(f"list by {name}", actual, get_message_ids(dataset.list_newest_first(matches)))
        exported = get_message_ids(run.export_messages(dataset.user_id, filter=message_filter))
        yield from list_differences(f"export by {name}", exported, get_message_ids(dataset.list_oldest_first(matches)))
        if (count := run.count_messages(dataset.user_id, filter=message_filter)) != len(actual):
            yield f"count by {name}: {count}, listed {len(actual)}"


def _check_counts(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("counts", _MESSAGES)
    listed = list(run.list_messages(dataset.user_id))
    if (count := run.count_messages(dataset.user_id)) != len(listed):
        yield f"counted {count}, listed {len(listed)}"
    yield from list_differences(
        "export", get_message_ids(run.export_messages(dataset.user_id)), get_message_ids(reversed(listed))
    )
    page = run.query.ListConversations(q.ListConversationsRequest(user_id=dataset.user_id))
    actual = {conversation.conversation_id: conversation.message_count for conversation in page.conversations}
    expected = Counter(message.conversation_id for message in dataset.messages if message.conversation_id)
    if actual != dict(expected):
        yield f"conversations {actual}; expected {dict(expected)}"


def _check_reads_by_id(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("ids", 30)
    ids = get_message_ids(islice(dataset.messages, 10))
    actual = run.query.BatchGetMessages(
        q.BatchGetMessagesRequest(user_id=dataset.user_id, message_ids=[*ids[:5], "nobody", *ids[5:]])
    )
    yield from list_differences("messages by id", get_message_ids(actual.items), ids)
    yield from list_differences("missing ids", list(actual.missing_message_ids), ["nobody"])


def _check_neighbors(run: ConformanceRun) -> Iterator[str]:
    dataset, _ = run.write_dataset("neighbors", 40)
    all_ids = get_message_ids(dataset.messages)
    for index in (0, 1, 20, 39):
        request = q.GetNeighborsRequest(user_id=dataset.user_id, message_id=all_ids[index], before=3, after=4)
        actual = run.query.GetNeighbors(request)
        yield from list_differences(
            f"neighbors of message {index}", get_message_ids(actual.items), all_ids[max(0, index - 3) : index + 5]
        )
        if get_message_ids(actual.items)[actual.anchor_index] != all_ids[index]:
            yield f"message {index}: wrong anchor_index"


_SCORE_TOLERANCE = 0.02
"""Tolerated difference between a score and the cosine, because indexes can quantize vectors."""


def _build_queries() -> Iterator[tuple[str, Predicate]]:
    """Yield lexical queries, each with a predicate that matches the same messages."""
    yield from ((f'"{word}"', match_all_words(word)) for word in WORDS)
    for item, other in pairwise(WORDS):
        yield f'"{item}" AND "{other}"', match_all_words(item, other)
        yield (
            f'"{item}" OR "{other}"',
            lambda message, a=item, b=other: match_all_words(a)(message) or match_all_words(b)(message),  # type: ignore[misc]
        )
        yield (
            f'"{item}" NOT "{other}"',
            lambda message, a=item, b=other: match_all_words(a)(message) and not match_all_words(b)(message),  # type: ignore[misc]
        )
        yield f'"{item} {other}"', match_phrase(item, other)
    yield "no17", match_all_words("no17")
    yield "zeppelin", match_all_words("zeppelin")


def _check_lexical(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("words", _MESSAGES)
    for size, (query, matches) in zip((1, 7, 50) * len(WORDS) * 2, _build_queries(), strict=False):
        hits = list(run.lexical_search(dataset.user_id, query, max(size, 5), at_least=token))
        expected = sorted(get_message_ids(dataset.list_newest_first(matches)))
        yield from list_differences(query, sorted(item.message_id for item, _ in hits), expected)
        if any(item < other for (_, item), (_, other) in pairwise(hits)):
            yield f"{query}: scores are not in descending order"


def _check_filtered_lexical(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("wordsfiltered", _MESSAGES)
    for name, message_filter, matches in build_filters(dataset):
        for word in (WORDS[0], WORDS[-1]):
            actual = [
                item.message_id
                for item, _ in run.lexical_search(dataset.user_id, word, filter=message_filter, at_least=token)
            ]
            expected = get_message_ids(
                dataset.list_newest_first(lambda item: matches(item) and match_all_words(word)(item))  # noqa: B023 - called immediately
            )
            yield from list_differences(f"{word} by {name}", sorted(actual), sorted(expected))


def _check_semantic(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("meaning", _MESSAGES)
    for _ in range(4):
        query_vector = draw_unit_vector(run.random, dataset.dimension)
        hits = run.semantic_search(dataset.user_id, query_vector, at_least=token)
        scores_by_id = {
            item.message_id: compute_cosine_similarity(item.embedding, query_vector) for item in dataset.messages
        }
        yield from list_differences(
            "semantic search", sorted(get_message_ids(item for item, _ in hits)), sorted(scores_by_id)
        )
        for message, score in hits:
            if abs(score - scores_by_id.get(message.message_id, score)) > _SCORE_TOLERANCE:
                yield f"{message.message_id}: score {score:.3f}, cosine {scores_by_id[message.message_id]:.3f}"
        if any(item < other for (_, item), (_, other) in pairwise(hits)):
            yield "scores are not in descending order"


def _check_filtered_semantic(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("meaningfiltered", _MESSAGES)
    for name, message_filter, matches in build_filters(dataset):
        query_vector = draw_unit_vector(run.random, dataset.dimension)
        actual = get_message_ids(
            item
            for item, _ in run.semantic_search(dataset.user_id, query_vector, filter=message_filter, at_least=token)
        )
        yield from list_differences(
            f"by {name}", sorted(actual), sorted(get_message_ids(dataset.list_newest_first(matches)))
        )


def _check_hybrid(run: ConformanceRun) -> Iterator[str]:
    dataset, token = run.write_dataset("together", 30)
    for word in (WORDS[0], WORDS[-1]):
        request = q.HybridSearchRequest(
            user_id=dataset.user_id,
            query_text=word,
            query_embedding=q.Embedding(values=draw_unit_vector(run.random, dataset.dimension)),
            top_k=run.info.limits.max_top_k,
            at_least=token,
        )
        hits = run.query.HybridSearch(request).items
        actual = get_message_ids(hit.message for hit in hits)
        yield from list_differences(f"{word}: duplicates", actual, list(dict.fromkeys(actual)))
        if missing := set(get_message_ids(dataset.list_newest_first(match_all_words(word)))) - set(actual):
            yield f"{word}: {len(missing)} matching messages are missing"
        if foreign := set(actual) - set(get_message_ids(dataset.messages)):
            yield f"{word}: {len(foreign)} messages of other users"
        if any(item.score < other.score for item, other in pairwise(hits)):
            yield f"{word}: scores are not in descending order"


CHECKS = (
    ConformanceCheck("pages of every size, in both orders, match brute force", _check_pages),
    ConformanceCheck("messages are returned as written", _check_contents),
    ConformanceCheck("concurrent writes do not change a listing", _check_pages_while_writing),
    ConformanceCheck("filters of list, export and count match brute force", _check_filters),
    ConformanceCheck("counts, lists, exports and conversations agree", _check_counts),
    ConformanceCheck("messages are returned by id, and missing ids are reported", _check_reads_by_id),
    ConformanceCheck("neighbors match brute force", _check_neighbors),
    ConformanceCheck("words, phrases and their combinations in Chinese and English match brute force", _check_lexical),
    ConformanceCheck("lexical search applies filters", _check_filtered_lexical),
    ConformanceCheck("semantic search returns all messages by score", _check_semantic),
    ConformanceCheck("semantic search applies filters", _check_filtered_semantic),
    ConformanceCheck("hybrid search returns matching messages once, best first", _check_hybrid),
)
