"""One user floods a server with dear queries, another one lists, and a health probe asks.

The flood and the probes are in processes of their own. The probes ask one after another with a pause in between, so
that each wait is one that a quiet user would have had.
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
from load.closed_loop import Metadata, methods
from load.corpus import HEAVY, Notes, unit_vector
from load.words import chinese, english

from nomemory.v1 import query_service_pb2 as pb
from nomemory.v1 import recall_service_pb2 as recall_pb

Figures = dict[str, Any]

CALLERS = (64, 256)
"""How many callers flood, one after the other."""

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
class Dear:
    """One dear query of the flooding user."""

    kind: str
    method: str
    request: bytes
    metadata: Metadata = ()


@dataclass(slots=True)
class Flooded:
    """What the flood got: answers and errors by kind of query, and how many of the errors say when to retry."""

    answered: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    with_retry_info: int = 0


def dear_queries() -> list[Dear]:
    """Return what the flood is made of: 128 terms with 500 highlights, a hybrid search, a recall."""
    random = np.random.default_rng(_SEED)
    vector = pb.Embedding(values=unit_vector(random).tolist())
    words = [word for pair in zip(english(), chinese(), strict=False) for word in pair][:_TERMS]
    lexical = pb.LexicalSearchRequest(user_id=HEAVY, query_text=" ".join(words), page_size=_HIGHLIGHTS)
    lexical.highlight.snippet_chars = 120
    question = f"When did I talk about {' '.join(words[:20])}? 我什么时候说过{''.join(words[1:20:2])}？"
    hybrid = pb.HybridSearchRequest(user_id=HEAVY, query_text=question, query_embedding=vector, top_k=_TOP_K)
    recall = recall_pb.RecallRequest(question=question, question_embedding=vector)
    return [
        Dear("highlights", f"{_QUERY}/LexicalSearch", lexical.SerializeToString()),
        Dear("hybrid", f"{_QUERY}/HybridSearch", hybrid.SerializeToString()),
        Dear("recall", _RECALL, recall.SerializeToString(), (("x-user-id", HEAVY),)),
    ]


def flood(target: str, callers: int, seconds: float) -> Flooded:
    """Flood for a time, in this process. No caller heeds what it is told of when to retry."""
    return uvloop.run(_flood(target, callers, seconds))


def probe(target: str, notes: Notes, seconds: float) -> dict[str, list[float]]:
    """Return the waits of another user's lists and of health probes, in milliseconds."""
    return uvloop.run(_probe(target, notes, seconds))


def wait_figures(found: Sequence[float]) -> Figures:
    """Return the figures of waits."""
    p50, p99 = np.percentile(found, [50, 99])
    return {"count": len(found), "p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2)}


async def _flood(target: str, callers: int, seconds: float) -> Flooded:
    flooded, queries = Flooded(), dear_queries()
    async with AsyncExitStack() as stack:
        on = [await methods(stack, target, dear.method, _CONNECTIONS) for dear in queries]
        end = time.perf_counter() + seconds

        async def caller(number: int) -> None:
            turn = number
            while time.perf_counter() < end:
                dear = queries[turn % len(queries)]
                method = on[turn % len(queries)][number % _CONNECTIONS]
                turn += 1
                await _note(flooded, dear, method(dear.request, metadata=dear.metadata))

        await asyncio.gather(*map(caller, range(callers)))
    return flooded


async def _note(flooded: Flooded, dear: Dear, answer: Awaitable[bytes]) -> None:
    try:
        await answer
    except grpc.aio.AioRpcError as error:
        flooded.errors[f"{dear.kind} {error.code().name}"] += 1
        flooded.with_retry_info += _says_when(error)
    else:
        flooded.answered[dear.kind] += 1


def _says_when(error: grpc.aio.AioRpcError) -> bool:
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        return False
    return status is not None and any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)


async def _probe(target: str, notes: Notes, seconds: float) -> dict[str, list[float]]:
    users = list(notes.typical)
    lists = [pb.ListMessagesRequest(user_id=user, page_size=50).SerializeToString() for user in users]
    checks = [health_pb2.HealthCheckRequest().SerializeToString()]
    async with AsyncExitStack() as stack:
        listing, *_ = await methods(stack, target, f"{_QUERY}/ListMessages", 1)
        checking, *_ = await methods(stack, target, _HEALTH, 1)
        both = await asyncio.gather(_ask(listing, lists, seconds), _ask(checking, checks, seconds))
    return dict(zip(("list", "health"), both, strict=True))


async def _ask(method: Callable[..., Awaitable[bytes]], requests: Sequence[bytes], seconds: float) -> list[float]:
    found, end, turn = list[float](), time.perf_counter() + seconds, 0
    while (began := time.perf_counter()) < end:
        await method(requests[turn % len(requests)], timeout=_PROBE_DEADLINE_S)
        found.append(1000 * (time.perf_counter() - began))
        turn += 1
        await asyncio.sleep(_PAUSE_S)
    return found
