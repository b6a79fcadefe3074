"""A writer: writes, imports, replaces, deletes and erases at random, and books what it is told."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence

import grpc

from nomemory.v1 import ingest_service_pb2 as pb
from nomemory.v1 import message_pb2
from proofs.finding import Finding
from proofs.replicas import Replicas
from proofs.server_under_test import ServerUnderTest
from proofs.torture.connection import TIMEOUT_S, Connection, is_refusal
from proofs.torture.ledger import Changes, Ledger, Nameless, State, Version

COMMON_WORD = "tortured"
"""In every message, so that one query finds all."""
TAKES_BACK = "back:"
"""What stands before the id of a message that another one takes back, in its content."""
_MESSAGES_MAX = 150
"""Messages of a user: a search by meaning brings 200 at most."""
_BATCH_MAX = 12
_CONVERSATIONS = 4
_PAUSE_S = 0.02
_BEGIN_US = 1_750_000_000_000_000
_NAMELESS = "nameless"
_NAMELESS_MAX = 8
"""Batches without ids that wait for an answer: while there is no server, they would pile up."""


class Writer:
    """Works on users of its own until it is stopped.

    Args:
        own_vectors: the share of its messages that bring a vector, of this dimension.
    """

    def __init__(
        self, ledger: Ledger, server: ServerUnderTest | Replicas, seed: int, dimension: int, own_vectors: float
    ) -> None:
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._connection = Connection(server)
        self._dimension = dimension
        self._own_vectors = own_vectors
        self._said = 0

    @property
    def findings(self) -> list[Finding]:
        """Return what no fault excuses."""
        return self._connection.findings

    @property
    def refusals(self) -> int:
        """Return how many calls failed."""
        return self._connection.refusals

    def work(self, stop: threading.Event) -> None:
        """Change things until told to stop."""
        weights: dict[Callable[[], None], int] = {
            self._write: 40,
            self._write_without_ids: 10,
            self._write_named_again: 6,
            self._import: 10,
            self._delete: 14,
            self._delete_conversation: 4,
            self._replace: 8,
            self._write_again: 8,
            self._erase: 1,
        }
        while not stop.is_set():
            self._random.choices(list(weights), list(weights.values()))[0]()
            stop.wait(self._random.random() * _PAUSE_S)

    def retry_nameless(self) -> None:
        """Send again what was sent without ids: it has to be stored once."""
        for batch in list(self._ledger.nameless.values()):
            if self._random.random() < 0.5:  # noqa: PLR2004 - the others are looked for as they are
                self._send_nameless(batch)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _write(self) -> None:
        changes = dict(self._fresh(self._user()))
        if self._random.random() < 0.2:  # noqa: PLR2004 - now and then a batch of two users
            changes |= dict(self._fresh(self._user()))
        self._send(changes)

    def _write_again(self) -> None:
        """Write what is there already, unchanged."""
        present = self._present(self._user())
        self._send(dict(self._random.sample(present, min(3, len(present)))))

    def _replace(self) -> None:
        user_id = self._user()
        present = self._present(user_id)
        chosen = self._random.sample(present, min(3, len(present)))
        self._send({key: self._version(user_id) for key, _ in chosen}, replace=True)

    def _import(self) -> None:
        batches = [dict(self._fresh(self._user())) for _ in range(3)]
        before = [self._ledger.attempt(changes) for changes in batches]
        stream = [pb.ImportMessagesRequest(messages=self._messages(changes)) for changes in batches]
        reply = self._connection.attempt(
            lambda: self._connection.ingest.ImportMessages(iter(stream), timeout=TIMEOUT_S)
        )
        for changes, was in zip(batches, before, strict=True):
            self._book(changes, was, reply)

    def _send(self, changes: Changes, *, replace: bool = False) -> None:
        if not changes:
            return
        before = self._ledger.attempt(changes)
        request = pb.WriteMessagesRequest(messages=self._messages(changes), replace=replace)
        reply = self._connection.attempt(lambda: self._connection.ingest.WriteMessages(request, timeout=TIMEOUT_S))
        self._book(changes, before, reply)

    def _write_without_ids(self) -> None:
        if len(self._ledger.nameless) >= _NAMELESS_MAX:
            return
        user_id = self._user()
        versions = tuple(self._version(user_id, _NAMELESS) for _ in range(self._random.randint(1, 4)))
        batch = Nameless(user_id, uuid.UUID(int=self._random.getrandbits(128)).hex, versions)
        self._ledger.nameless[batch.request_id] = batch
        self._send_nameless(batch)

    def _ask_without_ids(self, batch: Nameless) -> pb.WriteMessagesResponse | grpc.StatusCode:
        messages = [self._message((batch.user_id, ""), version) for version in batch.versions]
        request = pb.WriteMessagesRequest(messages=messages, request_id=batch.request_id)
        return self._connection.attempt(lambda: self._connection.ingest.WriteMessages(request, timeout=TIMEOUT_S))

    def _send_nameless(self, batch: Nameless) -> None:
        reply = self._ask_without_ids(batch)
        if isinstance(reply, pb.WriteMessagesResponse):
            self._ledger.name(batch, [result.message_id for result in reply.results], _token(reply))
        elif is_refusal(reply):
            self.findings.append(Finding("refused", f"a retry with the same request_id: {reply.name}"))

    def _write_named_again(self) -> None:
        """Send again what was sent without ids and acknowledged: it has to get the same ids."""
        known = [item for item in self._ledger.named if self._is_as_written(*item)]
        if not known:
            return
        batch, ids = self._random.choice(known)
        reply = self._ask_without_ids(batch)
        if isinstance(reply, pb.WriteMessagesResponse) and tuple(result.message_id for result in reply.results) != ids:
            self.findings.append(Finding("doubled", "a batch without ids got others when it was sent again"))

    def _is_as_written(self, batch: Nameless, ids: Sequence[str]) -> bool:
        certain = self._ledger.certain(batch.user_id)
        return all(certain.get(item) == version for item, version in zip(ids, batch.versions, strict=True))

    def _delete(self) -> None:
        user_id = self._user()
        present = self._present(user_id)
        chosen = self._random.sample(present, min(self._random.randint(1, 6), len(present)))
        if not chosen:
            return
        ids = [item for (_, item), _ in chosen]
        request = pb.DeleteMessagesRequest(user_id=user_id, message_ids=ids)
        self._remove({key: None for key, _ in chosen}, request)

    def _delete_conversation(self) -> None:
        user_id, conversation = self._user(), f"c{self._random.randrange(_CONVERSATIONS)}"
        gone = [
            (key, state) for key, state in self._present(user_id) if state and state.conversation_id == conversation
        ]
        narrowed = message_pb2.Filter(conversation_id=conversation)
        self._remove({key: None for key, _ in gone}, pb.DeleteMessagesRequest(user_id=user_id, filter=narrowed))

    def _remove(self, changes: Changes, request: pb.DeleteMessagesRequest) -> None:
        before = self._ledger.attempt(changes)
        if request.HasField("filter"):
            self._ledger.doubt_the_rest(request.user_id)
        reply = self._connection.attempt(lambda: self._connection.ingest.DeleteMessages(request, timeout=TIMEOUT_S))
        self._book(changes, before, reply)

    def _erase(self) -> None:
        user_id = self._user()
        if any(batch.user_id == user_id for batch in self._ledger.nameless.values()):
            return
        changes: Changes = {key: None for key, _ in self._present(user_id)}
        before = self._ledger.attempt(changes)
        self._ledger.doubt_the_rest(user_id)
        request = pb.EraseUserRequest(user_id=user_id)
        reply = self._connection.attempt(lambda: self._connection.ingest.EraseUser(request, timeout=TIMEOUT_S))
        self._book(changes, before, reply)

    def _book(self, changes: Changes, before: Changes, reply: object) -> None:
        if not isinstance(reply, grpc.StatusCode):
            self._ledger.acknowledge(changes, _token(reply))
            self._check_import(changes, reply)
        elif is_refusal(reply):
            self._ledger.refused(before)
            self.findings.append(Finding("refused", f"a good request: {reply.name}"))
        else:
            self._ledger.unknown(changes)

    def _check_import(self, changes: Changes, reply: object) -> None:
        if isinstance(reply, pb.ImportMessagesResponse) and reply.rejected:
            self.findings.append(Finding("refused", f"{reply.rejected} good messages of an import, of {len(changes)}"))

    def _user(self) -> str:
        """Choose one of the users, a new one once the latest has enough."""
        users = self._ledger.users
        if not users or self._most(users[-1]) > _MESSAGES_MAX // 2:
            users.append(f"{COMMON_WORD}-{self._random.getrandbits(48):012x}")
        user_id = users[-1] if self._random.random() < 0.7 else self._random.choice(users)  # noqa: PLR2004 - mostly the latest
        return user_id if self._most(user_id) < _MESSAGES_MAX - 3 * _BATCH_MAX else users[-1]

    def _most(self, user_id: str) -> int:
        """Return how many messages a user may have, those in doubt included."""
        in_doubt = sum(len(batch.versions) for batch in self._ledger.nameless.values() if batch.user_id == user_id)
        return in_doubt + sum(states != {None} for states in self._ledger.allowed(user_id).values())

    def _present(self, user_id: str) -> list[tuple[tuple[str, str], State]]:
        certain = self._ledger.certain(user_id)
        return [((user_id, item), state) for item, state in certain.items() if state is not None]

    def _fresh(self, user_id: str) -> Iterator[tuple[tuple[str, str], State]]:
        for _ in range(self._random.randint(1, _BATCH_MAX)):
            yield (user_id, f"m{self._random.getrandbits(64):016x}"), self._version(user_id)

    def _version(self, user_id: str, conversation: str = "") -> Version:
        self._said += 1
        word = f"w{self._random.getrandbits(60):015x}"
        length = self._random.choice((3, 10, 60))
        content = f"{COMMON_WORD} {word} " + " ".join(f"x{self._random.randrange(500)}" for _ in range(length))
        if (present := self._present(user_id)) and self._random.random() < 0.2:  # noqa: PLR2004 - some take others back
            content += f" {TAKES_BACK}{self._random.choice(present)[0][1]}"
        named = conversation or f"c{self._random.randrange(_CONVERSATIONS)}"
        return Version(content, _BEGIN_US + self._said // 2 * 1_000 + len(user_id), named)

    def _messages(self, changes: Changes) -> list[message_pb2.ChatMessage]:
        return [self._message(key, state) for key, state in changes.items() if state is not None]

    def _message(self, key: tuple[str, str], version: Version) -> message_pb2.ChatMessage:
        message = message_pb2.ChatMessage(
            user_id=key[0],
            message_id=key[1],
            role=message_pb2.ROLE_USER,
            content=version.content,
            conversation_id=version.conversation_id,
            retracts=_taken_back(version.content) - {key[1]},
        )
        message.ts.FromMicroseconds(version.ts_us)
        # From the content alone, so that a message that is sent again is the same message.
        chance = random.Random(version.content)  # noqa: S311 - repeatable, not secret
        if chance.random() < self._own_vectors:
            message.embedding.extend(chance.gauss(0, 1) for _ in range(self._dimension))
        return message


def _taken_back(content: str) -> set[str]:
    return {word.removeprefix(TAKES_BACK) for word in content.split() if word.startswith(TAKES_BACK)}


def _token(reply: object) -> str:
    """Return the write token of a reply; empty if something was unchanged: then it stands for an earlier write."""
    if isinstance(reply, pb.WriteMessagesResponse) and any(
        result.outcome == pb.WRITE_OUTCOME_UNCHANGED for result in reply.results
    ):
        return ""
    return str(getattr(reply, "write_token", ""))
