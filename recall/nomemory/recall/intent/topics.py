"""The topics of questions: the words that recognise a topic, and the words in which people speak of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from nomemory.text.question_cues import ASKS_FOR_PROMISE


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
    """A topic of questions.

    Attributes:
        hypothesis: what a question about it asks for.
        asked: matches questions about it.
        said: the words in which it comes up in a conversation, Chinese and English.
        told: what somebody might have said that answers it, in Chinese and in English; a wide topic has none.
    """

    hypothesis: Hypothesis
    asked: re.Pattern[str]
    said: tuple[str, ...]
    told: tuple[str, ...]


def _topic(hypothesis: Hypothesis, asked: str, said: str = "", *told: str) -> Topic:
    """Make a topic; `asked` and `said` are alternatives between bars, over as many lines as it takes."""
    asked, said = ("".join(line.strip() for line in lines.splitlines()) for lines in (asked, said))
    return Topic(hypothesis, re.compile(asked, re.IGNORECASE), tuple(filter(None, said.split("|"))), told)


TOPICS: Final = (
    Topic(
        Hypothesis.PROMISE,
        ASKS_FOR_PROMISE,
        ("我会", "提醒", "I'll", "remind", "promise"),
        ("好的，我会每周提醒你。", "I'll remind you every week."),
    ),
    _topic(
        Hypothesis.FORMAT,
        r"""格式|写法|排版|文风|风格.*(?:写|总结|输出)|总结一下
        |\bformat\b|\bsummari[sz]e\b|\bwriting style\b|\bthe way i like\b""",
        """以后|写法|格式|总结|输出|风格|每段|不要
        |from now on|bullet points|format|tables|bottom line|summary|keep it under""",
        "以后总结按这种格式写，不要那样写。",
        "From now on write it in this format: bullet points, no tables.",
    ),
    _topic(
        Hypothesis.SCHEDULE,
        r"""日程|安排|行程|要办|待办|截止|约了|预约|会议|什么时候|哪天|几点
        |\b(?:diary|schedule|calendar|deadlines?|appointments?|coming up|to.?dos?|must not forget)\b""",
        """截止|会议|预约|约了|约到|之前要|之前得|DDL|号下午|号早上|提醒
        |deadline|appointment|booked|due|by the|meeting""",
        "我约了下周的预约，某月某号之前要交。",
        "I have an appointment on the 12th, and it is due by the 20th.",
    ),
    _topic(
        Hypothesis.CONSTRAINT,
        r"过敏|忌口|不能(?:吃|喝|碰|用)|禁忌|\ballerg|\bintoleran|\bmust avoid\b",
        "过敏|不能|绝对|allergic|hives|allergy|intolerant",
        "我对这个过敏，绝对不能碰。",
        "I'm allergic to it and must never have it.",
    ),
    _topic(
        Hypothesis.CONSTRAINT,
        r"要求|规矩|规则|底线|\b(?:must (?:not|never)|never|requirements?|rules?)\b",
        "不要|必须|以内|不超过|以后|never|must|no more than|at most|under|fewer than|keep",
        "以后必须这样，不要那样，不超过多少。",
        "Never more than three, at least two, and keep it under a limit.",
    ),
    _topic(
        Hypothesis.PREFERENCE,
        r"饮食|口味|吃什么|爱吃|喜欢吃|忌口|吃辣|食物|\b(?:eat|food|diet|dishes|cuisine)\b",
        "不吃|能吃|过敏|忌口|吃素|吃辣|口味|vegetarian|vegan|allergic|spicy|diet|meat",
        "我不吃辣，吃素，对某种食物过敏。",
        "I'm vegetarian, I don't eat spicy food, and I'm allergic to something.",
    ),
    _topic(
        Hypothesis.PROFILE,
        r"""工作|职业|上班|公司|岗位|做什么的
        |\b(?:work|job|occupation|profession|what (?:do|did) i do|for a living)\b""",
        """公司|上班|岗位|设计师|编辑|护士|工程师|老师|离职|入职|offer
        |work at|job|nurse|designer|engineer|teacher|manager|office|promoted""",
        "我在一家公司上班，做设计师。",
        "I work as a nurse at a hospital.",
    ),
    _topic(
        Hypothesis.PROJECT,
        r"项目|进展|进度|进行得|做到哪|阶段|\b(?:project|progress|how far along|going)\b",
        "进度|进展|完成|做完|项目|上线|progress|finished|done|draft|version|launch",
        "项目有了新进展，这周完成了一半。",
        "The project moved on: this week we finished half of it.",
    ),
    _topic(
        Hypothesis.PREFERENCE,
        r"喜欢|偏好|爱好|讨厌|\b(?:like|love|hate|prefer|favou?rite)",
    ),
)
"""From the narrow to the wide: the first that a question matches leads."""
