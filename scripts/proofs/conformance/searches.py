"""Searches by words and by meaning: what brute force gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.check import Check
from proofs.conformance.reads import narrowings
from proofs.conformance.talk import WORDS, Admits, cosine, differing, has, has_phrase, ids, vector
from proofs.conformance.world import World

_SAID = 61
_NEARLY = 0.02
"""How much a score may differ from the cosine: an index may keep vectors with fewer bits."""


def _queries() -> Iterator[tuple[str, Admits]]:
    """Yield queries, with what each of them finds."""
    yield from ((f'"{word}"', has(word)) for word in WORDS)
    for one, other in pairwise(WORDS):
        yield f'"{one}" AND "{other}"', has(one, other)
        yield f'"{one}" OR "{other}"', lambda said, a=one, b=other: has(a)(said) or has(b)(said)  # type: ignore[misc]
        yield f'"{one}" NOT "{other}"', lambda said, a=one, b=other: has(a)(said) and not has(b)(said)  # type: ignore[misc]
        yield f'"{one} {other}"', has_phrase(one, other)
    yield "no17", has("no17")
    yield "zeppelin", has("zeppelin")


def _words(world: World) -> Iterator[str]:
    talk, token = world.talk("words", _SAID)
    for size, (query, admits) in zip((1, 7, 50) * len(WORDS) * 2, _queries(), strict=False):
        hits = list(world.found(talk.user_id, query, max(size, 5), at_least=token))
        wanted = sorted(ids(talk.newest_first(admits)))
        yield from differing(query, sorted(one.message_id for one, _ in hits), wanted)
        if any(one < other for (_, one), (_, other) in pairwise(hits)):
            yield f"{query}: the scores go up"


def _words_filtered(world: World) -> Iterator[str]:
    talk, token = world.talk("wordsfiltered", _SAID)
    for name, narrowed, admits in narrowings(talk):
        for word in (WORDS[0], WORDS[-1]):
            got = [one.message_id for one, _ in world.found(talk.user_id, word, filter=narrowed, at_least=token)]
            wanted = ids(talk.newest_first(lambda one: admits(one) and has(word)(one)))  # noqa: B023 - called at once
            yield from differing(f"{word} by {name}", sorted(got), sorted(wanted))


def _meaning(world: World) -> Iterator[str]:
    talk, token = world.talk("meaning", _SAID)
    for _ in range(4):
        asked = vector(world.random, talk.dimension)
        hits = world.near(talk.user_id, asked, at_least=token)
        nearness = {one.message_id: cosine(one.embedding, asked) for one in talk.messages}
        yield from differing("everything, by nearness", sorted(ids(one for one, _ in hits)), sorted(nearness))
        for message, score in hits:
            if abs(score - nearness.get(message.message_id, score)) > _NEARLY:
                yield f"{message.message_id}: score {score:.3f}, cosine {nearness[message.message_id]:.3f}"
        if any(one < other for (_, one), (_, other) in pairwise(hits)):
            yield "the scores go up"


def _meaning_filtered(world: World) -> Iterator[str]:
    talk, token = world.talk("meaningfiltered", _SAID)
    for name, narrowed, admits in narrowings(talk):
        asked = vector(world.random, talk.dimension)
        got = ids(one for one, _ in world.near(talk.user_id, asked, filter=narrowed, at_least=token))
        yield from differing(f"by {name}", sorted(got), sorted(ids(talk.newest_first(admits))))


def _together(world: World) -> Iterator[str]:
    talk, token = world.talk("together", 30)
    for word in (WORDS[0], WORDS[-1]):
        request = q.HybridSearchRequest(
            user_id=talk.user_id,
            query_text=word,
            query_embedding=q.Embedding(values=vector(world.random, talk.dimension)),
            top_k=world.info.limits.top_k,
            at_least=token,
        )
        hits = world.query.HybridSearch(request).items
        got = ids(hit.message for hit in hits)
        yield from differing(f"{word}: twice", got, list(dict.fromkeys(got)))
        if lacking := set(ids(talk.newest_first(has(word)))) - set(got):
            yield f"{word}: {len(lacking)} messages that have it are not found"
        if strangers := set(got) - set(ids(talk.messages)):
            yield f"{word}: {len(strangers)} messages that the user does not have"
        if any(one.score < other.score for one, other in pairwise(hits)):
            yield f"{word}: the scores go up"


CHECKS = (
    Check("words, phrases and their combinations, Chinese and English, find what brute force finds", _words),
    Check("searches by words keep to their filters", _words_filtered),
    Check("searches by meaning find everything, by nearness", _meaning),
    Check("searches by meaning keep to their filters", _meaning_filtered),
    Check("searches by both find what has the words, once, best first", _together),
)
