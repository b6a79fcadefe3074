"""Reads by time, by id, by neighbourhood, by words and by meaning: what brute force gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.dataset import WORDS, Admits, Dataset, Message, cosine, differing, has, has_phrase, ids, vector
from proofs.conformance.world import Check, World

_SAID = 61
_PAGES = (1, 7, 60, 500)
_ROLE = message_pb2.ROLE_ASSISTANT


def _pages(world: World) -> Iterator[str]:
    dataset, token = world.dataset("pages", _SAID)
    for size in _PAGES:
        for order, wanted in (
            (q.LIST_ORDER_NEWEST_FIRST, dataset.newest_first()),
            (q.LIST_ORDER_OLDEST_FIRST, dataset.oldest_first()),
        ):
            got = world.listed(dataset.user_id, size, order=order, at_least=token)
            yield from differing(f"pages of {size}, {q.ListOrder.Name(order)}", ids(got), ids(wanted))


def _contents(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("contents", 20)
    for got, wanted in zip(world.listed(dataset.user_id), dataset.newest_first(), strict=True):
        bare = Message()
        bare.CopyFrom(wanted)
        bare.ClearField("embedding")
        got.ClearField("embedding")
        if got != bare:
            yield f"{wanted.message_id} came back as something else"


def _pages_while_writing(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("meanwhile", 30)
    wanted, got = ids(dataset.newest_first()), list[str]()
    for number, message in enumerate(world.listed(dataset.user_id, 4)):
        got.append(message.message_id)
        if number % 4 == 0:
            world.write(dataset.say([number]))
    yield from differing("a listing that had begun", got, wanted)
    yield from differing("the next one", ids(world.listed(dataset.user_id)), ids(dataset.newest_first()))


def narrowings(dataset: Dataset) -> Iterator[tuple[str, message_pb2.Filter, Admits]]:
    """Yield filters, with what each admits."""
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


def _filters(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("filters", _SAID)
    for name, narrowed, admits in narrowings(dataset):
        got = ids(world.listed(dataset.user_id, 9, filter=narrowed))
        yield from differing(f"list by {name}", got, ids(dataset.newest_first(admits)))
        exported = ids(world.exported(dataset.user_id, filter=narrowed))
        yield from differing(f"export by {name}", exported, ids(dataset.oldest_first(admits)))
        if (count := world.counted(dataset.user_id, filter=narrowed)) != len(got):
            yield f"count by {name}: {count}, listed {len(got)}"


def _counts(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("counts", _SAID)
    listed = list(world.listed(dataset.user_id))
    if (count := world.counted(dataset.user_id)) != len(listed):
        yield f"counted {count}, listed {len(listed)}"
    yield from differing("export", ids(world.exported(dataset.user_id)), ids(reversed(listed)))
    page = world.query.ListConversations(q.ListConversationsRequest(user_id=dataset.user_id))
    got = {conversation.conversation_id: conversation.message_count for conversation in page.conversations}
    wanted = Counter(message.conversation_id for message in dataset.messages if message.conversation_id)
    if got != dict(wanted):
        yield f"conversations {got} in place of {dict(wanted)}"


def _by_id(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("ids", 30)
    asked = ids(islice(dataset.messages, 10))
    got = world.query.BatchGetMessages(
        q.BatchGetMessagesRequest(user_id=dataset.user_id, message_ids=[*asked[:5], "nobody", *asked[5:]])
    )
    yield from differing("what was asked for", ids(got.items), asked)
    yield from differing("what is missing", list(got.missing_message_ids), ["nobody"])


def _neighbours(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("neighbours", 40)
    everything = ids(dataset.messages)
    for at in (0, 1, 20, 39):
        request = q.GetNeighborsRequest(user_id=dataset.user_id, message_id=everything[at], before=3, after=4)
        got = world.query.GetNeighbors(request)
        yield from differing(f"around message {at}", ids(got.items), everything[max(0, at - 3) : at + 5])
        if ids(got.items)[got.anchor_index] != everything[at]:
            yield f"the anchor {at} is not where the reply says"


_NEARLY = 0.02
"""How much a score may differ from the cosine: an index may keep vectors with fewer bits."""


def _queries() -> Iterator[tuple[str, Admits]]:
    """Yield queries, with what each of them finds."""
    yield from ((f'"{word}"', has(word)) for word in WORDS)
    for item, other in pairwise(WORDS):
        yield f'"{item}" AND "{other}"', has(item, other)
        yield f'"{item}" OR "{other}"', lambda said, a=item, b=other: has(a)(said) or has(b)(said)  # type: ignore[misc]
        yield f'"{item}" NOT "{other}"', lambda said, a=item, b=other: has(a)(said) and not has(b)(said)  # type: ignore[misc]
        yield f'"{item} {other}"', has_phrase(item, other)
    yield "no17", has("no17")
    yield "zeppelin", has("zeppelin")


def _words(world: World) -> Iterator[str]:
    dataset, token = world.dataset("words", _SAID)
    for size, (query, admits) in zip((1, 7, 50) * len(WORDS) * 2, _queries(), strict=False):
        hits = list(world.found(dataset.user_id, query, max(size, 5), at_least=token))
        wanted = sorted(ids(dataset.newest_first(admits)))
        yield from differing(query, sorted(item.message_id for item, _ in hits), wanted)
        if any(item < other for (_, item), (_, other) in pairwise(hits)):
            yield f"{query}: the scores go up"


def _words_filtered(world: World) -> Iterator[str]:
    dataset, token = world.dataset("wordsfiltered", _SAID)
    for name, narrowed, admits in narrowings(dataset):
        for word in (WORDS[0], WORDS[-1]):
            got = [item.message_id for item, _ in world.found(dataset.user_id, word, filter=narrowed, at_least=token)]
            wanted = ids(dataset.newest_first(lambda item: admits(item) and has(word)(item)))  # noqa: B023 - called at once
            yield from differing(f"{word} by {name}", sorted(got), sorted(wanted))


def _meaning(world: World) -> Iterator[str]:
    dataset, token = world.dataset("meaning", _SAID)
    for _ in range(4):
        asked = vector(world.random, dataset.dimension)
        hits = world.near(dataset.user_id, asked, at_least=token)
        nearness = {item.message_id: cosine(item.embedding, asked) for item in dataset.messages}
        yield from differing("everything, by nearness", sorted(ids(item for item, _ in hits)), sorted(nearness))
        for message, score in hits:
            if abs(score - nearness.get(message.message_id, score)) > _NEARLY:
                yield f"{message.message_id}: score {score:.3f}, cosine {nearness[message.message_id]:.3f}"
        if any(item < other for (_, item), (_, other) in pairwise(hits)):
            yield "the scores go up"


def _meaning_filtered(world: World) -> Iterator[str]:
    dataset, token = world.dataset("meaningfiltered", _SAID)
    for name, narrowed, admits in narrowings(dataset):
        asked = vector(world.random, dataset.dimension)
        got = ids(item for item, _ in world.near(dataset.user_id, asked, filter=narrowed, at_least=token))
        yield from differing(f"by {name}", sorted(got), sorted(ids(dataset.newest_first(admits))))


def _together(world: World) -> Iterator[str]:
    dataset, token = world.dataset("together", 30)
    for word in (WORDS[0], WORDS[-1]):
        request = q.HybridSearchRequest(
            user_id=dataset.user_id,
            query_text=word,
            query_embedding=q.Embedding(values=vector(world.random, dataset.dimension)),
            top_k=world.info.limits.max_top_k,
            at_least=token,
        )
        hits = world.query.HybridSearch(request).items
        got = ids(hit.message for hit in hits)
        yield from differing(f"{word}: twice", got, list(dict.fromkeys(got)))
        if lacking := set(ids(dataset.newest_first(has(word)))) - set(got):
            yield f"{word}: {len(lacking)} messages that have it are not found"
        if strangers := set(got) - set(ids(dataset.messages)):
            yield f"{word}: {len(strangers)} messages that the user does not have"
        if any(item.score < other.score for item, other in pairwise(hits)):
            yield f"{word}: the scores go up"


CHECKS = (
    Check("pages of every size, in both orders, are what brute force gives", _pages),
    Check("messages come back as they were written", _contents),
    Check("a listing that has begun does not change while others write", _pages_while_writing),
    Check("filters admit what brute force admits: list, export, count", _filters),
    Check("counts, lists, exports and conversations agree", _counts),
    Check("messages are found by their ids, and missing ones are named", _by_id),
    Check("neighbours are those that stand there", _neighbours),
    Check("words, phrases and their combinations, Chinese and English, find what brute force finds", _words),
    Check("searches by words keep to their filters", _words_filtered),
    Check("searches by meaning find everything, by nearness", _meaning),
    Check("searches by meaning keep to their filters", _meaning_filtered),
    Check("searches by both find what has the words, once, best first", _together),
)
