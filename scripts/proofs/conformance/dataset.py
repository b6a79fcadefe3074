"""Random messages, and the brute-force results that reads must return."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nomemory.v1 import message_pb2

ENGLISH = ("ferry", "lantern", "walnut", "harbour", "cello")
CHINESE = ("火锅", "花生", "雨伞", "渡轮", "灯笼")
WORDS = (*ENGLISH, *CHINESE)
"""Words that share no stem and no Chinese character."""
ROLES = (message_pb2.ROLE_USER, message_pb2.ROLE_ASSISTANT, message_pb2.ROLE_SYSTEM, message_pb2.ROLE_TOOL)
_BEGIN_S = 1_750_000_000
_AT_ONE_TIME = 3
"""Number of messages with equal timestamps."""

Message = message_pb2.ChatMessage
Predicate = Callable[[Message], bool]


@dataclass(slots=True)
class Dataset:
    """The messages of one user, ordered by time and id.

    Args:
        random: source of all random choices.
    """

    user_id: str
    random: random.Random
    dimension: int
    messages: list[Message] = field(default_factory=list)

    def create_messages(self, numbers: Iterable[int]) -> list[Message]:
        """Create messages and add them to the dataset."""
        created = [self._create_message(number) for number in numbers]
        self.messages = sorted([*self.messages, *created], key=_build_sort_key)
        return created

    def remove_messages(self, matches: Predicate) -> list[Message]:
        """Remove the matching messages from the dataset; return the removed messages."""
        removed = [message for message in self.messages if matches(message)]
        self.messages = [message for message in self.messages if not matches(message)]
        return removed

    def list_newest_first(self, matches: Predicate = lambda _: True) -> list[Message]:
        """Return the matching messages, newest first."""
        return [message for message in reversed(self.messages) if matches(message)]

    def list_oldest_first(self, matches: Predicate = lambda _: True) -> list[Message]:
        """Return the matching messages, oldest first."""
        return [message for message in self.messages if matches(message)]

    def _create_message(self, number: int) -> Message:
        generator = self.random
        words = generator.choices(WORDS, k=generator.randint(1, 6))
        message = Message(
            user_id=self.user_id,
            message_id=f"m{generator.getrandbits(32):08x}-{number}",
            role=generator.choice(ROLES),
            content=" ".join([*words, f"no{number}"]),
            conversation_id=generator.choice(("", "c", "d")),
            metadata=generator.choice(({}, {"app": "a"}, {"app": "b"}, {"app": "a", "kind": "é"})),
            embedding=draw_unit_vector(generator, self.dimension),
        )
        message.ts.FromMicroseconds((_BEGIN_S + number // _AT_ONE_TIME) * 1_000_000 + 123_456)
        return message


def draw_unit_vector(generator: random.Random, dimension: int) -> list[float]:
    """Return a random unit vector."""
    values = [generator.gauss(0, 1) for _ in range(dimension)]
    length = math.hypot(*values)
    return [item / length for item in values]


def compute_cosine_similarity(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine similarity of two vectors."""
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / math.hypot(*first) / math.hypot(*second)


def match_all_words(*words: str) -> Predicate:
    """Return a predicate that matches messages with all the words."""
    return lambda item: set(words) <= set(item.content.split())


def match_phrase(first: str, second: str) -> Predicate:
    """Return a predicate that matches messages in which the second word directly follows the first."""
    return lambda item: (first, second) in pairwise(item.content.split())


def get_message_ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids of messages."""
    return [message.message_id for message in messages]


def list_differences(label: str, actual: Sequence[object], expected: Sequence[object]) -> Iterator[str]:
    """Yield a line that describes the differences between two lists; nothing if they are equal."""
    if list(actual) == list(expected):
        return
    missing, surplus = (
        [item for item in expected if item not in actual],
        [item for item in actual if item not in expected],
    )
    if missing or surplus:
        yield f"{label}: {len(missing)} missing {missing[:3]}, {len(surplus)} unexpected {surplus[:3]}"
    elif len(actual) != len(expected):
        yield f"{label}: {len(actual)} items with duplicates, expected {len(expected)}"
    else:
        yield f"{label}: wrong order"


def _build_sort_key(message: Message) -> tuple[int, str]:
    return message.ts.ToMicroseconds(), message.message_id
