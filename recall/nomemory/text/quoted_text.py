"""Find quoted, pasted and forwarded text in a message, and its author."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MIN_QUOTATION_CHARS: Final = 12
"""Minimum length of a quotation. Shorter quoted spans are titles or stressed words."""
_MAX_LEAD_CHARS: Final = 80
_LISTED: Final = re.compile(r"^\s*(?:[-*•·]|\(?\d{1,2}[.)、）:：]|[①-⑳]|[一二三四五六七八九十]{1,2}[、.])")
_MAX_LIST_CHARS: Final = 2_000
"""Number of characters after an introduction that determine whether a list follows."""
_SPAN: Final = re.compile(r"【([^】]+)】|“([^”]+)”|「([^」]+)」|『([^』]+)』|\"([^\"]+)\"")
_LEAD: Final = re.compile(r"(?:\A|(?<=[\n。！？.!?]))[^\n:：。！？!?]{1,80}[:：](?!\d|//)")
_REPORTING_WORDS: Final = re.compile(
    r"\b(?:says?|said|wrote|writes?|writing|sent|sends|forward(?:ed|ing)?|fwd|quot(?:e|ed|ing)|pasted?|repl(?:y|ied)"
    r"|answered|asked|told|reads)\b|^\W*from\b|\b(?:mail|email|message|letter|text|note) from\b|['’]s\s+\w+\s*$"
    r"|转发|转|发[来的给了过]|来信|[说写问回]道?[了的]?$|[回复]复|原文|原话|通知",
    re.IGNORECASE,
)
"""Reporting verbs, mail headers and possessives. An introduction that contains one of them names an author."""
_SENDER_IS_SUBJECT: Final = re.compile(
    r"^\W*(?:i|i['’]ve|we)\b|^\W*我们?(?:[说写问想回转发]|刚|又|就|也)"
    r"|\b(?:i|we)(?:['’](?:ve|d))?(?:\s+(?:should|could|would|might|must|have|had))*\s+(?:said|say|wrote)\W*$",
    re.IGNORECASE,
)
"""Pattern for an introduction whose subject is the sender. The sender is also the author of the quoted words."""
_HEADER: Final = re.compile(r"^(?:From|Subject|To|Sent|发件人|主题|收件人)\s*[:：]", re.MULTILINE)
_SALUTATION: Final = re.compile(
    r"^(?:Dear|Hi|Hello|Hey)\b[^\n,]{0,40},\s*$|^(?:尊敬的|亲爱的)[^\n]{0,30}[:：，,]", re.MULTILINE
)
_FENCE: Final = re.compile(r"```[^\n]*(?:\n.*?(?:```|\Z)|\Z)", re.DOTALL)
_MARKED: Final = re.compile(r"(?:^[ \t]*>[^\n]*(?:\n|\Z))+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """A span of a message that quotes or forwards another author.

    Attributes:
        start: start offset, in code points.
        end: end offset, exclusive.
        author: the sender's introduction of the quotation, such as "Ann wrote"; empty if there is none.
    """

    start: int
    end: int
    author: str = ""


def find_quoted_spans(content: str) -> list[QuotedSpan]:
    """Return the quoted and forwarded spans of a message, in order.

    Detection relies on the form of the text and therefore misses some quotations. Lists that the sender wrote are not
    returned.
    """
    selected: list[QuotedSpan] = []
    for span in sorted(
        (*_find_marked_blocks(content), *_find_attributed_quotations(content), *_find_pasted_mails(content)),
        key=lambda item: (item.start, -item.end),
    ):
        if span.end - span.start >= _MIN_QUOTATION_CHARS and (not selected or span.start >= selected[-1].end):
            selected.append(span)
    return selected


def _find_marked_blocks(content: str) -> Iterator[QuotedSpan]:
    """Yield code blocks, and lines that begin with `>`."""
    for pattern in (_FENCE, _MARKED):
        for match in pattern.finditer(content):
            if pattern is _MARKED or "\n" in match[0]:
                yield _trim_span(content, match.start(), match.end(), _find_introduction_line(content, match.start()))


def _find_attributed_quotations(content: str) -> Iterator[QuotedSpan]:
    """Yield the quotation after each introduction with a colon: text in quotation marks, or else the whole block."""
    quoted_until = 0
    for match in _LEAD.finditer(content):
        if match.start() < quoted_until:
            continue
        lead = re.split(r"(?<=[.!?])\s+", match[0][:-1].strip())[-1]
        text_after_lead = content[match.end() : match.end() + _MAX_LIST_CHARS]
        start = match.end() + len(text_after_lead) - len(text_after_lead.lstrip())
        quotation = _SPAN.match(content, start)
        if quotation is not None and len(quotation[0]) >= _MIN_QUOTATION_CHARS:
            yield _trim_span(content, start, quotation.end(), lead)
        elif _names_author(lead) and not _is_list(text_after_lead):
            end = content.find("\n\n", start) if "\n" not in text_after_lead[: start - match.end()] else -1
            span = _trim_span(content, start, len(content) if end < 0 else end, lead)
            yield span
            if span.end - span.start >= _MIN_QUOTATION_CHARS:
                quoted_until = span.end


def _find_pasted_mails(content: str) -> Iterator[QuotedSpan]:
    """Yield a pasted email: the text from its header or salutation to the end of the message."""
    for pattern in (_HEADER, _SALUTATION):
        if (match := pattern.search(content)) and content.count("\n", match.start()) > 1:
            yield _trim_span(content, match.start(), len(content), _find_introduction_line(content, match.start()))


def _names_author(lead: str) -> bool:
    return _REPORTING_WORDS.search(lead) is not None and _SENDER_IS_SUBJECT.search(lead) is None


def _is_list(text: str) -> bool:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return len(lines) > 1 and all(map(_LISTED.match, lines))


def _find_introduction_line(content: str, start: int) -> str:
    line = content[:start].rstrip().rpartition("\n")[2].strip()
    return line.rstrip(":：") if line.endswith((":", "：")) and len(line) <= _MAX_LEAD_CHARS else ""


def _trim_span(content: str, start: int, end: int, author: str) -> QuotedSpan:
    text = content[start:end]
    start += len(text) - len(text.lstrip())
    return QuotedSpan(start, start + len(text.strip()), author.strip(" \t>-—"))
