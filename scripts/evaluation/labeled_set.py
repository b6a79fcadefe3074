"""Labeled sets of messages and questions, and loading them into a server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from evaluation.labeled_file import LabeledDataError, Question, format_line_error, read_messages, read_questions
from nomemory.client.sync import Client
from nomemory.importing.record import AcceptedMessage
from nomemory.importing.upload import MessageUploader, wait_until_indexed
from nomemory.v1 import message_pb2

_MESSAGES: Final = "messages.jsonl"
_QUESTIONS: Final = "questions.jsonl"
INDEXING_MAX_S: Final = 3 * 3600.0
"""Timeout of indexing in seconds: the local embedder embeds about 20 texts per second."""


class IndexingTimeoutError(Exception):
    """Raised if the indexes do not catch up within `INDEXING_MAX_S`."""


@dataclass(frozen=True, slots=True)
class LabeledSet:
    """A labeled set.

    Attributes:
        name: prefix of the file names; the folder name if the file is `messages.jsonl`.
        messages: the messages, each with its location in the file.
    """

    name: str
    path: Path
    messages: tuple[AcceptedMessage, ...]
    questions: tuple[Question, ...]

    @property
    def users(self) -> frozenset[str]:
        """Ids of the users who have messages in the set."""
        return frozenset(message.message.user_id for message in self.messages)

    def restrict_to_users(self, users: Collection[str]) -> LabeledSet:
        """Return the set with the questions of `users`, or all questions if `users` is empty; keep all messages."""
        return replace(
            self, questions=tuple(question for question in self.questions if not users or question.user_id in users)
        )

    def limit_questions(self, maximum: int) -> LabeledSet:
        """Return the set with at most `maximum` questions, evenly spaced; 0: all."""
        count = len(self.questions)
        if not 0 < maximum < count:
            return self
        return replace(self, questions=tuple(self.questions[n * count // maximum] for n in range(maximum)))


def read_sets(folder: Path, names: Collection[str] = ()) -> list[LabeledSet]:
    """Read the sets of a folder: pairs of `NAME.messages.jsonl` and `NAME.questions.jsonl`.

    An empty `names` selects all sets. If several sets have a user in common, the user id is prefixed with the set name.

    Raises:
        LabeledDataError: a set or a questions file is missing, or a line is invalid.
        OSError: a file cannot be read.
    """
    paths = {_parse_set_name(path): path for path in sorted(folder.glob(f"*{_MESSAGES}"))}
    missing = sorted(set(names) - paths.keys())
    if missing or not paths:
        raise LabeledDataError([f"{folder}: {name}.{_MESSAGES} is missing" for name in missing or ["*"]])
    return _make_user_ids_unique(
        [read_set(name, path, find_questions_file(path)) for name, path in paths.items() if not names or name in names]
    )


def read_set(name: str, messages: Path, questions: Path) -> LabeledSet:
    """Read one labeled set.

    Raises:
        LabeledDataError, OSError: as in `read_sets`.
    """
    accepted = read_messages(messages)
    keys = frozenset((item.message.user_id, item.message.message_id) for item in accepted)
    labeled = _add_conversations(read_questions(questions, keys), accepted)
    return LabeledSet(name, messages, tuple(accepted), tuple(labeled))


def find_questions_file(messages: Path) -> Path:
    """Return the path of the questions file of a messages file.

    Raises:
        LabeledDataError: the questions file does not exist.
    """
    path = messages.with_name(messages.name.removesuffix(_MESSAGES) + _QUESTIONS)
    if not path.is_file():
        raise LabeledDataError([f"{messages}: {path.name} is missing from the same folder"])
    return path


def _add_conversations(questions: Iterable[Question], accepted: Iterable[AcceptedMessage]) -> Iterator[Question]:
    conversations: dict[str, dict[str, str]] = defaultdict(dict)
    for message in (item.message for item in accepted if item.message.conversation_id):
        conversations[message.user_id][message.message_id] = message.conversation_id
    for question in questions:
        yield replace(question, conversations=conversations.get(question.user_id, {}))


def _parse_set_name(path: Path) -> str:
    return path.name.removesuffix(_MESSAGES).rstrip(".") or path.resolve().parent.name


def _make_user_ids_unique(sets: Sequence[LabeledSet]) -> list[LabeledSet]:
    owners = Counter(user for item in sets for user in item.users)
    shared = {user for user, count in owners.items() if count > 1}
    return [_rename_users(item, {user: f"{item.name}:{user}" for user in item.users & shared}) for item in sets]


def _rename_users(labeled: LabeledSet, names: dict[str, str]) -> LabeledSet:
    if not names:
        return labeled
    messages = tuple(replace(item, message=_rename_user(item.message, names)) for item in labeled.messages)
    questions = tuple(replace(item, user_id=names.get(item.user_id, item.user_id)) for item in labeled.questions)
    return replace(labeled, messages=messages, questions=questions)


def _rename_user(message: message_pb2.ChatMessage, names: dict[str, str]) -> message_pb2.ChatMessage:
    renamed = message_pb2.ChatMessage()
    renamed.CopyFrom(message)
    renamed.user_id = names.get(message.user_id, message.user_id)
    return renamed


def import_messages(client: Client, path: Path, messages: Sequence[AcceptedMessage]) -> None:
    """Import the messages of a file into a server; `path` appears only in error messages.

    Raises:
        LabeledDataError: the server rejected messages; the text names their lines.
        NoMemoryError: the call failed.
    """
    errors: list[str] = []
    upload = MessageUploader(
        client.import_messages, lambda rejected, reasons: errors.append(format_line_error(path, rejected, reasons))
    )
    for _ in upload.send_messages(messages):
        pass
    if errors:
        raise LabeledDataError(errors)


def wait_for_indexes(client: Client, report_progress: Callable[[int], None] = lambda _: None) -> None:
    """Wait until all messages are indexed; without an embedder, only the lexical index counts.

    `report_progress` is called repeatedly with the number of messages that are not yet indexed.

    Raises:
        IndexingTimeoutError: indexing took longer than `INDEXING_MAX_S`.
        NoMemoryError: a call failed.
    """
    if not wait_until_indexed(client.status, INDEXING_MAX_S, report_progress):
        raise IndexingTimeoutError(f"the indexes did not catch up within {INDEXING_MAX_S:.0f} s")


def make_off_topic_questions(questions: Sequence[Question]) -> list[Question]:
    """Return the labeled questions, each assigned to the next user of the same language.

    The messages of that user do not answer the question. Questions without a verdict, and questions in a language with
    a single user, are omitted. `now` is copied from the last question of the new user.
    """
    labeled = [question for question in questions if question.verdict]
    latest = {item.user_id: item.now for item in labeled}
    moved = [(item, _choose_next_user(item, labeled)) for item in labeled]
    return [
        replace(
            item, user_id=other, now=latest[other], evidence=frozenset(), needed_facts=(), outdated_evidence=frozenset()
        )
        for item, other in moved
        if other is not None
    ]


def _choose_next_user(question: Question, questions: Sequence[Question]) -> str | None:
    users = sorted({item.user_id for item in questions if item.language == question.language})
    if len(users) == 1:
        return None
    return users[(users.index(question.user_id) + 1) % len(users)]
