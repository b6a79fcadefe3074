"""Training examples: the questions of labeled sets, with the vectors of the messages that a search may return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.labeled_file import Question
from evaluation.labeled_set import LabeledSet
from nomemory.importing.record import AcceptedMessage
from nomemory.server.embedding.onnx.e5_model import E5Model
from nomemory.server.embedding.vector import normalize_vector

_BATCH_MESSAGES = 256
_DIMENSION = 384


@dataclass(frozen=True, slots=True)
class Example:
    """A question and the messages of its user before the time of the question.

    Attributes:
        vectors: the vectors of all messages of the labeled set.
        candidates: the rows of the candidate messages in `vectors`.
        facts: for each required fact, the positions in `candidates` of its evidence; empty if no message
            answers the question.
    """

    user_id: str
    question: str
    vectors: npt.NDArray[np.float32]
    candidates: Sequence[int]
    facts: Sequence[Sequence[int]]


def build_examples(labeled: LabeledSet, model: E5Model) -> Iterator[Example]:
    """Yield the examples of a labeled set.

    A question is skipped if no message precedes it, or if a required fact has no evidence before it.
    """
    vectors = _embed_messages(labeled.messages, model)
    rows_of_users: dict[str, list[int]] = {}
    for row, item in enumerate(labeled.messages):
        rows_of_users.setdefault(item.message.user_id, []).append(row)
    for question in labeled.questions:
        rows = [row for row in rows_of_users[question.user_id] if _is_before(labeled.messages[row], question)]
        positions = {labeled.messages[row].message.message_id: position for position, row in enumerate(rows)}
        needed = question.needed_facts or tuple(frozenset({key}) for key in sorted(question.evidence))
        facts = [[positions[key] for key in group if key in positions] for group in needed]
        if rows and all(facts):
            yield Example(question.user_id, question.text, vectors, rows, facts)


def _is_before(item: AcceptedMessage, question: Question) -> bool:
    return question.now is None or item.message.ts.ToDatetime(question.now.tzinfo) <= question.now


def _embed_messages(messages: Sequence[AcceptedMessage], model: E5Model) -> npt.NDArray[np.float32]:
    contents = [item.message.content for item in messages]
    batches = [contents[start : start + _BATCH_MESSAGES] for start in range(0, len(contents), _BATCH_MESSAGES)]
    vectors = [normalize_vector(vector, _DIMENSION) for batch in batches for vector in model.encode(batch)]
    return np.frombuffer(b"".join(vectors), "<f4").reshape(-1, _DIMENSION)
