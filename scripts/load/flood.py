"""Flood a server with expensive queries of one user, and measure the latency of another user and of health checks.

The flood and the probes run in separate processes. Each probe sends one call at a time with pauses, so its latencies
represent a light user.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import uvloop
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2
from grpc_status import rpc_status
from load.closed_loop import Metadata, open_methods
from load.corpus import HEAVY, CorpusSample, draw_unit_vector
from load.words import build_chinese_vocabulary, build_english_vocabulary

from nomemory.v1 import query_service_pb2 as pb
from nomemory.v1 import recall_service_pb2 as recall_pb

Figures = dict[str, Any]

CALLERS = (64, 256)
"""Numbers of flooding callers, measured one after another."""

_HEALTH = "/grpc.health.v1.Health/Check"
_QUERY = "/nomemory.v1.QueryService"
_RECALL = "/nomemory.v1.RecallService/Recall"
_TERMS = 128
_HIGHLIGHTS = 500
_TOP_K = 200
_CONNECTIONS = 8
_PAUSE_S = 0.01
_PROBE_DEADLINE_S = 30.0
_SEED = 13


@dataclass(frozen=True, slots=True)
class ExpensiveQuery:
    """One query that the flooding user sends repeatedly."""

    kind: str
    method: str
    request: bytes
    metadata: Metadata = ()


@dataclass(slots=True)
class FloodOutcome:
    """The numbers of replies and errors for each kind of query, and the number of errors with RetryInfo."""

    answered: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    with_retry_info: int = 0


def build_expensive_queries() -> list[ExpensiveQuery]:
    """Return the queries of the flood: a search for 128 terms with 500 highlights, a hybrid search, and a recall."""
    random = np.random.default_rng(_SEED)
    vector = pb.Embedding(values=draw_unit_vector(random).tolist())
    words = [
        word for pair in zip(build_english_vocabulary(), build_chinese_vocabulary(), strict=False) for word in pair
    ][:_TERMS]
    lexical = pb.LexicalSearchRequest(user_id=HEAVY, query_text=" ".join(words), page_size=_HIGHLIGHTS)
    lexical.highlight.snippet_chars = 120
    question = f"When did I talk about {' '.join(words[:20])}? 我什么时候说过{''.join(words[1:20:2])}？"
    hybrid = pb.HybridSearchRequest(user_id=HEAVY, query_text=question, query_embedding=vector, top_k=_TOP_K)
    recall = recall_pb.RecallRequest(question=question, question_embedding=vector)
    return [
        ExpensiveQuery("highlights", f"{_QUERY}/LexicalSearch", lexical.SerializeToString()),
        ExpensiveQuery("hybrid", f"{_QUERY}/HybridSearch", hybrid.SerializeToString()),
        ExpensiveQuery("recall", _RECALL, recall.SerializeToString(), (("x-user-id", HEAVY),)),
    ]


def run_flood(target: str, callers: int, seconds: float) -> FloodOutcome:
    """Flood the server from this process with `callers` concurrent callers, which ignore RetryInfo."""
    return uvloop.run(_run_flood(target, callers, seconds))


def measure_probe_latencies(target: str, sample: CorpusSample, seconds: float) -> dict[str, list[float]]:
    """Return the latencies in milliseconds of list calls of typical users and of health checks."""
    return uvloop.run(_measure_probe_latencies(target, sample, seconds))


def summarize_latencies(waits_ms: Sequence[float]) -> Figures:
    """Return the number, the median and the 99th percentile of latencies."""
    p50, p99 = np.percentile(waits_ms, [50, 99])
    return {"count": len(waits_ms), "p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2)}


async def _run_flood(target: str, callers: int, seconds: float) -> FloodOutcome:
    outcome, queries = FloodOutcome(), build_expensive_queries()
    async with AsyncExitStack() as stack:
        channels = [await open_methods(stack, target, query.method, _CONNECTIONS) for query in queries]
        end = time.perf_counter() + seconds

        async def caller(number: int) -> None:
            turn = number
            while time.perf_counter() < end:
                query = queries[turn % len(queries)]
                method = channels[turn % len(queries)][number % _CONNECTIONS]
                turn += 1
                await _record_reply(outcome, query, method(query.request, metadata=query.metadata))

        await asyncio.gather(*map(caller, range(callers)))
    return outcome


async def _record_reply(outcome: FloodOutcome, query: ExpensiveQuery, answer: Awaitable[bytes]) -> None:
    try:
        await answer
    except grpc.aio.AioRpcError as error:
        outcome.errors[f"{query.kind} {error.code().name}"] += 1
        outcome.with_retry_info += _has_retry_info(error)
    else:
        outcome.answered[query.kind] += 1


def _has_retry_info(error: grpc.aio.AioRpcError) -> bool:
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        return False
    return status is not None and any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)


async def _measure_probe_latencies(target: str, sample: CorpusSample, seconds: float) -> dict[str, list[float]]:
    users = list(sample.typical)
    lists = [pb.ListMessagesRequest(user_id=user, page_size=50).SerializeToString() for user in users]
    checks = [health_pb2.HealthCheckRequest().SerializeToString()]
    async with AsyncExitStack() as stack:
        listing, *_ = await open_methods(stack, target, f"{_QUERY}/ListMessages", 1)
        checking, *_ = await open_methods(stack, target, _HEALTH, 1)
        both = await asyncio.gather(
            _call_repeatedly(listing, lists, seconds), _call_repeatedly(checking, checks, seconds)
        )
    return dict(zip(("list", "health"), both, strict=True))


async def _call_repeatedly(
    method: Callable[..., Awaitable[bytes]], requests: Sequence[bytes], seconds: float
) -> list[float]:
    waits_ms, end, turn = list[float](), time.perf_counter() + seconds, 0
    while (began := time.perf_counter()) < end:
        await method(requests[turn % len(requests)], timeout=_PROBE_DEADLINE_S)
        waits_ms.append(1000 * (time.perf_counter() - began))
        turn += 1
        await asyncio.sleep(_PAUSE_S)
    return waits_ms
