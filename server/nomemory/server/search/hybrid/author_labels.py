"""Find names in a question that are author labels of many messages, and so do not identify the question's topic.

Chats that were copied into a message log have the author's name in the content, as in "Ann: see you at 8". In a message
log of copied chats, the user's own name is in many messages, and a question with this name is semantically similar to
all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cachetools import LRUCache

from nomemory.server.message_filter import Filter
from nomemory.server.search.grammar.tree import Leaf, Query, TokenField
from nomemory.server.search.hybrid.message_features import decode_content
from nomemory.server.search.lexical.protocol import LexicalIndex, LexicalSearch
from nomemory.server.store.protocol import LogReader
from nomemory.text.analysis import extract_ranking_terms, tokenize
from nomemory.text.question_words import remove_question_words

_MIN_SHARE: Final = 0.04
"""Minimum share of the messages that contain a term of the name."""
_MAX_TERMS: Final = 64
"""Number of terms at the start of a question that are checked."""
_SAMPLED: Final = 8
"""Number of messages in which a colon follows the term; the newest are read."""
_MIN_LABELED: Final = 3
"""Minimum number of sampled messages that begin with the name."""
_CACHED_LABELS: Final = 4096
"""Number of cached results of `_find_labels`."""
_COLON: Final = ":"
_LABEL: Final = re.compile(r"([^\W\d_][^\s:：，。,.]{1,31})\s?[：:]")
"""A label at the start of a message: a name without spaces, and a colon."""


class _LabelsKey(NamedTuple):
    """Cache key of the author labels that contain a term. The number of messages changes when messages are added."""

    user_id: str
    until_us: int | None
    tokens: tuple[str, ...]
    message_count: int


@dataclass(frozen=True, slots=True)
class AuthorLabelFinder:
    """Finds the names in a question that are author labels ("Ann: …") of many messages.

    Attributes:
        max_sequences: the value that is passed to `LexicalIndex.read_postings`. If the candidate search passes the same
            value, the two searches share cached postings.
    """

    lexical: LexicalIndex
    log: LogReader
    max_sequences: int
    _labels: LRUCache[_LabelsKey, Sequence[str]] = field(default_factory=lambda: LRUCache(_CACHED_LABELS), init=False)

    async def find_frequent_names(
        self, user_id: str, question: str, until_us: int | None, total: int
    ) -> tuple[str, ...]:
        """Return the names in a question that are author labels ("Ann: …") and occur in at least 4 % of the messages.

        `until_us` is the exclusive end of the time range; None means that the range has no end. `total` is the number
        of the user's messages in the range.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """
        before, leaves = Filter(until_us=until_us), _list_term_leaves(question)
        postings = await self.lexical.read_postings(user_id, list(leaves), before, self.max_sequences)
        frequent = [
            (leaf, posting.count)
            for leaf, posting in zip(leaves.values(), postings, strict=True)
            if posting.count >= _MIN_SHARE * total
        ]
        names = [name for leaf, count in frequent for name in await self._read_labels(user_id, leaf, before, count)]
        return tuple(dict.fromkeys(name for name in names if name in question))

    async def _read_labels(self, user_id: str, leaf: Leaf, before: Filter, message_count: int) -> Sequence[str]:
        """Return the result of `_find_labels`, cached until the number of messages with the term changes."""
        key = _LabelsKey(user_id, before.until_us, leaf.tokens, message_count)
        labels = self._labels.get(key)
        if labels is None:
            labels = self._labels[key] = await self._find_labels(user_id, leaf, before)
        return labels

    async def _find_labels(self, user_id: str, leaf: Leaf, before: Filter) -> list[str]:
        """Return the author labels that at least three of the newest messages begin with.

        Only messages in which a colon follows the term are read.
        """
        query = Query(Leaf(TokenField.CHARS, (*leaf.tokens, _COLON)))
        ranking = await self.lexical.freeze(user_id, query, before)
        hits = await self.lexical.search(LexicalSearch(user_id, query, ranking, before, None, _SAMPLED))
        messages = await self.log.read_versions(user_id, [hit.sequence for hit in hits[:_SAMPLED]])
        labels = Counter(label[1] for message in messages.values() if (label := _LABEL.match(decode_content(message))))
        return [name for name, count in labels.items() if count >= _MIN_LABELED]


def _list_term_leaves(question: str) -> dict[str, Leaf]:
    """Map the first terms of a question to phrases of their tokens."""
    tokens = tokenize(remove_question_words(question))
    return {
        term.text: Leaf(TokenField.CHARS, tuple(token.text for token in tokens if term.start <= token.start < term.end))
        for term in list(extract_ranking_terms(tokens))[:_MAX_TERMS]
    }
