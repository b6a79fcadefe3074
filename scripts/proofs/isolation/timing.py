"""Whether time tells: asking for what is there and is not one's own has to take as long as asking for what is nowhere.

Both kinds of call are made in a random order. A rank test (Mann and Whitney) says how likely such a difference is if
time does not tell, and how often the one takes longer than the other. Only a difference that is certain, large enough
to be of use, and found again with fresh calls counts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from proofs.isolation.contract import METHODS, Metadata
from proofs.isolation.judge import Judge
from proofs.isolation.world import World

_WARM_UP = 20
_CERTAIN = 1e-4
_LARGE = 0.1
"""How far from a half the share of pairs must be in which the known one took longer."""

Times = npt.NDArray[np.float64]
Make = Callable[[str], Message]


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for something that exists, and for something that does not."""

    name: str
    method: str
    metadata: Metadata
    make: Make
    known: str
    unknown: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What a test says. `share`: of the pairs in which the known one took longer."""

    name: str
    share: float
    probability: float

    @property
    def tells(self) -> bool:
        """Whether time tells."""
        return self.probability < _CERTAIN and abs(self.share - 0.5) > _LARGE


def attack_by_timing(world: World, judge: Judge, calls: int, seed: int) -> list[Difference]:
    """Compare the times of calls, so many of each kind; return what each test says."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    found = []
    for question in _questions(world):
        difference = _compared(world, question, judge, calls, chance)
        for _ in range(2):
            if difference.tells:
                difference = _compared(world, question, judge, calls, chance)
        if difference.tells:
            judge.found("timing", f"{difference.name}: share {difference.share:.2f}, p {difference.probability:.1e}")
        found.append(difference)
    return found


def rank_test(name: str, known: Times, unknown: Times) -> Difference:
    """Compare two samples by the ranks of their values."""
    both = np.concatenate([known, unknown])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    size = len(known) * len(unknown)
    larger = float(ranks[: len(known)].sum()) - len(known) * (len(known) + 1) / 2
    spread = math.sqrt(size * (len(both) + 1) / 12)
    return Difference(name, larger / size, math.erfc(abs(larger - size / 2) / spread / math.sqrt(2)))


def _compared(world: World, question: Question, judge: Judge, calls: int, chance: random.Random) -> Difference:
    times: dict[str, list[float]] = {question.known: [], question.unknown: []}
    order = [question.known, question.unknown] * (calls + _WARM_UP)
    chance.shuffle(order)
    for asked in order:
        request = question.make(asked).SerializeToString()
        outcome = world.transport.call(METHODS[question.method], request, question.metadata)
        judge.see(f"timing: {question.name}", outcome)
        times[asked].append(outcome.seconds)
    known, unknown = (np.array(some[_WARM_UP:]) for some in times.values())
    return rank_test(question.name, known, unknown)


def _questions(world: World) -> Iterator[Question]:
    """Ask for a victim's message and for the victim; what is asked for in vain has the same form and length."""
    victim = world.victims[0].user_id
    nobody = victim[:-1] + ("0" if victim[-1] != "0" else "1")
    message = world.ids[0]
    absent = f"z{message[1:]}"
    for one in world.attackers:
        if one.user_id:
            for method, make in _of_own(one.user_id).items():
                yield Question(f"{method} by {one.name}", method, one.metadata, make, message, absent)
        if one.user_id and one.may_try_others:
            for method, make in _OF_OTHERS.items():
                yield Question(f"{method} of another user by {one.name}", method, one.metadata, make, victim, nobody)


def _of_own(user_id: str) -> dict[str, Make]:
    """Return requests about one's own user that name a message."""
    return {
        "GetNeighbors": lambda asked: q.GetNeighborsRequest(user_id=user_id, message_id=asked),
        "BatchGetMessages": lambda asked: q.BatchGetMessagesRequest(user_id=user_id, message_ids=[asked]),
        "DeleteMessages": lambda asked: i.DeleteMessagesRequest(user_id=user_id, message_ids=[asked]),
    }


_OF_OTHERS: dict[str, Make] = {
    "ListMessages": lambda asked: q.ListMessagesRequest(user_id=asked),
    "CountMessages": lambda asked: q.CountMessagesRequest(user_id=asked),
}
