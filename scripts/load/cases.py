"""The reads that are measured, as serialised requests: for typical users and for the heavy one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from load.closed_loop import Metadata
from load.corpus import HEAVY, Notes, Said, unit_vector
from load.words import chinese, english

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb
from nomemory.v1 import recall_service_pb2 as recall_pb

_QUERY = "/nomemory.v1.QueryService"
_RECALL = "/nomemory.v1.RecallService/Recall"
_DAY_US = 86_400 * 1_000_000
_WINDOW_US, _FILTER_US = 30 * _DAY_US, 60 * _DAY_US
_REQUESTS = 200
_SEED = 11
TYPICAL = "typical"
_RANKS = {"common": 0, "middle": 100, "rare": 3000}
"""Where the heavy user's words stand in the vocabularies."""


@dataclass(frozen=True, slots=True)
class Case:
    """One read for one kind of user. `metadata` goes with the requests, in turn."""

    name: str
    method: str
    requests: list[bytes]
    metadata: list[Metadata]


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a request is made of: a user, a message of theirs, their words by how frequent they are, a vector."""

    user_id: str
    said: Said
    words: dict[str, str]
    second: str
    phrase: str
    phrase_said: Said
    vector: list[float]


def cases(notes: Notes) -> Iterator[Case]:
    """Return all cases, the typical users' first."""
    yield from _cases(TYPICAL, _of_typical(notes))
    yield from heavy_cases(HEAVY, notes.heavy)


def heavy_cases(user_id: str, said: Sequence[Said]) -> Iterator[Case]:
    """Return the cases of a user of very many messages, some of which are given."""
    random = np.random.default_rng(_SEED + 1)
    yield from _cases(user_id, [_of_heavy_turn(user_id, said, n, random) for n in range(_REQUESTS)])


def _cases(kind: str, occasions: Sequence[Occasion]) -> Iterator[Case]:
    for read, (method, build) in _READS.items():
        metadata: list[Metadata] = [
            (("x-user-id", occasion.user_id),) if method == _RECALL else () for occasion in occasions
        ]
        yield Case(f"{read}_{kind}", method, [build(occasion) for occasion in occasions], metadata)


def _of_typical(notes: Notes) -> list[Occasion]:
    random = np.random.default_rng(_SEED)
    users = list(notes.typical)
    return [_of_user(users[n % len(users)], notes.typical[users[n % len(users)]], random) for n in range(_REQUESTS)]


def _of_user(user_id: str, said: Sequence[Said], random: np.random.Generator) -> Occasion:
    ordered = [word for word, _ in Counter(word for item in said for word in item.words).most_common()]
    middle = ordered[math.isqrt(len(ordered))]
    words = {"common": ordered[0], "middle": middle, "rare": ordered[-1 - int(random.integers(len(ordered) // 2))]}
    return _occasion(user_id, said, words, ordered[1], random)


def _of_heavy_turn(user_id: str, said: Sequence[Said], turn: int, random: np.random.Generator) -> Occasion:
    language = (english(), chinese())[turn % 2]
    words = {name: language[rank + turn % 3] for name, rank in _RANKS.items()}
    return _occasion(user_id, said, words, language[_RANKS["common"] + (turn + 1) % 3], random)


def _occasion(
    user_id: str, said: Sequence[Said], words: dict[str, str], second: str, random: np.random.Generator
) -> Occasion:
    chinese = [item for item in said if item.is_chinese] or list(said)
    phrase_said = chinese[int(random.integers(len(chinese)))]
    at = int(random.integers(len(phrase_said.words) - 1))
    phrase = ("" if phrase_said.is_chinese else " ").join(phrase_said.words[at : at + 2])
    anchor = said[int(random.integers(len(said)))]
    return Occasion(user_id, anchor, words, second, phrase, phrase_said, unit_vector(random).tolist())


def _window(said: Said, around_us: int) -> message_pb2.TimeRange:
    window = message_pb2.TimeRange()
    window.since.FromMicroseconds(said.ts_us - around_us)
    window.until.FromMicroseconds(said.ts_us + around_us)
    return window


def _list(one: Occasion) -> bytes:
    return pb.ListMessagesRequest(user_id=one.user_id, page_size=50).SerializeToString()


def _list_window(one: Occasion) -> bytes:
    narrowed = message_pb2.Filter(time_range=_window(one.said, _WINDOW_US))
    return pb.ListMessagesRequest(user_id=one.user_id, page_size=50, filter=narrowed).SerializeToString()


def _neighbors(one: Occasion) -> bytes:
    return pb.GetNeighborsRequest(
        user_id=one.user_id, message_id=one.said.message_id, before=20, after=20
    ).SerializeToString()


def _lexical(text: Callable[[Occasion], str], *, snippet_chars: int = 0) -> Build:
    def build(one: Occasion) -> bytes:
        request = pb.LexicalSearchRequest(user_id=one.user_id, query_text=text(one), page_size=50)
        if snippet_chars:
            request.highlight.snippet_chars = snippet_chars
        return request.SerializeToString()

    return build


def _filtered(one: Occasion) -> bytes:
    said = one.phrase_said
    narrowed = message_pb2.Filter(time_range=_window(said, _FILTER_US), role=message_pb2.Role.ValueType(said.role))
    query = f'"{one.phrase}" AND {said.words[0]}'
    return pb.LexicalSearchRequest(user_id=one.user_id, query_text=query, filter=narrowed).SerializeToString()


def _semantic(one: Occasion) -> bytes:
    vector = pb.Embedding(values=one.vector)
    return pb.SemanticSearchRequest(user_id=one.user_id, query_embedding=vector, top_k=20).SerializeToString()


def _hybrid(one: Occasion) -> bytes:
    vector = pb.Embedding(values=one.vector)
    return pb.HybridSearchRequest(
        user_id=one.user_id, query_text=_question(one), query_embedding=vector, top_k=20
    ).SerializeToString()


def _recall(one: Occasion) -> bytes:
    vector = pb.Embedding(values=one.vector)
    return recall_pb.RecallRequest(question=_question(one), question_embedding=vector).SerializeToString()


def _question(one: Occasion) -> str:
    first, other = one.phrase_said.words[0], one.words["middle"]
    return (
        f"我什么时候说过{first}和{other}？" if one.phrase_said.is_chinese else f"When did I talk about {first} {other}?"
    )


Build = Callable[[Occasion], bytes]

_READS: dict[str, tuple[str, Build]] = {
    "list": (f"{_QUERY}/ListMessages", _list),
    "list_window": (f"{_QUERY}/ListMessages", _list_window),
    "neighbors": (f"{_QUERY}/GetNeighbors", _neighbors),
    "lexical_common": (f"{_QUERY}/LexicalSearch", _lexical(lambda item: item.words["common"])),
    "lexical_common_highlights": (
        f"{_QUERY}/LexicalSearch",
        _lexical(lambda item: item.words["common"], snippet_chars=120),
    ),
    "lexical_middle": (f"{_QUERY}/LexicalSearch", _lexical(lambda item: item.words["middle"])),
    "lexical_rare": (f"{_QUERY}/LexicalSearch", _lexical(lambda item: item.words["rare"])),
    "lexical_two_words": (
        f"{_QUERY}/LexicalSearch",
        _lexical(lambda item: f"{item.words['common']} {item.words['middle']}"),
    ),
    "lexical_two_common": (f"{_QUERY}/LexicalSearch", _lexical(lambda item: f"{item.words['common']} {item.second}")),
    "lexical_phrase": (f"{_QUERY}/LexicalSearch", _lexical(lambda item: f'"{item.phrase}"')),
    "lexical_filtered": (f"{_QUERY}/LexicalSearch", _filtered),
    "semantic": (f"{_QUERY}/SemanticSearch", _semantic),
    "hybrid": (f"{_QUERY}/HybridSearch", _hybrid),
    "recall": (_RECALL, _recall),
}
