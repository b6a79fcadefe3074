"""Reads retrieved messages once, whoever asks for their passages."""

from __future__ import annotations

from itertools import pairwise

from nomemory.recall.model.evidence import Retrieval, Retrieved
from nomemory.recall.model.memory_view import Citation
from nomemory.recall.passages.passage import Passage, passages


class PassageReader:
    """The passages of the messages of one recall, and what was asked just before each message.

    Args:
        retrieval: all that was retrieved; it does not change while it is read.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval = retrieval
        self._passages: dict[str, list[Passage]] = {}
        ordered = sorted(retrieval, key=lambda message: (message.conversation_id, message.ts, message.message_id))
        self._before = {later.message_id: earlier for earlier, later in pairwise(ordered)}

    def passages(self, message: Retrieved) -> list[Passage]:
        """Return what a message states."""
        if message.message_id not in self._passages:
            self._passages[message.message_id] = passages(message)
        return self._passages[message.message_id]

    def quoted(self, citation: Citation) -> list[Passage]:
        """Return the passages of which a citation has a part."""
        message = self.retrieval.get(citation.message_id)
        if message is None:
            return []
        return [passage for passage in self.passages(message) if passage.overlaps(citation.start, citation.end)]

    def question_before(self, message: Retrieved) -> Retrieved | None:
        """Return the retrieved message just before another in its conversation, if it ends with a question."""
        earlier = self._before.get(message.message_id)
        if earlier is None or earlier.conversation_id != message.conversation_id:
            return None
        return earlier if earlier.content.rstrip().endswith(("?", "？")) else None
