"""How fast a local model is on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nomemory.server.embedding.local_model import TextModel

TEXTS: Final = (
    (
        "I moved to the flat above the bakery in March, and the smell of bread still wakes me before the alarm does, "
        "even though I have slept with the window shut ever since the frost came."
    ),
    (
        "Could you remind Anna that the report on the new tram line is due on Friday, and that I will bring the maps? "
        "She wanted the old ones too, with the notes that we took at the depot."
    ),
    "That sounds lovely! How long did the two of you stay at the lake?",
    "我从小就不吃辣椒，因为胃不好，所以聚餐的时候麻烦帮我点一份清淡的菜，汤也不要太油，米饭有没有都可以。",
    "下周三下午三点我们在图书馆门口见面，记得带上身份证和上次借的那两本书，如果下雨就改到一楼的咖啡店里等。",
)
"""As long as messages in a chat are: 37 tokens on average."""
QUERY: Final = "When is the report on the tram due?"
_TOGETHER: Final = 4
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class LocalSpeed:
    """The CPU time of a model.

    Attributes:
        texts_per_cpu_s: messages, in batches.
        query_cpu_ms: a query of twelve tokens, alone.
    """

    texts_per_cpu_s: float
    query_cpu_ms: float


def measured(model: TextModel) -> LocalSpeed:
    """Embed some texts in this process (1 s). The first ones are not counted."""
    texts = TEXTS * _TOGETHER
    batch_s = _cpu_s(lambda: model.encode(texts, is_query=False))
    query_s = _cpu_s(lambda: model.encode([QUERY], is_query=True))
    return LocalSpeed(round(len(texts) / batch_s, 1), round(1000 * query_s, 2))


def _cpu_s(work: Callable[[], object]) -> float:
    """Return the mean CPU time of some work, done several times."""
    work()
    before_s = time.process_time()
    for _ in range(_ROUNDS):
        work()
    return (time.process_time() - before_s) / _ROUNDS
