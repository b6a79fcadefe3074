"""A signal that wakes the indexers after each commit to the message log."""

from __future__ import annotations

import asyncio


class CommitSignal:
    """Sets the event of each indexer after a commit to the message log."""

    def __init__(self) -> None:
        self._followers: list[asyncio.Event] = []
        self._loop = asyncio.get_running_loop()

    def subscribe(self) -> asyncio.Event:
        """Return a new event that is set after each commit. The subscriber must clear the event."""
        follower = asyncio.Event()
        self._followers.append(follower)
        return follower

    def unsubscribe(self, follower: asyncio.Event) -> None:
        """Remove an event."""
        self._followers.remove(follower)

    def announce(self) -> None:
        """Set all events. Thread-safe."""
        self._loop.call_soon_threadsafe(self._set_events)

    def _set_events(self) -> None:
        for follower in self._followers:
            follower.set()
