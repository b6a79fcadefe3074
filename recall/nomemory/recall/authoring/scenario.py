"""The sentence that a skill is made from."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from nomemory.recall.errors import RecallError
from nomemory.text.language import Language

SCENARIO_CHARS_MAX: Final = 600
_CHINESE: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_SENTENCE_END: Final = re.compile(r"[。！？!?；;\n]|\.\s")
_USER_ID: Final = re.compile(
    r"(?:user|tenant|account|owner|x)[^A-Za-z0-9\s]?(?=ids?(?![a-z]))|(?<![A-Za-z])uid(?![A-Za-z])", re.IGNORECASE
)
_CALL: Final = re.compile(r"([A-Za-z])[ \t]?[(（](?=[^()（）]*\b(?:user|tenant|owner|account|identity|subject)s?\b)")
_SYNTAX: Final = str.maketrans('`_{}[]<>|#*=~\\"$^', "＇＿｛｝［］＜＞｜＃＊＝～＼＂＄＾")
"""What Markdown, frontmatter or a call could be made of, and forms of it that only people read."""
_HEADLINE_CHARS: Final = 60


class EmptyScenarioError(RecallError, ValueError):
    """There is no sentence to make a skill from."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a skill is for, on one line, with nothing in it that could be taken for markup or a call."""

    text: str
    language: Language

    @property
    def headline(self) -> str:
        """Return its first sentence, short enough for a heading."""
        first = _SENTENCE_END.split(self.text, maxsplit=1)[0].strip()
        return first if len(first) <= _HEADLINE_CHARS else f"{first[:_HEADLINE_CHARS].rstrip()}…"


def read_scenario(given: str, language: Language | None = None) -> Scenario:
    """Take a sentence as somebody typed it; what is longer than `SCENARIO_CHARS_MAX` is cut.

    Args:
        given: any text.
        language: what to write in; None: Chinese if there is any Chinese in it, else English.

    Raises:
        EmptyScenarioError: there is no letter and no digit in it.
    """
    text = _one_line(given)
    if not any(map(str.isalnum, text)):
        raise EmptyScenarioError("a scenario has a letter or a digit at least")
    if len(text) > SCENARIO_CHARS_MAX:
        text = f"{text[: SCENARIO_CHARS_MAX - 1].rstrip()}…"
    return Scenario(_plain(text), language or language_of(text))


def language_of(text: str) -> Language:
    """Return the language of a sentence: any Chinese makes it Chinese."""
    return Language.CHINESE if _CHINESE.search(text) else Language.ENGLISH


def _one_line(text: str) -> str:
    """Drop what is not seen, and what makes or ends a line."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    seen = (" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in whole)
    return " ".join("".join(char for char in seen if unicodedata.category(char) not in {"Cf", "Cn", "Co"}).split())


def _plain(text: str) -> str:
    return _CALL.sub(r"\1 · ", _USER_ID.sub("user ", text.translate(_SYNTAX))).replace("://", "：／／")
