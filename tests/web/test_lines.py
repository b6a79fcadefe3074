"""Tests for line-by-line parsing of bodies, including blank lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Message

from nomemory.server.api.http.request_body import RequestBody
from nomemory.server.api.limits import Reserve

LINE = st.sampled_from([b"", b" ", b"\r", b"{}", b' {"a": 1} ', b"\t"])


async def lines_of(parts: list[bytes]) -> list[bytes]:
    messages = iter([*({"body": part, "more_body": True} for part in parts), {"body": b"", "more_body": False}])

    async def receive() -> Message:
        return {"type": "http.request", **next(messages)}

    body = RequestBody(Headers({"transfer-encoding": "chunked"}), receive, 1000)
    return [line async for line in read_lines(body, lambda _size: None)]


async def read_lines(body: RequestBody, reserve: Reserve) -> AsyncIterator[bytes]:
    while (line := await body.read_line(reserve)) is not None:
        yield line


@given(st.lists(LINE, max_size=30), st.lists(st.integers(0, 200), max_size=5))
def test_blank_lines_are_skipped(lines: list[bytes], cuts: list[int]) -> None:
    body, cut_points = b"\n".join(lines), sorted({0, *cuts, 10_000})
    parts = [body[begin:end] for begin, end in pairwise(cut_points)]
    assert asyncio.run(lines_of(parts)) == [line.strip() for line in lines if line.strip()]


async def test_blank_lines_do_not_block_other_tasks() -> None:
    reading, turns = asyncio.ensure_future(lines_of([b"\n" * 65_536] * 80 + [b"{}"])), 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reading, turns >= 80) == ([b"{}"], True)


async def test_memory_is_reserved_while_a_line_arrives() -> None:
    reserved = list[int]()
    parts = iter([b"{", b" " * 400, b" " * 400])

    async def receive() -> Message:
        part = next(parts, None)
        if part is None:
            assert sum(reserved) == 801
        return {"type": "http.request", "body": part or b"}", "more_body": part is not None}

    body = RequestBody(Headers({"transfer-encoding": "chunked"}), receive, 1000)
    assert await body.read_line(reserved.append) == b"{" + b" " * 800 + b"}"
