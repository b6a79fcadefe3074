"""Random messages, and brute force over them: what each read has to find."""

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
"""No two of them share a stem or a character."""
ROLES = (message_pb2.ROLE_USER, message_pb2.ROLE_ASSISTANT, message_pb2.ROLE_SYSTEM, message_pb2.ROLE_TOOL)
_BEGIN_S = 1_750_000_000
_AT_ONE_TIME = 3
"""Messages that share a time."""

Message = message_pb2.ChatMessage
Admits = Callable[[Message], bool]


@dataclass(slots=True)
class Dataset:
    """The messages of one user, in the contract's order.

    Args:
        of: the numbers of the messages.
        dimension: of the vector that each of them brings.
    """

    user_id: str
    random: random.Random
    dimension: int
    messages: list[Message] = field(default_factory=list)

    def say(self, numbers: Iterable[int]) -> list[Message]:
        """Make messages; they belong to the dataset from now on."""
        said = [self._message(number) for number in numbers]
        self.messages = sorted([*self.messages, *said], key=_place)
        return said

    def forget(self, is_gone: Admits) -> list[Message]:
        """Take messages out; return them."""
        gone = [message for message in self.messages if is_gone(message)]
        self.messages = [message for message in self.messages if not is_gone(message)]
        return gone

    def newest_first(self, admits: Admits = lambda _: True) -> list[Message]:
        """Return what is admitted, the newest first."""
        return [message for message in reversed(self.messages) if admits(message)]

    def oldest_first(self, admits: Admits = lambda _: True) -> list[Message]:
        """Return what is admitted, the oldest first."""
        return [message for message in self.messages if admits(message)]

    def _message(self, number: int) -> Message:
        draw = self.random
        words = draw.choices(WORDS, k=draw.randint(1, 6))
        message = Message(
            user_id=self.user_id,
            message_id=f"m{draw.getrandbits(32):08x}-{number}",
            role=draw.choice(ROLES),
            content=" ".join([*words, f"no{number}"]),
            conversation_id=draw.choice(("", "c", "d")),
            metadata=draw.choice(({}, {"app": "a"}, {"app": "b"}, {"app": "a", "kind": "é"})),
            embedding=vector(draw, self.dimension),
        )
        message.ts.FromMicroseconds((_BEGIN_S + number // _AT_ONE_TIME) * 1_000_000 + 123_456)
        return message


def vector(draw: random.Random, dimension: int) -> list[float]:
    """Draw a vector of length 1."""
    drawn = [draw.gauss(0, 1) for _ in range(dimension)]
    length = math.hypot(*drawn)
    return [item / length for item in drawn]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how near two vectors are."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.hypot(*one) / math.hypot(*other)


def has(*words: str) -> Admits:
    """Admit what has all these words."""
    return lambda item: set(words) <= set(item.content.split())


def has_phrase(first: str, then: str) -> Admits:
    """Admit what has two words, one right after the other."""
    return lambda item: (first, then) in pairwise(item.content.split())


def ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids of messages."""
    return [message.message_id for message in messages]


def differing(what: str, got: Sequence[object], wanted: Sequence[object]) -> Iterator[str]:
    """Say how two lists differ, in a line; nothing: they do not."""
    if list(got) == list(wanted):
        return
    missing, surplus = [item for item in wanted if item not in got], [item for item in got if item not in wanted]
    if missing or surplus:
        yield f"{what}: {len(missing)} missing {missing[:3]}, {len(surplus)} too many {surplus[:3]}"
    elif len(got) != len(wanted):
        yield f"{what}: {len(got)} in place of {len(wanted)}: something comes twice"
    else:
        yield f"{what}: in another order"


def _place(message: Message) -> tuple[int, str]:
    return message.ts.ToMicroseconds(), message.message_id
