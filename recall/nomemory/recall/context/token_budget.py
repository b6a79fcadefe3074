"""Select messages within a token limit, and truncate long messages at sentence ends."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from datetime import tzinfo
from typing import Final

from nomemory.client.prompt_passages import count_tokens
from nomemory.recall.context.prompt_text import add_fences, format_message_line, is_outdated, render_headings
from nomemory.recall.context.result import ContextMessage
from nomemory.text.sentences import SENTENCE_END, mask_quotations

_MIN_SHARE_TOKENS: Final = 60
"""Minimum share of a message, in tokens, unless the limit of its section is lower."""


class MessageSelection:
    """Messages selected for a context, which together stay within a token limit.

    Args:
        max_tokens: maximum number of estimated tokens in the prompt text.
        zone: time zone for dates in the prompt text.
    """

    def __init__(self, max_tokens: int, zone: tzinfo | None) -> None:
        self._max_tokens = max_tokens
        self._zone = zone
        self._line_tokens = 0
        self.recent_token_count = 0
        """The number of tokens in the lines of the current conversation."""
        self._explains_marks = False
        self.related: list[ContextMessage] = []
        self.recent: list[ContextMessage] = []
        self.truncated = False
        """Whether a message was truncated or dropped."""

    def add_related_message(self, item: ContextMessage, share: int) -> bool:
        """Add a message of another conversation if it fits, truncated to `share` tokens."""
        return self._add_message(self.related, item, share)

    def add_recent_message(self, item: ContextMessage, share: int, section_limit: int) -> bool:
        """Add a message of the current conversation, truncated to `share` tokens, if it fits.

        `section_limit` is the maximum number of tokens of all messages of the current conversation.
        """
        previous_tokens = self._line_tokens
        is_added = self._add_message(self.recent, item, min(share, section_limit - self.recent_token_count))
        self.recent_token_count += self._line_tokens - previous_tokens
        return is_added

    def count_remaining_tokens(self, item: ContextMessage, section: list[ContextMessage]) -> int:
        """Return the number of tokens that are left for a line in the given section."""
        heading_text = render_headings(
            has_related=bool(self.related) or section is self.related,
            has_recent=bool(self.recent) or section is self.recent,
        )
        explains_marks = self._explains_marks or is_outdated(item)
        frame_tokens = count_tokens(add_fences(heading_text, self._zone, explains_marks=explains_marks))
        return self._max_tokens - frame_tokens - self._line_tokens

    def _add_message(self, section: list[ContextMessage], item: ContextMessage, share: int) -> bool:
        fitting = self._truncate_to_fit(item, min(share, self.count_remaining_tokens(item, section)))
        self.truncated |= fitting is None or fitting.truncated
        if fitting is None:
            return False
        section.append(fitting)
        self._line_tokens += self._count_line_tokens(fitting)
        self._explains_marks |= is_outdated(fitting)
        return True

    def _truncate_to_fit(self, item: ContextMessage, limit: int) -> ContextMessage | None:
        """Return a message, truncated at a sentence end if necessary; None if its first sentence does not fit."""
        if self._count_line_tokens(item) <= limit:
            return item
        content = item.message.content
        ends = [match.end() for match in SENTENCE_END.finditer(mask_quotations(content))]
        fitting = bisect_right(ends, limit, key=lambda end: self._count_line_tokens(_truncate_content(item, end)))
        shown = _truncate_content(item, ends[fitting - 1]) if fitting else None
        return shown if shown and shown.message.content.strip() else None

    def _count_line_tokens(self, item: ContextMessage) -> int:
        return count_tokens(f"{format_message_line(item, self._zone)}\n")


def compute_token_share(token_limit: int, share_count: int) -> int:
    """Return the token limit for one message: an equal share of `token_limit`, but at least `_MIN_SHARE_TOKENS`.

    If `token_limit` is lower than `_MIN_SHARE_TOKENS`, the result is `token_limit`.
    """
    return max(token_limit // share_count, min(token_limit, _MIN_SHARE_TOKENS))


def _truncate_content(item: ContextMessage, end: int) -> ContextMessage:
    content = item.message.content[:end].rstrip()
    return replace(item, message=replace(item.message, content=content), truncated=True)
