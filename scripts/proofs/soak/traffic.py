"""Traffic of a chat product at a constant rate: mostly reads, some writes, and a deletion for each write.

Each user has a constant number of messages, so that the data does not cause growth in the server.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from nomemory.client import channel
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub

USERS = 200
KEPT = 40
"""Number of messages of each user."""
_CONNECTIONS = 4
_CALIBRATING = 16
_IN_FLIGHT_MAX = 256
_TIMEOUT_S = 30.0
_WORDS = 2_000
_BEGIN_S = 1_750_000_000
_WEIGHTS = {"list": 30, "lexical": 20, "semantic": 15, "hybrid": 8, "neighbors": 10, "recall": 2, "write": 15}


@dataclass(slots=True)
class CallStatistics:
    """Latencies and errors of the calls since the previous sample.

    Attributes:
        waits_ms: latency of each successful call in milliseconds.
        errors: number of failed calls by kind and status.
        skipped_calls: number of calls that were skipped because too many were in flight.
    """

    waits_ms: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    skipped_calls: int = 0


class TrafficGenerator:
    """Load generator that retries unavailable calls like the client library.

    Args:
        target: HOST:PORT of the server.
    """

    def __init__(self, target: str, dimension: int, seed: int) -> None:
        self._target = target
        self._dimension = dimension
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._message_ids: dict[str, deque[str]] = {f"soak-{n}": deque() for n in range(USERS)}
        self._written = 0
        self._waits = CallStatistics()
        self._stubs: list[tuple[Any, Any, Any]] = []  # grpc.aio, which the types of the stubs do not support
        self._channels: list[grpc.aio.Channel] = []

    async def open(self) -> None:
        """Connect and write the messages of every user."""
        options = [
            *channel.build_channel_options(self._target, channel.MAX_ATTEMPTS),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", 64 << 20),
        ]
        self._channels = [grpc.aio.insecure_channel(self._target, options) for _ in range(_CONNECTIONS)]
        self._stubs = [
            (QueryServiceStub(item), IngestServiceStub(item), RecallServiceStub(item)) for item in self._channels
        ]
        for user_id, ids in self._message_ids.items():
            messages = [self._create_message(user_id) for _ in range(KEPT)]
            ids.extend(message.message_id for message in messages)
            await self._stubs[0][1].WriteMessages(i.WriteMessagesRequest(messages=messages), timeout=_TIMEOUT_S)

    async def close(self) -> None:
        """Close the connections."""
        for item in self._channels:
            await item.close()

    async def warm_up(self, calls: int) -> None:
        """Send calls in a closed loop, to fill the caches of the server."""
        remaining = iter(range(calls))

        async def send_requests() -> None:
            for _ in remaining:
                await self._send_call()

        await asyncio.gather(*(send_requests() for _ in range(_CALIBRATING)))

    async def measure_capacity(self, seconds: float) -> float:
        """Return the throughput of a closed loop in calls per second."""
        ends, answered = time.monotonic() + seconds, 0

        async def send_requests() -> None:
            nonlocal answered
            while time.monotonic() < ends:
                await self._send_call()
                answered += 1

        await asyncio.gather(*(send_requests() for _ in range(_CALIBRATING)))
        return answered / seconds

    async def send_steady_load(self, rate: float, ends: float) -> None:
        """Send calls in an open loop with Poisson arrivals until a time of the monotonic clock."""
        in_flight: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        while due < ends:
            due += self._random.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(in_flight) >= _IN_FLIGHT_MAX:
                self._waits.skipped_calls += 1
                continue
            task = asyncio.create_task(self._send_call())
            in_flight.add(task)
            task.add_done_callback(in_flight.discard)
        await asyncio.gather(*in_flight)

    def take_statistics(self) -> CallStatistics:
        """Return and reset the statistics of the calls."""
        waits, self._waits = self._waits, CallStatistics()
        return waits

    async def _send_call(self) -> None:
        kind = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        began = time.perf_counter()
        try:
            await self._build_calls_by_kind()[kind](self._random.choice(list(self._message_ids)))
        except grpc.aio.AioRpcError as error:
            self._waits.errors[f"{kind}: {error.code().name}"] += 1
            return
        self._waits.waits_ms.append(1000 * (time.perf_counter() - began))

    def _build_calls_by_kind(self) -> dict[str, Callable[[str], Awaitable[object]]]:
        query, _, recall = self._random.choice(self._stubs)
        vector = q.Embedding(values=self._draw_vector())
        word, timeout = self._draw_word(), _TIMEOUT_S
        return {
            "list": lambda user: query.ListMessages(q.ListMessagesRequest(user_id=user), timeout=timeout),
            "lexical": lambda user: query.LexicalSearch(
                q.LexicalSearchRequest(user_id=user, query_text=f"{word} soaked", highlight=q.HighlightOptions()),
                timeout=timeout,
            ),
            "semantic": lambda user: query.SemanticSearch(
                q.SemanticSearchRequest(user_id=user, query_embedding=vector), timeout=timeout
            ),
            "hybrid": lambda user: query.HybridSearch(
                q.HybridSearchRequest(user_id=user, query_text=f"When did I say {word}?", query_embedding=vector),
                timeout=timeout,
            ),
            "neighbors": lambda user: query.GetNeighbors(
                q.GetNeighborsRequest(user_id=user, message_id=self._message_ids[user][-1]), timeout=timeout
            ),
            "recall": lambda user: recall.Recall(
                r.RecallRequest(question=f"When did I say {word}?", question_embedding=vector),
                metadata=(("x-user-id", user),),
                timeout=timeout,
            ),
            "write": self._write_and_delete,
        }

    async def _write_and_delete(self, user_id: str) -> None:
        """Write a message and delete the oldest message of the user."""
        _, ingest, _ = self._random.choice(self._stubs)
        message = self._create_message(user_id)
        await ingest.WriteMessages(i.WriteMessagesRequest(messages=[message]), timeout=_TIMEOUT_S)
        self._message_ids[user_id].append(message.message_id)
        oldest = self._message_ids[user_id].popleft()
        await ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user_id, message_ids=[oldest]), timeout=_TIMEOUT_S)

    def _create_message(self, user_id: str) -> message_pb2.ChatMessage:
        self._written += 1
        words = " ".join(self._draw_word() for _ in range(self._random.randint(5, 40)))
        message = message_pb2.ChatMessage(
            user_id=user_id,
            message_id=f"m{self._written}",
            role=message_pb2.ROLE_USER if self._written % 2 else message_pb2.ROLE_ASSISTANT,
            content=f"soaked {words}",
            conversation_id=f"c{self._written // 20}",
            embedding=self._draw_vector(),
        )
        message.ts.FromSeconds(_BEGIN_S + self._written)
        return message

    def _draw_word(self) -> str:
        return f"word{min(self._random.randrange(_WORDS), self._random.randrange(_WORDS))}"

    def _draw_vector(self) -> Sequence[float]:
        return [self._random.gauss(0, 1) for _ in range(self._dimension)]
