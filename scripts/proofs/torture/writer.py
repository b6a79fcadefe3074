"""Writer that makes random changes and records their outcome in a ledger."""

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
from proofs.torture.connection import TIMEOUT_S, Connection, is_rejection
from proofs.torture.ledger import BatchWithoutIds, Changes, Ledger, MessageVersion, State

COMMON_WORD = "tortured"
"""Word that every message contains, so that one query matches all messages."""
RETRACTS_PREFIX = "back:"
"""Prefix of the ids of retracted messages in the content."""
_MESSAGES_MAX = 150
"""Maximum number of messages per user; a semantic search returns at most 200."""
_BATCH_MAX = 12
_CONVERSATIONS = 4
_PAUSE_S = 0.02
_BEGIN_US = 1_750_000_000_000_000
_CONVERSATION_WITHOUT_IDS = "nameless"
_WITHOUT_IDS_MAX = 8
"""Maximum number of unacknowledged batches without ids."""


class RandomWriter:
    """A writer that makes random changes for users whom no other writer changes.

    Args:
        vector_share: share of the messages that are sent with an embedding.
    """

    def __init__(
        self, ledger: Ledger, server: ServerUnderTest | Replicas, seed: int, dimension: int, vector_share: float
    ) -> None:
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._connection = Connection(server)
        self._dimension = dimension
        self._vector_share = vector_share
        self._written = 0

    @property
    def findings(self) -> list[Finding]:
        """The detected violations."""
        return self._connection.findings

    @property
    def failed_calls(self) -> int:
        """Number of failed calls."""
        return self._connection.refusals

    def run_until(self, stop: threading.Event) -> None:
        """Make random changes until `stop` is set."""
        weights: dict[Callable[[], None], int] = {
            self._write_messages: 40,
            self._write_messages_without_ids: 10,
            self._retry_acknowledged_batch: 6,
            self._import_messages: 10,
            self._delete_messages: 14,
            self._delete_conversation: 4,
            self._replace_messages: 8,
            self._rewrite_unchanged_messages: 8,
            self._erase_user: 1,
        }
        while not stop.is_set():
            self._random.choices(list(weights), list(weights.values()))[0]()
            stop.wait(self._random.random() * _PAUSE_S)

    def retry_unacknowledged_batches(self) -> None:
        """Retry half of the unacknowledged batches whose messages have no ids; each must be stored once."""
        for batch in list(self._ledger.batches_without_ids.values()):
            if self._random.random() < 0.5:  # noqa: PLR2004 - probability
                self._send_batch(batch)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _write_messages(self) -> None:
        changes = dict(self._create_new_messages(self._choose_user()))
        if self._random.random() < 0.2:  # noqa: PLR2004 - probability of a batch of two users
            changes |= dict(self._create_new_messages(self._choose_user()))
        self._send_write(changes)

    def _rewrite_unchanged_messages(self) -> None:
        """Write existing messages again, unchanged."""
        present = self._list_present_messages(self._choose_user())
        self._send_write(dict(self._random.sample(present, min(3, len(present)))))

    def _replace_messages(self) -> None:
        user_id = self._choose_user()
        present = self._list_present_messages(user_id)
        chosen = self._random.sample(present, min(3, len(present)))
        self._send_write({key: self._create_version(user_id) for key, _ in chosen}, replace=True)

    def _import_messages(self) -> None:
        batches = [dict(self._create_new_messages(self._choose_user())) for _ in range(3)]
        before = [self._ledger.record_attempt(changes) for changes in batches]
        stream = [pb.ImportMessagesRequest(messages=self._build_messages(changes)) for changes in batches]
        reply = self._connection.attempt_call(
            lambda: self._connection.ingest.ImportMessages(iter(stream), timeout=TIMEOUT_S)
        )
        for changes, previous in zip(batches, before, strict=True):
            self._record_reply(changes, previous, reply)

    def _send_write(self, changes: Changes, *, replace: bool = False) -> None:
        if not changes:
            return
        before = self._ledger.record_attempt(changes)
        request = pb.WriteMessagesRequest(messages=self._build_messages(changes), replace=replace)
        reply = self._connection.attempt_call(lambda: self._connection.ingest.WriteMessages(request, timeout=TIMEOUT_S))
        self._record_reply(changes, before, reply)

    def _write_messages_without_ids(self) -> None:
        if len(self._ledger.batches_without_ids) >= _WITHOUT_IDS_MAX:
            return
        user_id = self._choose_user()
        versions = tuple(
            self._create_version(user_id, _CONVERSATION_WITHOUT_IDS) for _ in range(self._random.randint(1, 4))
        )
        batch = BatchWithoutIds(user_id, uuid.UUID(int=self._random.getrandbits(128)).hex, versions)
        self._ledger.batches_without_ids[batch.request_id] = batch
        self._send_batch(batch)

    def _call_write(self, batch: BatchWithoutIds) -> pb.WriteMessagesResponse | grpc.StatusCode:
        messages = [self._build_message((batch.user_id, ""), version) for version in batch.versions]
        request = pb.WriteMessagesRequest(messages=messages, request_id=batch.request_id)
        return self._connection.attempt_call(lambda: self._connection.ingest.WriteMessages(request, timeout=TIMEOUT_S))

    def _send_batch(self, batch: BatchWithoutIds) -> None:
        reply = self._call_write(batch)
        if isinstance(reply, pb.WriteMessagesResponse):
            self._ledger.assign_ids(batch, [result.message_id for result in reply.results], _read_write_token(reply))
        elif is_rejection(reply):
            self.findings.append(Finding("rejected", f"a retry with the same request_id: {reply.name}"))

    def _retry_acknowledged_batch(self) -> None:
        """Retry an acknowledged batch without ids; the server must return the same ids."""
        candidates = [item for item in self._ledger.batches_with_assigned_ids if self._is_as_written(*item)]
        if not candidates:
            return
        batch, ids = self._random.choice(candidates)
        reply = self._call_write(batch)
        if isinstance(reply, pb.WriteMessagesResponse) and tuple(result.message_id for result in reply.results) != ids:
            self.findings.append(Finding("duplicated", "a retried batch without ids was assigned other ids"))

    def _is_as_written(self, batch: BatchWithoutIds, ids: Sequence[str]) -> bool:
        certain = self._ledger.get_certain_states(batch.user_id)
        return all(certain.get(item) == version for item, version in zip(ids, batch.versions, strict=True))

    def _delete_messages(self) -> None:
        user_id = self._choose_user()
        present = self._list_present_messages(user_id)
        chosen = self._random.sample(present, min(self._random.randint(1, 6), len(present)))
        if not chosen:
            return
        ids = [item for (_, item), _ in chosen]
        request = pb.DeleteMessagesRequest(user_id=user_id, message_ids=ids)
        self._send_deletion({key: None for key, _ in chosen}, request)

    def _delete_conversation(self) -> None:
        user_id, conversation = self._choose_user(), f"c{self._random.randrange(_CONVERSATIONS)}"
        matching = [
            (key, state)
            for key, state in self._list_present_messages(user_id)
            if state and state.conversation_id == conversation
        ]
        message_filter = message_pb2.Filter(conversation_id=conversation)
        self._send_deletion(
            {key: None for key, _ in matching}, pb.DeleteMessagesRequest(user_id=user_id, filter=message_filter)
        )

    def _send_deletion(self, changes: Changes, request: pb.DeleteMessagesRequest) -> None:
        before = self._ledger.record_attempt(changes)
        if request.HasField("filter"):
            self._ledger.allow_partial_deletion(request.user_id)
        reply = self._connection.attempt_call(
            lambda: self._connection.ingest.DeleteMessages(request, timeout=TIMEOUT_S)
        )
        self._record_reply(changes, before, reply)

    def _erase_user(self) -> None:
        user_id = self._choose_user()
        if any(batch.user_id == user_id for batch in self._ledger.batches_without_ids.values()):
            return
        changes: Changes = {key: None for key, _ in self._list_present_messages(user_id)}
        before = self._ledger.record_attempt(changes)
        self._ledger.allow_partial_deletion(user_id)
        request = pb.EraseUserRequest(user_id=user_id)
        reply = self._connection.attempt_call(lambda: self._connection.ingest.EraseUser(request, timeout=TIMEOUT_S))
        self._record_reply(changes, before, reply)

    def _record_reply(self, changes: Changes, before: Changes, reply: object) -> None:
        if not isinstance(reply, grpc.StatusCode):
            self._ledger.record_acknowledgment(changes, _read_write_token(reply))
            self._check_import(changes, reply)
        elif is_rejection(reply):
            self._ledger.record_rejection(before)
            self.findings.append(Finding("rejected", f"a valid request: {reply.name}"))
        else:
            self._ledger.record_unknown_outcome(changes)

    def _check_import(self, changes: Changes, reply: object) -> None:
        if isinstance(reply, pb.ImportMessagesResponse) and reply.rejected:
            self.findings.append(Finding("rejected", f"{reply.rejected} of {len(changes)} valid messages of an import"))

    def _choose_user(self) -> str:
        """Return a random user; create a new user if the latest user has many messages."""
        users = self._ledger.users
        if not users or self._compute_max_messages(users[-1]) > _MESSAGES_MAX // 2:
            users.append(f"{COMMON_WORD}-{self._random.getrandbits(48):012x}")
        user_id = users[-1] if self._random.random() < 0.7 else self._random.choice(users)  # noqa: PLR2004 - probability
        return user_id if self._compute_max_messages(user_id) < _MESSAGES_MAX - 3 * _BATCH_MAX else users[-1]

    def _compute_max_messages(self, user_id: str) -> int:
        """Return an upper bound on the number of messages of a user, including messages whose state is uncertain."""
        in_doubt = sum(
            len(batch.versions) for batch in self._ledger.batches_without_ids.values() if batch.user_id == user_id
        )
        return in_doubt + sum(states != {None} for states in self._ledger.get_allowed_states(user_id).values())

    def _list_present_messages(self, user_id: str) -> list[tuple[tuple[str, str], State]]:
        certain = self._ledger.get_certain_states(user_id)
        return [((user_id, item), state) for item, state in certain.items() if state is not None]

    def _create_new_messages(self, user_id: str) -> Iterator[tuple[tuple[str, str], State]]:
        for _ in range(self._random.randint(1, _BATCH_MAX)):
            yield (user_id, f"m{self._random.getrandbits(64):016x}"), self._create_version(user_id)

    def _create_version(self, user_id: str, conversation: str = "") -> MessageVersion:
        self._written += 1
        word = f"w{self._random.getrandbits(60):015x}"
        length = self._random.choice((3, 10, 60))
        content = f"{COMMON_WORD} {word} " + " ".join(f"x{self._random.randrange(500)}" for _ in range(length))
        if (present := self._list_present_messages(user_id)) and self._random.random() < 0.2:  # noqa: PLR2004 - probability of a retraction
            content += f" {RETRACTS_PREFIX}{self._random.choice(present)[0][1]}"
        conversation_id = conversation or f"c{self._random.randrange(_CONVERSATIONS)}"
        return MessageVersion(content, _BEGIN_US + self._written // 2 * 1_000 + len(user_id), conversation_id)

    def _build_messages(self, changes: Changes) -> list[message_pb2.ChatMessage]:
        return [self._build_message(key, state) for key, state in changes.items() if state is not None]

    def _build_message(self, key: tuple[str, str], version: MessageVersion) -> message_pb2.ChatMessage:
        message = message_pb2.ChatMessage(
            user_id=key[0],
            message_id=key[1],
            role=message_pb2.ROLE_USER,
            content=version.content,
            conversation_id=version.conversation_id,
            retracts=_choose_retracted_ids(version.content) - {key[1]},
        )
        message.ts.FromMicroseconds(version.ts_us)
        # Derived from the content, so that a retried message is identical.
        chance = random.Random(version.content)  # noqa: S311 - repeatable, not secret
        if chance.random() < self._vector_share:
            message.embedding.extend(chance.gauss(0, 1) for _ in range(self._dimension))
        return message


def _choose_retracted_ids(content: str) -> set[str]:
    return {word.removeprefix(RETRACTS_PREFIX) for word in content.split() if word.startswith(RETRACTS_PREFIX)}


def _read_write_token(reply: object) -> str:
    """Return the write token of a reply.

    If a message was unchanged, return an empty string, because the token may belong to an older write.
    """
    if isinstance(reply, pb.WriteMessagesResponse) and any(
        result.outcome == pb.WRITE_OUTCOME_UNCHANGED for result in reply.results
    ):
        return ""
    return str(getattr(reply, "write_token", ""))
