"""The candidate messages of a hybrid search, in time order, with their features as arrays."""

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
from nomemory.server.search.hybrid.message_features import (
    MessageFeatures,
    decode_content,
    decode_leading_content,
    extract_features,
)
from nomemory.server.search.speakers import select_main_speakers
from nomemory.text.analysis import analyze_text
from nomemory.text.attachments import remove_attachments
from nomemory.text.names import get_name_prefix

_MAX_REPLY_GAP_US: Final = 30 * 60 * 1_000_000
"""Maximum time between a message and the message that follows it in the same conversation."""


_WINDOW: Final = 4
"""Messages of the conversation on each side of a message that belong to its window."""


_LEADING_TERMS_CHARS: Final = 1_000
_SHORT: Final = 256
_SHORT_CHARS: Final = 32_000
"""Limits of a short timeline, for which analyzing the messages costs less than reading postings from the index."""


_MESSAGE_BYTES: Final = 350
"""Estimated memory of a message, in addition to its encoded bytes."""


_TERMS_BYTES: Final = 250
"""Estimated memory of the terms of a message in a short timeline."""


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class _TermsKey(NamedTuple):
    """Cache key of a message's terms: the message version, and the number of analyzed characters (None: all)."""

    sequence: int
    chars: int | None


@dataclass(frozen=True)
class Timeline:
    """The candidate messages of one user, ordered by `(ts, message_id)`.

    Every array has one element per message, unless its description states another shape.
    """

    logged: Sequence[LoggedMessage]
    features: Sequence[MessageFeatures]
    _terms: dict[_TermsKey, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    _prefixes: dict[int, Timeline] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.logged)

    @property
    def is_short(self) -> bool:
        """Whether analyzing the messages costs less than reading postings from the index."""
        return len(self) <= _SHORT and self._content_chars <= _SHORT_CHARS

    @cached_property
    def memory_bytes(self) -> int:
        """The estimated memory of the messages and their features."""
        overhead = _MESSAGE_BYTES + (_TERMS_BYTES if self.is_short else 0)
        return sum(len(message.wire) + overhead for message in self.logged) + sum(
            feature.memory_bytes for feature in self.features
        )

    @cached_property
    def sequences(self) -> Ints:
        """The sequence number of each message version."""
        return np.array([message.sequence for message in self.logged], dtype=np.int64)

    @cached_property
    def ts_us(self) -> Ints:
        """The timestamp of each message, in microseconds since the epoch."""
        return np.array([message.ts_us for message in self.logged], dtype=np.int64)

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """The names of all authors, sorted."""
        return tuple(sorted(self._author_counts))

    @cached_property
    def main_speakers(self) -> tuple[str, ...]:
        """The names of the authors with the most messages, sorted."""
        return select_main_speakers(self._author_counts)

    @cached_property
    def has_author_names(self) -> bool:
        """Whether more than half of the messages have an author name."""
        return 2 * self._author_counts.total() > len(self)

    @cached_property
    def speaker_indexes(self) -> Ints:
        """The index of each message's author in `speakers`; -1 for a message without an author name."""
        index_by_name = {name: index for index, name in enumerate(self.speakers)}
        if not index_by_name:
            return np.full(len(self), -1, dtype=np.int64)
        return np.array([index_by_name.get(feature.name, -1) for feature in self.features], dtype=np.int64)

    @cached_property
    def name_terms(self) -> Mapping[str, Floats]:
        """An array for each term of an author name, with 1 for the messages of authors with this term in their name."""
        terms = sorted({term for name in self.speakers for term in analyze_text(name).terms})
        rows = {term: row for row, term in enumerate(terms)}
        has_term = np.zeros((len(terms), len(self.speakers) + 1))  # the last column: no author
        for column, name in enumerate(self.speakers):
            has_term[[rows[term] for term in set(analyze_text(name).terms)], column] = 1.0
        return dict(zip(terms, has_term[:, self.speaker_indexes], strict=True))

    @cached_property
    def roles(self) -> Ints:
        """The role of each message's author, as a number of the enum `Role`."""
        return np.array([feature.role for feature in self.features], dtype=np.int64)

    @cached_property
    def lengths(self) -> Floats:
        """The length of each message's content in characters, plus 1."""
        return np.array([feature.chars + 1 for feature in self.features], dtype=np.float64)

    @cached_property
    def mean_length(self) -> float:
        """The mean of `lengths`, in characters."""
        return float(self.lengths.mean())

    @cached_property
    def ends_with_question(self) -> Flags:
        """A mask of the messages that end with a question."""
        return np.array([feature.ends_with_question for feature in self.features], dtype=np.bool_)

    @cached_property
    def lacks_assertion(self) -> Flags:
        """A mask of messages without an assertion, or, if authors have names, of messages that end with a question.

        Messages to an assistant often state facts and then end with a question. A final question is therefore ignored
        if authors have no names.
        """
        if self.has_author_names:
            return self.ends_with_question
        return np.array([feature.contains_only_questions for feature in self.features], dtype=np.bool_)

    @cached_property
    def has_concrete_content(self) -> Flags:
        """A mask of the messages that contain a number, a title, or a name that is not an author's."""
        authors = set(map(get_name_prefix, self.speakers))
        return np.array([not feature.names <= authors for feature in self.features], dtype=np.bool_)

    @cached_property
    def time_cues(self) -> Floats:
        """A score of each message, 0 to 4/3, for how clearly it states when something happened."""
        return np.array([feature.time_cue for feature in self.features], dtype=np.float64)

    @cached_property
    def conversation_order(self) -> Ints:
        """The indexes of all messages, grouped by conversation. Messages without a conversation form one group."""
        return np.argsort(self._conversation_numbers, kind="stable")

    @cached_property
    def conversation_sizes(self) -> Ints:
        """The number of messages in each conversation."""
        return np.bincount(self._conversation_numbers, minlength=len(self._number_by_conversation))

    @cached_property
    def previous_indexes(self) -> Ints:
        """The index of each message's predecessor in its conversation; -1 if there is none within 30 minutes."""
        previous = np.full(len(self), -1, dtype=np.int64)
        is_same_conversation = np.diff(self.ordered_conversation_numbers) == 0
        linked = np.flatnonzero(
            is_same_conversation & (np.diff(self.ts_us[self.conversation_order]) <= _MAX_REPLY_GAP_US)
        )
        previous[self.conversation_order[linked + 1]] = self.conversation_order[linked]
        return previous

    @cached_property
    def follower_indexes(self) -> Ints:
        """The indexes of the messages for which `previous_indexes` is not -1."""
        return np.flatnonzero(self.previous_indexes >= 0)

    @cached_property
    def retraction_pairs(self) -> tuple[Ints, Ints]:
        """Parallel arrays of indexes: the retracted messages, and the messages that retract them."""
        marked = [(index, message.retracted_by) for index, message in enumerate(self.logged) if message.retracted_by]
        index_by_id = {message.message_id: index for index, message in enumerate(self.logged)} if marked else {}
        pairs = [(index, index_by_id[by]) for index, by in marked if by in index_by_id]
        retracted, retracting = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return retracted, retracting

    @cached_property
    def is_retracted(self) -> Flags:
        """A mask of the retracted messages, including those whose retracting message is not a candidate."""
        return np.array([bool(message.retracted_by) for message in self.logged], dtype=np.bool_)

    @cached_property
    def ordered_conversation_numbers(self) -> Ints:
        """The conversation number of each message, in the order of `conversation_order`."""
        return np.repeat(np.arange(len(self.conversation_sizes)), self.conversation_sizes)

    @cached_property
    def window_bounds(self) -> tuple[Ints, Ints]:
        """The start and the exclusive end of each message's context window, in the order of `conversation_order`."""
        indexes, ends = np.arange(len(self)), np.cumsum(self.conversation_sizes)
        first = np.maximum(indexes - _WINDOW, np.repeat(ends - self.conversation_sizes, self.conversation_sizes))
        return first, np.minimum(indexes + _WINDOW + 1, np.repeat(ends, self.conversation_sizes))

    def build_role_mask(self, role: Role) -> Flags:
        """Return a mask of the messages by authors with a role."""
        mask: Flags = self.roles == int(role)
        return mask

    def build_filter_mask(self, message_filter: Filter) -> Flags:
        """Return a mask of the messages that pass a filter."""
        mask = np.ones(len(self), dtype=np.bool_)
        if message_filter.since_us is not None:
            mask &= self.ts_us >= message_filter.since_us
        if message_filter.until_us is not None:
            mask &= self.ts_us < message_filter.until_us
        if message_filter.role is not None:
            mask &= self.build_role_mask(message_filter.role)
        if message_filter.conversation_id:
            mask &= self._conversation_numbers == self._number_by_conversation.get(message_filter.conversation_id, -1)
        for excluded in message_filter.exclude_conversation_ids:
            mask &= self._conversation_numbers != self._number_by_conversation.get(excluded, -1)
        if message_filter.metadata:
            entries = frozenset(message_filter.metadata)
            mask &= np.fromiter(
                (entries <= feature.metadata for feature in self.features), dtype=np.bool_, count=len(self)
            )
        return mask

    def truncate(self, until_us: int | None) -> Timeline:
        """Return the candidate messages before a time; the same object if all of them are before this time."""
        count = len(self) if until_us is None else int(np.searchsorted(self.ts_us, until_us))
        if count == len(self):
            return self
        prefix = self._prefixes.get(count)
        if prefix is None:
            self._prefixes.clear()  # consecutive questions usually have the same end of the range
            prefix = self._prefixes[count] = Timeline(self.logged[:count], self.features[:count], self._terms)
        return prefix

    def locate_versions(self, sequences: Ints) -> tuple[Ints, Flags]:
        """Return the index of each version, and a mask that is False for versions that are not candidates."""
        if not len(self):
            return np.zeros(len(sequences), dtype=np.int64), np.zeros(len(sequences), dtype=np.bool_)
        order, ordered = self._sequence_index
        at = np.minimum(np.searchsorted(ordered, sequences), len(self) - 1)
        return order[at], ordered[at] == sequences

    def get_message_terms(self, index: int) -> tuple[str, ...]:
        """Return the distinct terms of a message, sorted."""
        return self._extract_terms(index, None)

    @cached_property
    def terms(self) -> Sequence[tuple[str, ...]]:
        """The distinct terms of each message.

        The cache of the terms is shared with the objects that `truncate` returns.
        """
        return list(map(self.get_message_terms, range(len(self))))

    def get_leading_terms(self, index: int) -> tuple[str, ...]:
        """Return the distinct terms of the first 1,000 characters of a message."""
        is_long = self.features[index].chars > _LEADING_TERMS_CHARS
        return self._extract_terms(index, _LEADING_TERMS_CHARS if is_long else None)

    def reuse_terms(self, previous: Timeline) -> Timeline:
        """Return a copy that reuses the terms that `previous` has cached."""
        sequences = {message.sequence for message in self.logged}
        return replace(self, _terms={key: terms for key, terms in previous._terms.items() if key.sequence in sequences})

    def get_leading_text(self, index: int) -> str:
        """Return the leading content of a message, without descriptions of attachments."""
        return remove_attachments(decode_leading_content(self.logged[index]))

    def _extract_terms(self, index: int, chars: int | None) -> tuple[str, ...]:
        message = self.logged[index]
        key = _TermsKey(message.sequence, chars)
        if key not in self._terms:
            self._terms[key] = tuple(sorted(set(map(intern, analyze_text(decode_content(message)[:chars]).terms))))
        return self._terms[key]

    @cached_property
    def _content_chars(self) -> int:
        return sum(feature.chars for feature in self.features)

    @cached_property
    def _author_counts(self) -> Counter[str]:
        return Counter(feature.name for feature in self.features if feature.name)

    @cached_property
    def _number_by_conversation(self) -> Mapping[str, int]:
        """The number of each conversation, counted from 0 in the order of the first messages."""
        conversation_ids = dict.fromkeys(feature.conversation_id for feature in self.features)
        return dict(zip(conversation_ids, range(len(conversation_ids)), strict=True))

    @cached_property
    def _conversation_numbers(self) -> Ints:
        numbers = self._number_by_conversation
        return np.array([numbers[feature.conversation_id] for feature in self.features], dtype=np.int64)

    @cached_property
    def _sequence_index(self) -> tuple[Ints, Ints]:
        order: Ints = np.argsort(self.sequences)
        return order, self.sequences[order]


def _extract_all_features(logged: Sequence[LoggedMessage]) -> list[MessageFeatures]:
    return list(map(extract_features, logged))


def build_timeline(
    messages: Iterable[LoggedMessage],
    previous: Timeline | None = None,
    read_features: Callable[[Sequence[LoggedMessage]], list[MessageFeatures]] = _extract_all_features,
) -> Timeline:
    """Extract the features of a user's candidate messages, and sort the messages by time.

    Args:
        messages: the candidate messages, in any order, without duplicates.
        previous: an earlier result for the same user, whose features and terms are reused.
        read_features: returns the features of messages that `previous` does not contain.
    """
    ordered = sorted(messages, key=attrgetter("ts_us", "message_id"))
    if previous is None:
        return Timeline(ordered, read_features(ordered))
    reusable = dict(zip((message.sequence for message in previous.logged), previous.features, strict=True))
    fresh = iter(read_features([message for message in ordered if message.sequence not in reusable]))
    features = [reusable.get(message.sequence) or next(fresh) for message in ordered]
    return Timeline(ordered, features).reuse_terms(previous)
