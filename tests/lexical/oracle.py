"""The expected results of a search, computed by brute force."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

from hypothesis import strategies as st
from lexical.claims import CHARACTERS, WORDS, Claim
from lexical.shelf import Shelf, message, query

from nomemory.server.message import Message, Role
from nomemory.server.message_filter import Filter
from nomemory.server.search.lexical.protocol import LexicalHit, RankPosition

Listing = list[tuple[float, int, int]]
"""Score, time and number of each hit, in the order of the listing; those that tie by their number."""


def random_messages(count: int) -> list[Message]:
    """Return short and long texts of few characters and words, with few times and senders."""
    chance = random.Random(1)  # noqa: S311 - the same texts each time

    def content() -> str:
        run = "".join(chance.choices(CHARACTERS, k=chance.choice([*range(1, 8), 9, 30, 80])))
        ending = chance.choice(["", "", "？"])
        return " ".join([run, *chance.sample(WORDS, chance.randint(0, 2))]) + ending

    def draw_message() -> Message:
        role, conversation = chance.choice(list(Role)), chance.choice(["", "c", "d"])
        name = chance.choice(["", "Cat", "doggy"])
        metadata = chance.choice([{}, {"app": "a"}, {"app": "a", "kind": "b"}, {"kind": "a"}, {"app": ""}])
        return message(chance.choice("uuv"), content(), chance.randint(0, 12), role, conversation, name, metadata)

    return [draw_message() for _ in range(count)]


def let_through(message_filter: Filter, each: Message) -> bool:
    return (
        (message_filter.since_us is None or each.ts_us >= message_filter.since_us)
        and (message_filter.until_us is None or each.ts_us < message_filter.until_us)
        and message_filter.role in (None, each.role)
        and message_filter.conversation_id in ("", each.conversation_id)
        and each.conversation_id not in message_filter.exclude_conversation_ids
        and set(message_filter.metadata) <= set(each.metadata.items())
    )


def weight(shelf: Shelf, sought: str) -> float:
    """Return the inverse document frequency among the messages of the user, in steps of 1/64."""
    mine = [each.content for each in shelf.messages.values() if each.user_id == "u"]
    frequency = sum(sought in content for content in mine)
    return max(1, round(math.log(1 + (len(mine) - frequency + 0.5) / (frequency + 0.5)) * 64)) / 64


def class_weight(content: str) -> float:
    """Return the weight of a message: minus 1/16 for each length class, and minus 2/16 for a question."""
    run, *words = content.removesuffix("？").split()
    terms = len(run) - 1 + len(words)
    return 1 - (sum(terms >= length for length in (8, 24, 72)) + 2 * content.endswith("？")) / 16


def expected(shelf: Shelf, claim: Claim, message_filter: Filter) -> Listing:
    weights = {leaf: weight(shelf, leaf[1]) for leaf in claim.leaves}
    is_prose = not query(claim.text).has_uniform_score and not re.search(r"AND|OR|NOT|-", claim.text)
    heaviest = max(weights.values(), default=0.0)
    for_name = round(min(0.4 * sum(weights.values()), heaviest) * 64) / 64 if ("word", "cat") in weights else 0.0

    def score(each: Message) -> float:
        score_sum = sum(w for (_, sought), w in weights.items() if sought in each.content)
        return (score_sum + for_name * (each.name == "Cat")) * class_weight(each.content) if is_prose else score_sum

    matching = [
        (score(each), each.ts_us, number)
        for number, each in shelf.messages.items()
        if each.user_id == "u" and let_through(message_filter, each) and claim.holds(each.content)
    ]
    return in_order(matching)


def in_order(listing: Listing) -> Listing:
    return sorted(listing, key=lambda hit: (-hit[0], -hit[1], hit[2]))


def listed(hits: Sequence[LexicalHit]) -> Listing:
    listing = [(hit.score, hit.ts_us, hit.sequence) for hit in hits]
    assert [hit[:2] for hit in listing] == [hit[:2] for hit in in_order(listing)]
    return in_order(listing)


FILTERS = st.builds(
    Filter,
    since_us=st.none() | st.integers(-1, 13),
    until_us=st.none() | st.integers(-1, 13),
    role=st.none() | st.sampled_from(Role),
    conversation_id=st.sampled_from(["", "c", "d", "e"]),
    exclude_conversation_ids=st.lists(st.sampled_from(["c", "d", "e"]), max_size=2, unique=True).map(tuple),
    metadata=st.dictionaries(st.sampled_from(["app", "kind"]), st.sampled_from(["", "a", "b"])).map(
        lambda entries: tuple(sorted(entries.items()))
    ),
)


def at(hit: LexicalHit) -> RankPosition:
    return RankPosition(hit.score, hit.ts_us)
