"""Watches a log that another server keeps: while that does not answer, this one says that it does not serve.

Tells the indexers that the log has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol

from nomemory.server.composition.log_store import log_store
from nomemory.server.data_directory import DataDirectory
from nomemory.server.faults import Fault
from nomemory.server.log.protocol import LogReader
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import MESSAGE_LOG, UNREACHABLE, StandingFaults


class SetServing(Protocol):
    """Sets whether the services answer calls."""

    async def __call__(self, *, is_serving: bool) -> None:
        """Set it."""


Watch = Callable[[SetServing], Coroutine[Any, Any, None]]
"""Watches the log until it is cancelled, and reports changes."""


def watch_of(
    settings: Settings, directory: DataDirectory, stack: AsyncExitStack, faults: StandingFaults | None = None
) -> Watch | None:
    """Return what watches the log; None where it is a file of our own.

    Args:
        settings: the configuration.
        directory: of the server.
        stack: takes down what is opened here.
        faults: where it is noted that the log does not answer.
    """
    if settings.server.log is None:
        return None
    log = log_store(settings, directory).reading(None, stack)
    return partial(_watch, log, faults or StandingFaults(), settings.postgres.watch_s)


async def _watch(log: LogReader, faults: StandingFaults, every_s: float, set_serving: SetServing) -> None:
    answered = True
    while True:
        fault = await _fault_of(log, every_s)
        if fault:
            faults.stand(MESSAGE_LOG, UNREACHABLE, fault)
        else:
            faults.clear(MESSAGE_LOG)
        if answered is bool(fault):
            answered = not fault
            await set_serving(is_serving=answered)
        await asyncio.sleep(every_s)


async def _fault_of(log: LogReader, patience_s: float) -> str:
    """Return what keeps the log from answering, or nothing."""
    asked = asyncio.ensure_future(log.sequence())
    try:
        answered, _ = await asyncio.wait({asked}, timeout=patience_s)
    finally:
        asked.cancel()  # it may take long to end: nobody waits for that
    if not answered:
        asked.add_done_callback(_forget)
        return f"no answer within {patience_s:g} s"
    try:
        asked.result()
    except Fault as fault:
        return f"{fault.message}: {fault.metadata.get('cause', '')}"
    return ""


def _forget(asked: asyncio.Future[int]) -> None:
    """Look at how a question ended that nobody waits for, so that its error is not reported as lost."""
    if not asked.cancelled():
        asked.exception()


class CommitSignal:
    """Tells the indexers, from the log writer's thread, that there is something new. Each has an event of its own."""

    def __init__(self) -> None:
        self._followers: list[asyncio.Event] = []
        self._loop = asyncio.get_running_loop()

    def follow(self) -> asyncio.Event:
        """Return an event that is set after each commit, for its indexer to clear."""
        follower = asyncio.Event()
        self._followers.append(follower)
        return follower

    def unfollow(self, follower: asyncio.Event) -> None:
        """Set an event no more."""
        self._followers.remove(follower)

    def announce(self) -> None:
        """Report a commit. Safe to call from any thread."""
        self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        for follower in self._followers:
            follower.set()
