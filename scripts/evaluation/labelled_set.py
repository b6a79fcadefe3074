"""Labelled sets: messages, and questions about them whose evidence is known; and how they get into a server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evaluation.labelled_file import LabelledDataError, Question, fault, read_messages, read_questions
from nomemory.client.sync import Client
from nomemory.importing.record import Accepted
from nomemory.importing.upload import Upload, wait_until_indexed
from nomemory.v1 import message_pb2

_MESSAGES: Final = "messages.jsonl"
_QUESTIONS: Final = "questions.jsonl"
INDEXING_MAX_S: Final = 3 * 3600.0
"""How long the indexes may take: every text has to be embedded once, at 20 a second or so."""


class IndexesBehindError(Exception):
    """The indexes did not catch up in time."""


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
        return frozenset(message.message.user_id for message in self.messages)

    def of(self, users: Collection[str]) -> LabelledSet:
        """Keep the questions of these users; none: of all. The messages stay, of whomever they are."""
        return replace(
            self, questions=tuple(question for question in self.questions if not users or question.user_id in users)
        )

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
    known = frozenset((item.message.user_id, item.message.message_id) for item in said)
    return LabelledSet(name, messages, tuple(said), tuple(_in_conversations(read_questions(questions, known), said)))


def pair(messages: Path) -> Path:
    """Return the file of questions that belongs to a file of messages.

    Raises:
        LabelledDataError: there is none.
    """
    path = messages.with_name(messages.name.removesuffix(_MESSAGES) + _QUESTIONS)
    if not path.is_file():
        raise LabelledDataError([f"{messages} has no {path.name} beside it"])
    return path


def _in_conversations(questions: Iterable[Question], said: Iterable[Accepted]) -> Iterator[Question]:
    conversations: dict[str, dict[str, str]] = defaultdict(dict)
    for message in (item.message for item in said if item.message.conversation_id):
        conversations[message.user_id][message.message_id] = message.conversation_id
    for question in questions:
        yield replace(question, conversations=conversations.get(question.user_id, {}))


def _name(path: Path) -> str:
    return path.name.removesuffix(_MESSAGES).rstrip(".") or path.resolve().parent.name


def _apart(sets: Sequence[LabelledSet]) -> list[LabelledSet]:
    owners = Counter(user for item in sets for user in item.users)
    shared = {user for user, count in owners.items() if count > 1}
    return [_renamed(item, {user: f"{item.name}:{user}" for user in item.users & shared}) for item in sets]


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


def load(client: Client, path: Path, messages: Sequence[Accepted]) -> None:
    """Store messages.

    Args:
        client: the server's.
        path: the file that they come from.
        messages: those of it.

    Raises:
        LabelledDataError: the server refuses some; it names their lines.
        NoMemoryError: the server does not answer.
    """
    faults: list[str] = []
    upload = Upload(client.import_messages, lambda refused, reasons: faults.append(fault(path, refused, reasons)))
    for _ in upload.run(messages):
        pass
    if faults:
        raise LabelledDataError(faults)


def wait_for_indexes(client: Client, tell: Callable[[int], None] = lambda _: None) -> None:
    """Wait until everything can be found; without an embedder that is: by words.

    Args:
        client: the server's.
        tell: is told now and then how many messages are left.

    Raises:
        IndexesBehindError: they take longer than `INDEXING_MAX_S`.
        NoMemoryError: the server does not answer.
    """
    if not wait_until_indexed(client.status, INDEXING_MAX_S, tell):
        raise IndexesBehindError("the indexes did not catch up")


def off_topic(questions: Sequence[Question]) -> list[Question]:
    """Ask each labelled question of the next user who is asked in its language; nothing answers it there.

    Questions without a verdict, and those of a language with one user only, are left out. Time stands where it stood
    for the user who is asked: at the latest of their own questions.
    """
    labelled = [question for question in questions if question.verdict]
    latest = {item.user_id: item.now for item in labelled}
    asked = [(item, _next(item, labelled)) for item in labelled]
    return [
        replace(item, user_id=other, now=latest[other], evidence=frozenset(), needed=(), old=frozenset())
        for item, other in asked
        if other is not None
    ]


def _next(question: Question, questions: Sequence[Question]) -> str | None:
    users = sorted({item.user_id for item in questions if item.language == question.language})
    if len(users) == 1:
        return None
    return users[(users.index(question.user_id) + 1) % len(users)]
