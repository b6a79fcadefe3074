"""A timeline: the messages of a user that a ranking looks at, as arrays of speakers, times, links and forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from sys import intern
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nomemory.server.message import LoggedMessage, Role
from nomemory.server.message_filter import Filter
from nomemory.server.search.hybrid.message_features import Features, beginning_of, content_of, features_of
from nomemory.server.search.speakers import foremost
from nomemory.text.analysis import streams
from nomemory.text.attachments import without_attachments
from nomemory.text.names import beginning

_LINK_US: Final = 30 * 60 * 1_000_000
"""Messages of one conversation that lie no farther apart follow upon each other."""


_WINDOW: Final = 4
"""Messages on each side, of one conversation, that are around a message."""


_TERMS_CHARS: Final = 1_000
_SHORT: Final = 256
_SHORT_CHARS: Final = 32_000
"""A timeline of no more messages, and of no more characters, is read for words once; an index is asked each time."""


_MESSAGE_BYTES: Final = 350
"""About how many bytes of memory a message takes beside its own."""


_TERMS_BYTES: Final = 250
"""The same of its terms, where those of all messages are read."""


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class _Beginning(NamedTuple):
    """The characters with which a version begins; None: all of them."""

    sequence: int
    chars: int | None


@dataclass(frozen=True)
class Timeline:
    """Messages of one user in their order `(ts, message_id)`; all arrays are parallel to them."""

    logged: Sequence[LoggedMessage]
    features: Sequence[Features]
    _terms: dict[_Beginning, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    _beginnings: dict[int, Timeline] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.logged)

    @property
    def is_short(self) -> bool:
        """Whether to read its messages costs less than to ask an index what stands where."""
        return len(self) <= _SHORT and self._chars <= _SHORT_CHARS

    @cached_property
    def weight(self) -> int:
        """About how many bytes of memory the messages take."""
        beside = _MESSAGE_BYTES + (_TERMS_BYTES if self.is_short else 0)
        return sum(len(message.wire) + beside for message in self.logged) + sum(
            feature.weight for feature in self.features
        )

    @cached_property
    def sequences(self) -> Ints:
        """The versions' sequences."""
        return np.array([message.sequence for message in self.logged], dtype=np.int64)

    @cached_property
    def ts_us(self) -> Ints:
        """When they were said."""
        return np.array([message.ts_us for message in self.logged], dtype=np.int64)

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """The names of those who speak."""
        return tuple(sorted(self._spoke))

    @cached_property
    def foremost(self) -> tuple[str, ...]:
        """The names of those who speak most."""
        return foremost(self._spoke)

    @cached_property
    def is_named(self) -> bool:
        """Whether most messages say who spoke."""
        return 2 * self._spoke.total() > len(self)

    @cached_property
    def spoken_by(self) -> Ints:
        """The place of the speaker's name in `speakers`; -1 where there is none."""
        places = {name: place for place, name in enumerate(self.speakers)}
        if not places:
            return np.full(len(self), -1, dtype=np.int64)
        return np.array([places.get(feature.name, -1) for feature in self.features], dtype=np.int64)

    @cached_property
    def bearers(self) -> Mapping[str, Floats]:
        """The terms of speakers' names; for each, 1 where somebody speaks who bears it."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self.speakers):
            for term in set(streams(name).terms):
                places.setdefault(term, []).append(place)
        return {term: np.isin(self.spoken_by, bearing).astype(np.float64) for term, bearing in places.items()}

    @cached_property
    def roles(self) -> Ints:
        """On whose side they stand: numbers of `Role`."""
        return np.array([feature.role for feature in self.features], dtype=np.int64)

    @cached_property
    def lengths(self) -> Floats:
        """Characters of content."""
        return np.array([feature.chars + 1 for feature in self.features], dtype=np.float64)

    @cached_property
    def mean_length(self) -> float:
        """The mean of the lengths."""
        return float(self.lengths.mean())

    @cached_property
    def asking(self) -> Flags:
        """Whether a message ends with a question."""
        return np.array([feature.asks for feature in self.features], dtype=np.bool_)

    @cached_property
    def saying_little(self) -> Flags:
        """Whether a message asserts nothing; between people with names, whether it ends with a question.

        What people tell an assistant ends in a question as often as not.
        """
        return (
            self.asking if self.is_named else np.array([feature.only_asks for feature in self.features], dtype=np.bool_)
        )

    @cached_property
    def concrete(self) -> Flags:
        """Whether a message names something that is no speaker: a name, a title, a figure."""
        known = set(map(beginning, self.speakers))
        return np.array([not feature.names <= known for feature in self.features], dtype=np.bool_)

    @cached_property
    def when(self) -> Floats:
        """How far a message says when something happened."""
        return np.array([feature.when for feature in self.features], dtype=np.float64)

    @cached_property
    def grouped(self) -> Ints:
        """All places, conversation after conversation; those without a conversation are one."""
        return np.argsort(self._of_conversation, kind="stable")

    @cached_property
    def sizes(self) -> Ints:
        """How many messages each conversation has."""
        return np.bincount(self._of_conversation, minlength=len(self._conversations))

    @cached_property
    def previous(self) -> Ints:
        """The place of the message that one follows upon; -1 for none."""
        before = np.full(len(self), -1, dtype=np.int64)
        within = np.diff(self.talks) == 0
        linked = np.flatnonzero(within & (np.diff(self.ts_us[self.grouped]) <= _LINK_US))
        before[self.grouped[linked + 1]] = self.grouped[linked]
        return before

    @cached_property
    def followers(self) -> Ints:
        """The places of the messages that follow upon another one."""
        return np.flatnonzero(self.previous >= 0)

    @cached_property
    def retractions(self) -> tuple[Ints, Ints]:
        """The places of what was taken back by something that is here, and those of what took each back."""
        marked = [(at, item.retracted_by) for at, item in enumerate(self.logged) if item.retracted_by]
        places = {item.message_id: at for at, item in enumerate(self.logged)} if marked else {}
        here = [(at, places[by]) for at, by in marked if by in places]
        taken, takers = np.array(here, dtype=np.int64).reshape(-1, 2).T
        return taken, takers

    @cached_property
    def retracted(self) -> Flags:
        """Whether a message was taken back, be it by one that is here or not."""
        return np.array([bool(message.retracted_by) for message in self.logged], dtype=np.bool_)

    @cached_property
    def talks(self) -> Ints:
        """The numbers of the conversations, in the order of `grouped`."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def windows(self) -> tuple[Ints, Ints]:
        """Where, in the order of `grouped`, the window around each message begins, and where it has ended."""
        places, ends = np.arange(len(self)), np.cumsum(self.sizes)
        first = np.maximum(places - _WINDOW, np.repeat(ends - self.sizes, self.sizes))
        return first, np.minimum(places + _WINDOW + 1, np.repeat(ends, self.sizes))

    def by(self, role: Role) -> Flags:
        """Mark the messages of a role."""
        spoken: Flags = self.roles == int(role)
        return spoken

    def within(self, narrowed: Filter) -> Flags:
        """Mark the messages that a filter admits."""
        admitted = np.ones(len(self), dtype=np.bool_)
        if narrowed.since_us is not None:
            admitted &= self.ts_us >= narrowed.since_us
        if narrowed.until_us is not None:
            admitted &= self.ts_us < narrowed.until_us
        if narrowed.role is not None:
            admitted &= self.by(narrowed.role)
        if narrowed.conversation_id:
            admitted &= self._of_conversation == self._conversations.get(narrowed.conversation_id, -1)
        for excluded in narrowed.exclude_conversation_ids:
            admitted &= self._of_conversation != self._conversations.get(excluded, -1)
        if narrowed.metadata:
            entries = frozenset(narrowed.metadata)
            admitted &= np.fromiter(
                (entries <= feature.metadata for feature in self.features), dtype=np.bool_, count=len(self)
            )
        return admitted

    def before(self, until_us: int | None) -> Timeline:
        """Return what was said before a time; itself, if that is all."""
        count = len(self) if until_us is None else int(np.searchsorted(self.ts_us, until_us))
        if count == len(self):
            return self
        before = self._beginnings.get(count)
        if before is None:
            self._beginnings.clear()  # who asks several things in a row, asks at one time
            before = self._beginnings[count] = Timeline(self.logged[:count], self.features[:count], self._terms)
        return before

    def located(self, sequences: Ints) -> tuple[Ints, Flags]:
        """Return where versions stand, and which of them do: the place of one that does not means nothing."""
        if not len(self):
            return np.zeros(len(sequences), dtype=np.int64), np.zeros(len(sequences), dtype=np.bool_)
        order, ordered = self._by_sequence
        at = np.minimum(np.searchsorted(ordered, sequences), len(self) - 1)
        return order[at], ordered[at] == sequences

    def terms_at(self, place: int) -> tuple[str, ...]:
        """Return the terms of a message, each once, in an order of their own."""
        return self._terms_within(place, None)

    @cached_property
    def terms(self) -> Sequence[tuple[str, ...]]:
        """The terms of all messages. What is read of one is kept, also with what later becomes of the timeline."""
        return list(map(self.terms_at, range(len(self))))

    def beginning_terms_at(self, place: int) -> tuple[str, ...]:
        """Return the terms of a message; of a long one, those of its beginning."""
        is_long = self.features[place].chars > _TERMS_CHARS
        return self._terms_within(place, _TERMS_CHARS if is_long else None)

    def knowing(self, known: Timeline) -> Timeline:
        """Return it with those of its terms that another timeline has read."""
        here = {message.sequence for message in self.logged}
        return replace(self, _terms={key: terms for key, terms in known._terms.items() if key.sequence in here})

    def text_at(self, place: int) -> str:
        """Return what a message says, without descriptions of what came with it."""
        return without_attachments(beginning_of(self.logged[place]))

    def _terms_within(self, place: int, chars: int | None) -> tuple[str, ...]:
        one = self.logged[place]
        key = _Beginning(one.sequence, chars)
        if key not in self._terms:
            self._terms[key] = tuple(sorted(set(map(intern, streams(content_of(one)[:chars]).terms))))
        return self._terms[key]

    @cached_property
    def _chars(self) -> int:
        return sum(feature.chars for feature in self.features)

    @cached_property
    def _spoke(self) -> Counter[str]:
        return Counter(feature.name for feature in self.features if feature.name)

    @cached_property
    def _conversations(self) -> Mapping[str, int]:
        """The numbers of the conversations, in the order in which they begin."""
        begun = dict.fromkeys(feature.conversation_id for feature in self.features)
        return dict(zip(begun, range(len(begun)), strict=True))

    @cached_property
    def _of_conversation(self) -> Ints:
        numbers = self._conversations
        return np.array([numbers[feature.conversation_id] for feature in self.features], dtype=np.int64)

    @cached_property
    def _by_sequence(self) -> tuple[Ints, Ints]:
        order: Ints = np.argsort(self.sequences)
        return order, self.sequences[order]


def _read(logged: Sequence[LoggedMessage]) -> list[Features]:
    return list(map(features_of, logged))


def timeline(
    logged: Iterable[LoggedMessage],
    known: Timeline | None = None,
    read: Callable[[Sequence[LoggedMessage]], list[Features]] = _read,
) -> Timeline:
    """Make the timeline of messages of one user, in any order, each once.

    Args:
        logged: the messages.
        known: a timeline that has some of them already: what it has read is not read again.
        read: reads what it has not.
    """
    ordered = sorted(logged, key=attrgetter("ts_us", "message_id"))
    if known is None:
        return Timeline(ordered, read(ordered))
    before = dict(zip((item.sequence for item in known.logged), known.features, strict=True))
    fresh = iter(read([message for message in ordered if message.sequence not in before]))
    return Timeline(ordered, [before.get(message.sequence) or next(fresh) for message in ordered]).knowing(known)
