"""Seeded benchmark corpus: Chinese, English and mixed messages of many typical users and one heavy user.

Word frequencies follow Zipf's law. Messages are written in two phases. The first phase has 10 % of the messages and all
messages of its typical users. Reads of these users can therefore be repeated on unchanged data when the message log is
ten times as large.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
from load.words import draw_words, join_words

from nomemory.v1 import message_pb2
from nomemory.v1.ingest_service_pb2 import WriteMessagesRequest

DIMENSION = 384
PHASES = 2
BATCH = 500
HEAVY = "heavy"

_SEED = 20_250_601
_BEGIN_US = 1_735_689_600_000_000  # 2025-01-01
_YEAR_US = 365 * 86_400 * 1_000_000
_EQUAL_TIMES = 0.02
_CONVERSATION = 20
"""Number of messages per conversation."""
_WITH_VECTORS = 10
"""One in this many typical users sends embeddings."""
_CHUNK = 20_000
_NOTED_USERS = 64
_NOTED_OF_HEAVY = 400

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """The number of messages and users of a corpus.

    Attributes:
        heavy: number of messages of the heavy user.
        vectors: number of messages with an embedding; half of them belong to the heavy user.
    """

    messages: int
    users: int
    heavy: int
    vectors: int

    def get_phase_counts(self, phase: int) -> tuple[int, int, range]:
        """Return a phase's message count, its heavy-user message count, and the user numbers of its typical users."""
        first, heavy, users = self.messages // 10, self.heavy // 10, max(2, self.users // 10)
        if phase == 0:
            return first, heavy, range(1, users)
        return self.messages - first, self.heavy - heavy, range(users, self.users)


@dataclass(slots=True)
class SampledMessage:
    """A written message, reduced to the properties that benchmark requests use."""

    message_id: str
    ts_us: int
    role: int
    words: list[str]
    is_chinese: bool


@dataclass(slots=True)
class CorpusSample:
    """A sample of the written messages of some typical users and of the heavy user."""

    typical: dict[str, list[SampledMessage]] = field(default_factory=dict)
    heavy: list[SampledMessage] = field(default_factory=list)


@dataclass(slots=True)
class _Speaker:
    messages: int = 0
    ts_us: int = 0


class Corpus:
    """A generator of the messages of one phase; the same size and phase always give the same messages.

    Attributes:
        sample: the messages to build requests from; complete after all batches were generated.
    """

    def __init__(self, size: CorpusSize, phase: int) -> None:
        self.sample = CorpusSample()
        self._size = size
        self._phase = phase
        self._random = np.random.default_rng([_SEED, phase])
        self._messages, self._of_heavy, self._users = size.get_phase_counts(phase)
        self._speakers: dict[int, _Speaker] = defaultdict(_Speaker)

    def generate_batches(self) -> Iterator[bytes]:
        """Yield serialized write requests of up to `BATCH` messages."""
        messages = self._generate_messages()
        while batch := list(islice(messages, BATCH)):
            yield WriteMessagesRequest(messages=batch).SerializeToString()

    def _generate_messages(self) -> Iterator[message_pb2.ChatMessage]:
        owners = self._shuffle_message_users()
        for start in range(0, len(owners), _CHUNK):
            yield from self._generate_chunk(start, owners[start : start + _CHUNK].tolist())

    def _shuffle_message_users(self) -> npt.NDArray[np.int64]:
        """Return the user number of each message in random order; 0 is the heavy user."""
        others = np.resize(np.arange(self._users.start, self._users.stop), self._messages - self._of_heavy)
        owners = np.concatenate([np.zeros(self._of_heavy, dtype=np.int64), others])
        self._random.shuffle(owners)
        return owners

    def _generate_chunk(self, start: int, owners: list[int]) -> Iterator[message_pb2.ChatMessage]:
        texts = draw_words(self._random, len(owners))
        equal = self._random.random(len(owners)) < _EQUAL_TIMES
        carries = self._random.random(len(owners))
        for n, owner in enumerate(owners):
            speaker = self._speakers[owner]
            if not (equal[n] and speaker.messages):
                speaker.ts_us = self._compute_ts_us(start + n)
            message = self._build_message(owner, speaker, texts[n])
            if carries[n] < self._compute_vector_share(owner):
                message.embedding.extend(draw_unit_vector(self._random).tolist())
            speaker.messages += 1
            yield message

    def _build_message(self, owner: int, speaker: _Speaker, words: tuple[list[str], bool]) -> message_pb2.ChatMessage:
        user_id = format_user_id(owner)
        message = message_pb2.ChatMessage(
            message_id=f"m{self._phase}-{owner}-{speaker.messages}",
            user_id=user_id,
            role=message_pb2.ROLE_ASSISTANT if speaker.messages % 2 else message_pb2.ROLE_USER,
            content=join_words(*words),
            conversation_id=f"c{self._phase}-{owner}-{speaker.messages // _CONVERSATION}",
        )
        message.ts.FromMicroseconds(speaker.ts_us)
        self._record_message(owner, SampledMessage(message.message_id, speaker.ts_us, message.role, *words))
        return message

    def _compute_ts_us(self, position: int) -> int:
        first = self._size.messages // 10 if self._phase else 0
        return _BEGIN_US + (first + position) * (_YEAR_US // self._size.messages)

    def _compute_vector_share(self, owner: int) -> float:
        size = self._size
        if owner == 0:
            return size.vectors / 2 / max(1, size.heavy)
        if owner % _WITH_VECTORS != 1:
            return 0.0
        return size.vectors / 2 / ((size.messages - size.heavy) / _WITH_VECTORS)

    def _record_message(self, owner: int, message: SampledMessage) -> None:
        if owner == 0:
            if self._speakers[0].messages % max(1, self._size.heavy // _NOTED_OF_HEAVY) == 0:
                self.sample.heavy.append(message)
        elif owner % _WITH_VECTORS == 1 and (owner - self._users.start) // _WITH_VECTORS < _NOTED_USERS:
            self.sample.typical.setdefault(format_user_id(owner), []).append(message)


def format_user_id(owner: int) -> str:
    """Return the user id of a user number; user number 0 is the heavy user."""
    return f"u{owner:06}" if owner else HEAVY


def draw_unit_vector(random: np.random.Generator) -> Floats:
    """Return a random unit vector of shape (DIMENSION,)."""
    vector = random.standard_normal(DIMENSION, dtype=np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)
