"""Tells the indexers that the log has changed."""

from __future__ import annotations

import asyncio


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
