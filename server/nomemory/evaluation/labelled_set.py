"""Labelled sets: messages, and questions about them whose evidence is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nomemory.evaluation.labelled_file import LabelledDataError, read_messages, read_questions
from nomemory.evaluation.question import Question
from nomemory.importing.record import Accepted
from nomemory.v1 import message_pb2

_MESSAGES: Final = "messages.jsonl"
_QUESTIONS: Final = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One set.

    Attributes:
        name: the stem of its files; that of `messages.jsonl` alone is the folder's name.
        path: its file of messages.
        messages: what was said, each with its place in the file.
        questions: what is asked.
    """

    name: str
    path: Path
    messages: tuple[Accepted, ...]
    questions: tuple[Question, ...]

    @property
    def users(self) -> frozenset[str]:
        """Whose messages these are."""
        return frozenset(one.message.user_id for one in self.messages)

    def thinned(self, most: int) -> LabelledSet:
        """Keep at most so many questions, evenly spread over the set; 0 keeps all."""
        count = len(self.questions)
        if not 0 < most < count:
            return self
        return replace(self, questions=tuple(self.questions[n * count // most] for n in range(most)))


def read_sets(folder: Path, names: Collection[str] = ()) -> list[LabelledSet]:
    """Read the sets of a folder: `NAME.messages.jsonl` with `NAME.questions.jsonl` beside it.

    Users that occur in two sets become different users: the set's name is put before theirs.

    Args:
        folder: where the files are.
        names: the sets to read; empty: all.

    Raises:
        LabelledDataError: there is no such set, a file lacks its pair, or has lines that are wrong.
        OSError: a file cannot be read.
    """
    paths = {_name(path): path for path in sorted(folder.glob(f"*{_MESSAGES}"))}
    missing = sorted(set(names) - paths.keys())
    if missing or not paths:
        raise LabelledDataError([f"{folder} has no {name}.{_MESSAGES}" for name in missing or ["*"]])
    return _apart([read_set(name, path, pair(path)) for name, path in paths.items() if not names or name in names])


def read_set(name: str, messages: Path, questions: Path) -> LabelledSet:
    """Read one set.

    Raises:
        as `read_sets`.
    """
    said = read_messages(messages)
    known = frozenset((one.message.user_id, one.message.message_id) for one in said)
    return LabelledSet(name, messages, tuple(said), tuple(read_questions(questions, known)))


def pair(messages: Path) -> Path:
    """Return the file of questions that belongs to a file of messages.

    Raises:
        LabelledDataError: there is none.
    """
    path = messages.with_name(messages.name.removesuffix(_MESSAGES) + _QUESTIONS)
    if not path.is_file():
        raise LabelledDataError([f"{messages} has no {path.name} beside it"])
    return path


def _name(path: Path) -> str:
    return path.name.removesuffix(_MESSAGES).rstrip(".") or path.resolve().parent.name


def _apart(sets: Sequence[LabelledSet]) -> list[LabelledSet]:
    owners = Counter(user for one in sets for user in one.users)
    shared = {user for user, count in owners.items() if count > 1}
    return [_renamed(one, {user: f"{one.name}:{user}" for user in one.users & shared}) for one in sets]


def _renamed(one: LabelledSet, names: dict[str, str]) -> LabelledSet:
    if not names:
        return one
    messages = tuple(replace(said, message=_of(said.message, names)) for said in one.messages)
    questions = tuple(replace(asked, user_id=names.get(asked.user_id, asked.user_id)) for asked in one.questions)
    return replace(one, messages=messages, questions=questions)


def _of(message: message_pb2.ChatMessage, names: dict[str, str]) -> message_pb2.ChatMessage:
    renamed = message_pb2.ChatMessage()
    renamed.CopyFrom(message)
    renamed.user_id = names.get(message.user_id, message.user_id)
    return renamed
