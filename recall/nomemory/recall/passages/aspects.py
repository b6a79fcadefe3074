"""What a question asks about, aspect by aspect, and how much of it a text covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.passages.thesaurus import LONGEST, NO_SENSE, Sense, joined, sense, senses_in_han, senses_in_stems
from nomemory.text.dates import names_moment
from nomemory.text.normalisation import plain
from nomemory.text.question_reading import QuestionReading
from nomemory.text.stop_words import COMPARISON_STOP_WORDS
from nomemory.text.terms import pairs, stem, word_set

BY_INSTANCE = 0.8
"""How much of a concept that is asked for (food) a text covers that has an instance of it (fish)."""

BY_CONCEPT = 0.6
"""How much of an instance that is asked for (fish) a text covers that has the concept (food)."""

BY_SIBLING = 0.4
"""How much of an instance that is asked for (fish) a text covers that has another one (meat)."""

TITLE, FULL, WEAK = 2.0, 1.0, 0.3
"""The weight of what is named between 《 and 》, of words that say what, and of those that say when, how, or little."""

SLOT = 0.5
"""The weight of having a date where the question asks when, and a number where it asks how many."""

_TOKEN = regex.compile(r"《(?P<title>[^》]+)》|(?P<han>\p{Han}+)|(?P<word>[\p{L}\p{N}]+)(?:'\p{L}+)?")
_IDLE_HAN = word_set(
    """
    还记得 记得 是不是 说过 我们 你们 咱们 他们 聊到 聊过 提过 提到 告诉 知道 请问 那个 这个 哪个 哪些 哪里 哪儿
    哪天 哪一天 哪年 哪位 几点 几岁 什么 时候 时间 怎么 怎么样 怎样 多少 多大 多久 为什么 为何 是否 有没有 自己 或者
    还是 以及 以前 以后 之前 之后 现在 后来 最近 上次 目前 将来 曾经 一直 一下 可以 应该 到底 经过 上面 内容 东西
    喜欢 偏好 喜好 讨厌 发生 改成 今年 去年 今天 昨天 明天 本周 这周 本月 重要 我 你 您 他 她 它 的 了 吗 呢 吧 是
    在 有 和 或 与 谁 叫 不 没 对 哪 这 那
    """
)
_EDGE_HAN = "还说聊几怎跟能会要请帮过从到做事个按爱想去来把被给为也都就很每里上下人型改变得地再又"
"""Characters that say little at the edge of an unknown word, where they are not half of it."""

_JOINT = regex.compile("[从到把被给跟为]")
LONG_RUN = 4
"""Characters beyond which an unknown run is more than one word."""

_LONGEST_WORD = max(LONGEST, *map(len, _IDLE_HAN))
_WEAK_WORDS = frozenset(
    map(
        stem,
        word_set(
            """
            month week year today tomorrow yesterday rest recently currently lately soon later first end start date day
            since old new long call name still move change good best often usually must project develop summarise
            summarize mention specific kind receive show share happen encounter recommend feel favorite favourite
            january february march april may june july august september october november december during
            """
        ),
    )
) | {"项目", "总结"}
_IDLE_WORDS = COMPARISON_STOP_WORDS | {"last", "time", "times", "above"}
_SCHEDULED = Sense(within=frozenset(["schedule", "period"]))
_PROMISED = Sense(within=frozenset(["promise"]))
_COMMITMENT = regex.compile(r"\bi(?:'ll| will| promise)\b|我(?:会|来|一定|保证|答应)")
_DIGIT = regex.compile(r"\d")
_HOW_IT_GOES = regex.compile(r"怎么?样了|如何了|\bhow(?:'s| is| are| did)\b.*\b(?:going|go|come along|coming along)\b")


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that a question asks about: an English stem or Chinese characters, and what they mean."""

    word: str
    sense: Sense = NO_SENSE
    weight: float = FULL


@dataclass(frozen=True, slots=True)
class Asked:
    """All that a question asks about. Without aspects it names nothing to look for.

    Attributes:
        text: the question as it is compared.
        aspects: what it names.
        moment: it asks when.
        number: it asks how many, or how old.
    """

    text: str
    aspects: tuple[Aspect, ...]
    moment: bool
    number: bool

    def names(self, *concepts: str) -> bool:
        """Return whether the question speaks of one of the concepts."""
        return any(not aspect.sense.concepts.isdisjoint(concepts) for aspect in self.aspects)


@dataclass(frozen=True, slots=True)
class Content:
    """What a text is about, ready to be compared."""

    text: str
    stems: frozenset[str]
    sense: Sense
    has_moment: bool
    has_number: bool


def asked(reading: QuestionReading) -> Asked:
    """Take a question apart."""
    aspects = tuple(_distinct(_aspects(reading.plain)))
    return Asked(reading.plain, aspects, moment=reading.asks_for_date, number=reading.asks_for_number)


def content(text: str) -> Content:
    """Prepare a text."""
    simple = plain(text)
    words: list[str] = []
    senses: set[Sense] = set()
    for match in _TOKEN.finditer(simple):
        if match["word"]:
            words.append(stem(match["word"]))
        else:
            senses.update(senses_in_han(match["han"] or match["title"]))
    senses.update(senses_in_stems(words))
    if moment := names_moment(simple):
        senses.add(_SCHEDULED)
    if _COMMITMENT.search(simple):
        senses.add(_PROMISED)
    return Content(simple, frozenset(words), joined(senses), moment, bool(_DIGIT.search(simple)))


def cover(aspect: Aspect, text: Content) -> float:
    """Return how much of an aspect a text covers, from 0 to 1."""
    return max(_by_word(aspect.word, text), _by_sense(aspect.sense, text.sense))


def coverage(question: Asked, texts: list[tuple[Content, float]]) -> float:
    """Return how much of a question texts together cover, from 0 to 1, where each text counts by a factor.

    0 of a question without aspects.
    """
    parts = [
        (aspect.weight, max((factor * cover(aspect, text) for text, factor in texts), default=0.0))
        for aspect in question.aspects
    ]
    if question.moment:
        parts.append((SLOT, max((factor * text.has_moment for text, factor in texts), default=0.0)))
    if question.number:
        parts.append((SLOT, max((factor * text.has_number for text, factor in texts), default=0.0)))
    total = sum(weight for weight, _ in parts)
    return sum(weight * share for weight, share in parts) / total if question.aspects else 0.0


def _distinct(aspects: Iterator[Aspect]) -> Iterator[Aspect]:
    """Leave out what asks again for a concept that was named: work, and then profession."""
    words: set[str] = set()
    named: set[str] = set()
    for aspect in aspects:
        if aspect.word not in words and not (aspect.sense.named and aspect.sense.named <= named):
            yield aspect
        words.add(aspect.word)
        named |= aspect.sense.named


def _aspects(text: str) -> Iterator[Aspect]:
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["title"]:
            yield Aspect(match["title"], weight=TITLE)
        elif match["han"]:
            yield from _in_han(match["han"])
        else:
            words.append(match["word"])
    yield from _in_words(words)
    if _HOW_IT_GOES.search(text):
        yield Aspect("", Sense(named=frozenset(["progress"])), WEAK)


def _in_words(words: list[str]) -> Iterator[Aspect]:
    """Return the aspects of English words: phrases that have a sense, then words that are not idle."""
    position = 0
    while position < len(words):
        phrase = " ".join(map(stem, words[position : position + 2]))
        if " " in phrase and (meaning := sense(phrase)).concepts:
            yield _weighed(Aspect(phrase, meaning))
            position += 2
            continue
        word = stem(words[position])
        if sense(word).concepts or words[position] not in _IDLE_WORDS:
            yield _weighed(Aspect(word, sense(word))) if not word.isdigit() else Aspect(word, weight=WEAK)
        position += 1


def _in_han(run: str) -> Iterator[Aspect]:
    """Return the aspects of Chinese characters: words that have a sense, and what is left between the idle ones."""
    rest = ""
    position = 0
    while position < len(run):
        word = _longest(run, position)
        if not word:
            rest += run[position]
            position += 1
            continue
        yield from _unknown(rest)
        rest = ""
        if (meaning := sense(word)).concepts:
            yield _weighed(Aspect(word, meaning))
        position += len(word)
    yield from _unknown(rest)


def _unknown(rest: str) -> Iterator[Aspect]:
    """Return the aspects of characters in which no word is known: of a long run, one on each side of a joint."""
    for part in _JOINT.split(rest) if len(rest) > LONG_RUN else [rest]:
        yield from _trimmed(part)


def _trimmed(rest: str) -> Iterator[Aspect]:
    while len(rest) != 2 and rest and rest[0] in _EDGE_HAN:  # noqa: PLR2004 - most words have two characters
        rest = rest[1:]
    while len(rest) != 2 and rest and rest[-1] in _EDGE_HAN:  # noqa: PLR2004 - as above
        rest = rest[:-1]
    if rest:
        yield Aspect(rest, weight=FULL if len(rest) > 1 else WEAK)


def _weighed(aspect: Aspect) -> Aspect:
    return replace(aspect, weight=WEAK) if aspect.word in _WEAK_WORDS else aspect


def _longest(run: str, start: int) -> str:
    """Return the longest idle or known word that starts here, or nothing."""
    for end in range(min(start + _LONGEST_WORD, len(run)), start, -1):
        word = run[start:end]
        if word in _IDLE_HAN or sense(word).concepts:
            return word
    return ""


def _by_word(word: str, text: Content) -> float:
    if word.isascii():
        return float(bool(word) and all(part in text.stems for part in word.split()))
    if word in text.text:
        return 1.0
    parts = pairs(word)
    return sum(part in text.text for part in parts) / len(parts)


def _by_sense(wanted: Sense, found: Sense) -> float:
    return max(
        1.0 if wanted.named & found.named else 0.0,
        BY_INSTANCE if wanted.named & found.within else 0.0,
        BY_CONCEPT if wanted.within & found.named else 0.0,
        BY_SIBLING if wanted.within & found.within else 0.0,
    )
