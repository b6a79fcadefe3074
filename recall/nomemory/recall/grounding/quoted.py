"""What the statements of a view rest on: who said it, when, and in which words, ready to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from nomemory.recall.model.memory_view import Statement
from nomemory.recall.passages.modality import UNNAMED
from nomemory.recall.passages.passage import Passage
from nomemory.recall.passages.reader import PassageReader
from nomemory.text.normalisation import plain
from nomemory.text.sentences import masked

READ_BEFORE_CHARS = 200
"""Code points before a passage that are read with it, for what its pronouns stand for."""

READ_WHOLE_CHARS = 2_000
"""Code points of a message that are read with its passages."""


@dataclass(frozen=True, slots=True)
class Said:
    """One passage that a statement quotes. All texts are without what they quote.

    Attributes:
        statement: the statement.
        message_id: the message.
        ts: when it was said.
        speaker: who said it, and of whom.
        spelled: the passage as it is written.
        text: the passage as it is compared: lower case, simplified.
        before: the message up to the passage, as it is compared.
        whole: the message, as it is compared.
    """

    statement: Statement
    message_id: str
    ts: datetime
    speaker: tuple[str, str]
    spelled: str
    text: str
    before: str
    whole: str


def all_said(statements: Sequence[Statement], reading: PassageReader) -> Iterator[Said]:
    """Return what all the statements quote, but not what is said of somebody whom only a pronoun names."""
    for statement in statements:
        for citation in statement.citations:
            for passage in reading.quoted(citation):
                if passage.subject != UNNAMED:
                    yield _said(statement, passage)


def _said(statement: Statement, passage: Passage) -> Said:
    message = passage.message
    spoken = masked(message.content)
    return Said(
        statement=statement,
        message_id=message.message_id,
        ts=message.ts,
        speaker=(message.speaker, passage.subject),
        spelled=passage.masked,
        text=plain(passage.masked),
        before=plain(spoken[max(0, passage.start - READ_BEFORE_CHARS) : passage.start]),
        whole=plain(spoken[:READ_WHOLE_CHARS]),
    )
