"""What a writer was told: which messages must be there, which must not, and of which nobody knows.

A change that was sent and not acknowledged may or may not have happened, so a message has a *set* of states that are
allowed. It shrinks to one with an acknowledgement, or with what all reads agree on after the round.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]
"""A user and a message id."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a message says. `content` has a word that no other version has."""

    content: str
    ts_us: int
    conversation_id: str


State = Version | None
"""None: it is not there."""
_NAMED_MAX = 8
_ABSENT: frozenset[State] = frozenset({None})

Changes = Mapping[Key, State]


@dataclass(frozen=True, slots=True)
class Nameless:
    """A batch that was sent without ids."""

    user_id: str
    request_id: str
    versions: tuple[Version, ...]


@dataclass(slots=True)
class Ledger:
    """The book of one writer, whose users are its own.

    Attributes:
        acknowledged: how many changes of messages were acknowledged.
        open: batches of which nobody knows whether they happened; each as a whole or not at all.
        named: the latest batches without ids that were acknowledged, with the ids that they got.
        tokens: the latest write token, by user.
    """

    users: list[str] = field(default_factory=list)
    acknowledged: int = 0
    open: list[Changes] = field(default_factory=list)
    nameless: dict[str, Nameless] = field(default_factory=dict)
    named: deque[tuple[Nameless, tuple[str, ...]]] = field(default_factory=lambda: deque(maxlen=_NAMED_MAX))
    tokens: dict[str, str] = field(default_factory=dict)
    _allowed: dict[str, dict[str, frozenset[State]]] = field(default_factory=lambda: defaultdict(dict))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, changes: Changes) -> Changes:
        """Note changes that are about to be sent; returns what was certain before, for `refused`."""
        with self._lock:
            before: dict[Key, State] = {}
            for (user_id, item), state in changes.items():
                states = self._allowed[user_id].get(item, _ABSENT)
                before[user_id, item] = next(iter(states))
                self._allowed[user_id][item] = states | {state}
            return before

    def acknowledge(self, changes: Changes, token: str) -> None:
        """Note that changes have happened. `token` is empty where it may be older than what is known already."""
        with self._lock:
            self._set(changes)
            self.tokens |= {user_id: token for user_id, _ in changes if token}
            self.acknowledged += len(changes)

    def refused(self, before: Changes) -> None:
        """Note that changes have not happened, by the server's own word."""
        with self._lock:
            self._set(before)

    def unknown(self, changes: Changes) -> None:
        """Note that nobody knows about changes that were sent. Where all are as they were, there is nothing to know."""
        with self._lock:
            doubtful = {key: state for key, state in changes.items() if len(self._allowed[key[0]][key[1]]) > 1}
            self.open.append(doubtful)

    def doubt_the_rest(self, user_id: str) -> None:
        """Allow what is in doubt to be gone: a deletion by a filter takes it along, so batches may be there in part."""
        with self._lock:
            for item, states in self._allowed[user_id].items():
                if len(states) > 1:
                    self._allowed[user_id][item] = states | _ABSENT
            self.open = [changes for changes in self.open if all(owner != user_id for owner, _ in changes)]

    def name(self, batch: Nameless, ids: Iterable[str], token: str) -> None:
        """Note that a batch without ids is stored under these."""
        named = tuple(ids)
        changes = {(batch.user_id, item): version for item, version in zip(named, batch.versions, strict=True)}
        self.nameless.pop(batch.request_id, None)
        self.named.append((batch, named))
        self.acknowledge(changes, token)

    def certain(self, user_id: str) -> dict[str, State]:
        """Return the states of a user's messages that nobody doubts, by id."""
        with self._lock:
            return {item: next(iter(states)) for item, states in self._allowed[user_id].items() if len(states) == 1}

    def allowed(self, user_id: str) -> dict[str, frozenset[State]]:
        """Return the allowed states of all messages that a user ever had, by id."""
        with self._lock:
            return dict(self._allowed[user_id])

    def settle(self, user_id: str, found: Mapping[str, Version]) -> None:
        """Make certain what was found, where it is allowed: it may not change any more."""
        with self._lock:
            known = self._allowed[user_id]
            for item, states in known.items():
                if found.get(item) in states:
                    known[item] = frozenset({found.get(item)})
            for item, version in found.items():
                known.setdefault(item, frozenset({version}))

    def close_open(self) -> None:
        """Forget the open batches and those without ids: they have been looked at."""
        with self._lock:
            self.open.clear()
            self.nameless.clear()

    def _set(self, changes: Changes) -> None:
        for (user_id, item), state in changes.items():
            self._allowed[user_id][item] = frozenset({state})
