"""The benchmarked reads, as serialized requests of typical users and of the heavy user."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from load.closed_loop import Metadata
from load.corpus import HEAVY, CorpusSample, SampledMessage, draw_unit_vector
from load.words import build_chinese_vocabulary, build_english_vocabulary

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
"""Frequency ranks of the heavy user's query words in the vocabularies."""


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One kind of read by one kind of user, with the requests and metadata that calls send cyclically."""

    name: str
    method: str
    requests: list[bytes]
    metadata: list[Metadata]


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """The user, messages, query words and query vector from which one request of each case is built."""

    user_id: str
    message: SampledMessage
    words: dict[str, str]
    second: str
    phrase: str
    phrase_message: SampledMessage
    vector: list[float]


def build_cases(sample: CorpusSample) -> Iterator[BenchmarkCase]:
    """Yield the cases of typical users, then those of the heavy user."""
    yield from _build_user_cases(TYPICAL, _draw_typical_parameters(sample))
    yield from build_heavy_user_cases(HEAVY, sample.heavy)


def build_heavy_user_cases(user_id: str, messages: Sequence[SampledMessage]) -> Iterator[BenchmarkCase]:
    """Yield the cases of a heavy user, with parameters drawn from some of the user's messages."""
    random = np.random.default_rng(_SEED + 1)
    yield from _build_user_cases(
        user_id, [_draw_heavy_parameters(user_id, messages, n, random) for n in range(_REQUESTS)]
    )


def _build_user_cases(kind: str, parameters: Sequence[RequestParameters]) -> Iterator[BenchmarkCase]:
    for read, (method, build) in _READS.items():
        metadata: list[Metadata] = [(("x-user-id", item.user_id),) if method == _RECALL else () for item in parameters]
        yield BenchmarkCase(f"{read}_{kind}", method, [build(item) for item in parameters], metadata)


def _draw_typical_parameters(sample: CorpusSample) -> list[RequestParameters]:
    random = np.random.default_rng(_SEED)
    users = list(sample.typical)
    return [
        _draw_user_parameters(users[n % len(users)], sample.typical[users[n % len(users)]], random)
        for n in range(_REQUESTS)
    ]


def _draw_user_parameters(
    user_id: str, messages: Sequence[SampledMessage], random: np.random.Generator
) -> RequestParameters:
    ordered = [word for word, _ in Counter(word for item in messages for word in item.words).most_common()]
    middle = ordered[math.isqrt(len(ordered))]
    words = {"common": ordered[0], "middle": middle, "rare": ordered[-1 - int(random.integers(len(ordered) // 2))]}
    return _draw_parameters(user_id, messages, words, ordered[1], random)


def _draw_heavy_parameters(
    user_id: str, messages: Sequence[SampledMessage], turn: int, random: np.random.Generator
) -> RequestParameters:
    language = (build_english_vocabulary(), build_chinese_vocabulary())[turn % 2]
    words = {name: language[rank + turn % 3] for name, rank in _RANKS.items()}
    return _draw_parameters(user_id, messages, words, language[_RANKS["common"] + (turn + 1) % 3], random)


def _draw_parameters(
    user_id: str, messages: Sequence[SampledMessage], words: dict[str, str], second: str, random: np.random.Generator
) -> RequestParameters:
    chinese = [item for item in messages if item.is_chinese] or list(messages)
    phrase_message = chinese[int(random.integers(len(chinese)))]
    start = int(random.integers(len(phrase_message.words) - 1))
    phrase = ("" if phrase_message.is_chinese else " ").join(phrase_message.words[start : start + 2])
    anchor = messages[int(random.integers(len(messages)))]
    return RequestParameters(user_id, anchor, words, second, phrase, phrase_message, draw_unit_vector(random).tolist())


def _build_time_range(message: SampledMessage, around_us: int) -> message_pb2.TimeRange:
    window = message_pb2.TimeRange()
    window.since.FromMicroseconds(message.ts_us - around_us)
    window.until.FromMicroseconds(message.ts_us + around_us)
    return window


def _build_list_request(parameters: RequestParameters) -> bytes:
    return pb.ListMessagesRequest(user_id=parameters.user_id, page_size=50).SerializeToString()


def _build_list_time_range_request(parameters: RequestParameters) -> bytes:
    message_filter = message_pb2.Filter(time_range=_build_time_range(parameters.message, _WINDOW_US))
    return pb.ListMessagesRequest(user_id=parameters.user_id, page_size=50, filter=message_filter).SerializeToString()


def _build_neighbors_request(parameters: RequestParameters) -> bytes:
    return pb.GetNeighborsRequest(
        user_id=parameters.user_id, message_id=parameters.message.message_id, before=20, after=20
    ).SerializeToString()


def _make_lexical_request_builder(
    text: Callable[[RequestParameters], str], *, snippet_chars: int = 0
) -> RequestBuilder:
    def build(parameters: RequestParameters) -> bytes:
        request = pb.LexicalSearchRequest(user_id=parameters.user_id, query_text=text(parameters), page_size=50)
        if snippet_chars:
            request.highlight.snippet_chars = snippet_chars
        return request.SerializeToString()

    return build


def _build_filtered_lexical_request(parameters: RequestParameters) -> bytes:
    message = parameters.phrase_message
    message_filter = message_pb2.Filter(
        time_range=_build_time_range(message, _FILTER_US), role=message_pb2.Role.ValueType(message.role)
    )
    query = f'"{parameters.phrase}" AND {message.words[0]}'
    return pb.LexicalSearchRequest(
        user_id=parameters.user_id, query_text=query, filter=message_filter
    ).SerializeToString()


def _build_semantic_request(parameters: RequestParameters) -> bytes:
    vector = pb.Embedding(values=parameters.vector)
    return pb.SemanticSearchRequest(user_id=parameters.user_id, query_embedding=vector, top_k=20).SerializeToString()


def _build_hybrid_request(parameters: RequestParameters) -> bytes:
    vector = pb.Embedding(values=parameters.vector)
    return pb.HybridSearchRequest(
        user_id=parameters.user_id, query_text=_build_question(parameters), query_embedding=vector, top_k=20
    ).SerializeToString()


def _build_recall_request(parameters: RequestParameters) -> bytes:
    vector = pb.Embedding(values=parameters.vector)
    return recall_pb.RecallRequest(question=_build_question(parameters), question_embedding=vector).SerializeToString()


def _build_question(parameters: RequestParameters) -> str:
    first, other = parameters.phrase_message.words[0], parameters.words["middle"]
    return (
        f"我什么时候说过{first}和{other}？"
        if parameters.phrase_message.is_chinese
        else f"When did I talk about {first} {other}?"
    )


RequestBuilder = Callable[[RequestParameters], bytes]

_READS: dict[str, tuple[str, RequestBuilder]] = {
    "list": (f"{_QUERY}/ListMessages", _build_list_request),
    "list_window": (f"{_QUERY}/ListMessages", _build_list_time_range_request),
    "neighbors": (f"{_QUERY}/GetNeighbors", _build_neighbors_request),
    "lexical_common": (f"{_QUERY}/LexicalSearch", _make_lexical_request_builder(lambda item: item.words["common"])),
    "lexical_common_highlights": (
        f"{_QUERY}/LexicalSearch",
        _make_lexical_request_builder(lambda item: item.words["common"], snippet_chars=120),
    ),
    "lexical_middle": (f"{_QUERY}/LexicalSearch", _make_lexical_request_builder(lambda item: item.words["middle"])),
    "lexical_rare": (f"{_QUERY}/LexicalSearch", _make_lexical_request_builder(lambda item: item.words["rare"])),
    "lexical_two_words": (
        f"{_QUERY}/LexicalSearch",
        _make_lexical_request_builder(lambda item: f"{item.words['common']} {item.words['middle']}"),
    ),
    "lexical_two_common": (
        f"{_QUERY}/LexicalSearch",
        _make_lexical_request_builder(lambda item: f"{item.words['common']} {item.second}"),
    ),
    "lexical_phrase": (f"{_QUERY}/LexicalSearch", _make_lexical_request_builder(lambda item: f'"{item.phrase}"')),
    "lexical_filtered": (f"{_QUERY}/LexicalSearch", _build_filtered_lexical_request),
    "semantic": (f"{_QUERY}/SemanticSearch", _build_semantic_request),
    "hybrid": (f"{_QUERY}/HybridSearch", _build_hybrid_request),
    "recall": (_RECALL, _build_recall_request),
}
