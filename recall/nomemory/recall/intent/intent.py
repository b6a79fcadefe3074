"""The intent of a question: hypotheses, whose words would decide them, and which tool to begin with.

What kinds of things questions ask for, and the words by which a kind is recognised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from nomemory.recall.model.question import Role
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH
from nomemory.text.question_cues import ASKS_FOR_PROMISE
from nomemory.text.question_reading import QuestionReading


class Hypothesis(Enum):
    """The kinds of statement that could answer a question."""

    PREFERENCE = "preference"
    PROFILE = "profile"
    CONSTRAINT = "constraint"
    SCHEDULE = "schedule"
    FORMAT = "format"
    PROJECT = "project"
    PROMISE = "promise"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of questions: what a question about it asks for, and what matches such questions."""

    hypothesis: Hypothesis
    asked: re.Pattern[str]


def _topic(hypothesis: Hypothesis, asked: str) -> Topic:
    """Make a topic; `asked` has alternatives between bars, over as many lines as it takes."""
    return Topic(hypothesis, re.compile("".join(line.strip() for line in asked.splitlines()), re.IGNORECASE))


TOPICS: Final = (
    Topic(Hypothesis.PROMISE, ASKS_FOR_PROMISE),
    _topic(
        Hypothesis.FORMAT,
        r"""格式|写法|排版|文风|风格.*(?:写|总结|输出)|总结一下
        |\bformat\b|\bsummari[sz]e\b|\bwriting style\b|\bthe way i like\b""",
    ),
    _topic(
        Hypothesis.SCHEDULE,
        r"""日程|安排|行程|要办|待办|截止|约了|预约|会议
        |\b(?:diary|schedule|calendar|deadlines?|appointments?|coming up|to.?dos?|must not forget)\b""",
    ),
    _topic(Hypothesis.CONSTRAINT, r"过敏|忌口|不能(?:吃|喝|碰|用)|禁忌|\ballerg|\bintoleran|\bmust avoid\b"),
    _topic(
        Hypothesis.CONSTRAINT,
        r"要求|规矩|规则|底线|\b(?:must (?:not|never)|never|requirements?|rules?)\b",
    ),
    _topic(
        Hypothesis.PREFERENCE,
        r"饮食|口味|吃什么|爱吃|喜欢吃|忌口|吃辣|食物|\b(?:eat|food|diet|dishes|cuisine)\b",
    ),
    _topic(
        Hypothesis.PROFILE,
        r"""工作|职业|上班|公司|岗位|做什么的
        |\b(?:work|job|occupation|profession|what (?:do|did) i do|for a living)\b""",
    ),
    _topic(
        Hypothesis.PROJECT,
        r"项目|进展|进度|进行得|做到哪|阶段|\b(?:project|progress|how far along|going)\b",
    ),
    _topic(Hypothesis.PREFERENCE, r"喜欢|偏好|爱好|讨厌|\b(?:like|love|hate|prefer|favou?rite)"),
)
"""From the narrow to the wide: the first that a question matches leads."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The intent of a question.

    Attributes:
        hypotheses: up to three, the strongest first; none: anything.
        role: whose words would decide it.
        first_tool: what suits it best.
    """

    hypotheses: tuple[Hypothesis, ...]
    role: Role
    first_tool: str


_MAX_HYPOTHESES: Final = 3


def read_intent(reading: QuestionReading) -> Intent:
    """Return the intent of a question."""
    topics = [topic for topic in TOPICS if topic.asked.search(reading.asked)]
    hypotheses = tuple(dict.fromkeys(topic.hypothesis for topic in topics))[:_MAX_HYPOTHESES]
    return Intent(
        hypotheses=hypotheses,
        role=Role.ANY if reading.asks_for_promise else Role.USER,
        first_tool=_first_tool(hypotheses, reading),
    )


def _first_tool(hypotheses: tuple[Hypothesis, ...], reading: QuestionReading) -> str:
    if reading.phrases:
        return LEXICAL_SEARCH
    return MESSAGES_LIST if hypotheses[:1] == (Hypothesis.SCHEDULE,) else SEMANTIC_SEARCH
