"""Wakes the indexers after each commit to the message log."""

from __future__ import annotations

import asyncio


class CommitSignal:
    """Sets one event per indexer after each commit. The log's writer announces commits from its own thread."""

    def __init__(self) -> None:
        self._followers: list[asyncio.Event] = []
        self._loop = asyncio.get_running_loop()

    def follow(self) -> asyncio.Event:
        """Return an event that is set after each commit. Its indexer clears it."""
        follower = asyncio.Event()
        self._followers.append(follower)
        return follower

    def unfollow(self, follower: asyncio.Event) -> None:
        """Stop setting an event."""
        self._followers.remove(follower)

    def announce(self) -> None:
        """Report a commit. Safe to call from any thread."""
        self._loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        for follower in self._followers:
            follower.set()
