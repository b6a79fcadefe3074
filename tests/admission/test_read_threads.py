"""Tests for the thread pool of expensive reads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nomemory.server.runtime.read_threads import ReadThreads


async def test_function_runs_outside_the_event_loop() -> None:
    threads, begun, end = ReadThreads(1), threading.Event(), threading.Event()

    def block(answer: str) -> str:
        begun.set()
        end.wait()
        return answer

    running = asyncio.create_task(threads.run(block, "answer"))
    await asyncio.to_thread(begun.wait)
    end.set()
    assert await running == "answer"
    await threads.close()


async def test_cancelled_caller_returns_and_close_waits_for_the_function() -> None:
    threads, begun, end, ended = ReadThreads(1), threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        end.wait()
        ended.set()

    running = asyncio.create_task(threads.run(block))
    await asyncio.to_thread(begun.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    closing = asyncio.create_task(threads.close())
    end.set()
    await closing
    assert ended.is_set()
