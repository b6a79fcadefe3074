"""Ledger of the expected state of each message.

A change that was sent but not acknowledged may or may not have been applied, so each message has a set of allowed
states. An acknowledgement, or the verification after a round, reduces the set to one state.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[str, str]
"""User id and message id."""


@dataclass(frozen=True, slots=True)
class MessageVersion:
    """A version of a message; its `content` contains a unique word."""

    content: str
    ts_us: int
    conversation_id: str


State = MessageVersion | None
"""A version, or None if the message does not exist."""
_ASSIGNED_MAX = 8
_ABSENT: frozenset[State] = frozenset({None})

Changes = Mapping[Key, State]


@dataclass(frozen=True, slots=True)
class BatchWithoutIds:
    """A batch that was sent without message ids."""

    user_id: str
    request_id: str
    versions: tuple[MessageVersion, ...]


@dataclass(slots=True)
class Ledger:
    """The ledger of one writer, whose users no other writer changes.

    Attributes:
        acknowledged_changes: number of acknowledged message changes.
        open_batches: unacknowledged batches; each was applied completely or not at all.
        batches_without_ids: unacknowledged batches without ids, by request id.
        batches_with_assigned_ids: the latest acknowledged batches without ids, with their assigned ids.
        tokens: the latest write token of each user.
    """

    users: list[str] = field(default_factory=list)
    acknowledged_changes: int = 0
    open_batches: list[Changes] = field(default_factory=list)
    batches_without_ids: dict[str, BatchWithoutIds] = field(default_factory=dict)
    batches_with_assigned_ids: deque[tuple[BatchWithoutIds, tuple[str, ...]]] = field(
        default_factory=lambda: deque(maxlen=_ASSIGNED_MAX)
    )
    tokens: dict[str, str] = field(default_factory=dict)
    _allowed: dict[str, dict[str, frozenset[State]]] = field(default_factory=lambda: defaultdict(dict))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_attempt(self, changes: Changes) -> Changes:
        """Record changes before they are sent; return the previous states, for `record_rejection`."""
        with self._lock:
            before: dict[Key, State] = {}
            for (user_id, item), state in changes.items():
                states = self._allowed[user_id].get(item, _ABSENT)
                before[user_id, item] = next(iter(states))
                self._allowed[user_id][item] = states | {state}
            return before

    def record_acknowledgment(self, changes: Changes, token: str) -> None:
        """Record acknowledged changes; `token` is empty if it may be older than the latest write token."""
        with self._lock:
            self._set_states(changes)
            self.tokens |= {user_id: token for user_id, _ in changes if token}
            self.acknowledged_changes += len(changes)

    def record_rejection(self, before: Changes) -> None:
        """Record that the server rejected changes and applied none of them."""
        with self._lock:
            self._set_states(before)

    def record_unknown_outcome(self, changes: Changes) -> None:
        """Record that the outcome of sent changes is unknown."""
        with self._lock:
            uncertain = {key: state for key, state in changes.items() if len(self._allowed[key[0]][key[1]]) > 1}
            self.open_batches.append(uncertain)

    def allow_partial_deletion(self, user_id: str) -> None:
        """Allow uncertain messages to be absent: a deletion by filter may delete parts of open batches."""
        with self._lock:
            for item, states in self._allowed[user_id].items():
                if len(states) > 1:
                    self._allowed[user_id][item] = states | _ABSENT
            self.open_batches = [
                changes for changes in self.open_batches if all(owner != user_id for owner, _ in changes)
            ]

    def assign_ids(self, batch: BatchWithoutIds, ids: Iterable[str], token: str) -> None:
        """Record the ids that the server assigned to a batch."""
        assigned = tuple(ids)
        changes = {(batch.user_id, item): version for item, version in zip(assigned, batch.versions, strict=True)}
        self.batches_without_ids.pop(batch.request_id, None)
        self.batches_with_assigned_ids.append((batch, assigned))
        self.record_acknowledgment(changes, token)

    def get_certain_states(self, user_id: str) -> dict[str, State]:
        """Return the states of a user's messages whose state is certain, by message id."""
        with self._lock:
            return {item: next(iter(states)) for item, states in self._allowed[user_id].items() if len(states) == 1}

    def get_allowed_states(self, user_id: str) -> dict[str, frozenset[State]]:
        """Return the allowed states of all past and present messages of a user by id."""
        with self._lock:
            return dict(self._allowed[user_id])

    def set_to_stored_states(self, user_id: str, stored: Mapping[str, MessageVersion]) -> None:
        """Reduce the allowed states of a user's messages to the stored states."""
        with self._lock:
            allowed = self._allowed[user_id]
            for item, states in allowed.items():
                if stored.get(item) in states:
                    allowed[item] = frozenset({stored.get(item)})
            for item, version in stored.items():
                allowed.setdefault(item, frozenset({version}))

    def discard_unacknowledged_batches(self) -> None:
        """Remove all unacknowledged batches after verification."""
        with self._lock:
            self.open_batches.clear()
            self.batches_without_ids.clear()

    def _set_states(self, changes: Changes) -> None:
        for (user_id, item), state in changes.items():
            self._allowed[user_id][item] = frozenset({state})
