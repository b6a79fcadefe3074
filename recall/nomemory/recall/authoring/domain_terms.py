"""The terms that somebody uses often and people in general do not: a starter lexicon from one user's own messages.

There is no corpus to compare with. What everybody says is left out by lists of common words; what is left is weighed by
how many messages have it. Chinese has no spaces: a run of characters counts as a term if its parts stand together much
more often than chance would have them (pointwise mutual information, as in Church and Hanks, 1990), and if what stands
before and after it varies (accessor variety, Feng et al., 2004).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.normalisation import plain
from nomemory.text.stop_words import COMPARISON_STOP_WORDS
from nomemory.text.terms import stem, word_set

COMMON_CHINESE: Final = word_set(
    """
    我们 你们 他们 她们 咱们 自己 大家 别人 有人 今天 明天 昨天 后天 前天 今年 去年 明年 早上 晚上 中午 下午 上午 周末
    星期 这周 下周 上周 这个 那个 这些 那些 这样 那样 这么 那么 这里 那里 这边 那边 这次 上次 下次 什么 怎么 怎样
    为什 多少 哪里 哪个 时候 时间 现在 刚才 刚刚 之前 之后 以前 以后 后来 然后 已经 一直 一下 一些 一点 一个 一样
    一起 一定 一般 有点 有些 有时 没有 没什 不是 不会 不要 不能 不想 不用 不过 不太 不了 不到 不行 不知 可以 可能 可是
    应该 需要 必须 知道 觉得 感觉 认为 希望 喜欢 想要 打算 准备 开始 结束 继续 因为 所以 但是 如果 虽然 而且 或者 还是
    还有 就是 只是 也是 都是 其实 真的 确实 当然 特别 非常 比较 挺好 很多 好像 好的 好吧 谢谢 你好 再见 请问 帮我
    告诉 提醒 记得 忘了 看看 看到 听到 说过 说了 问题 事情 东西 地方 办法 情况 意思 样子 里面 外面 上面 下面 前面
    后面 旁边 最近 最后 最好 第一 每天 每周 每次 大概 左右 起来 出来 回来 过来 出去 进去 下来 上去 了吗 是不 有没
    """
)

EDGES: Final = frozenset(
    "的了着过吗呢吧啊呀嘛么啦哦哈嗯地得我你您他她它们这那哪是在有和与跟及或也都就还又很太最更把被给让向从到对于个些"
    "不没别要会能可想去来说看做用再先才只每各一二三四五六七八九十两几多少上下里前后时候天年月日号点分次第为以而且但因所"
)
"""A term neither begins nor ends with one of these."""

COMMON_ENGLISH: Final = COMPARISON_STOP_WORDS | word_set(
    """
    good great nice bad better best well sure okay yes yeah hello hey thanks thank sorry hope need needs needed use
    used using day days today tomorrow yesterday week weeks weekend month months year years time times morning
    afternoon evening night tonight monday tuesday wednesday thursday friday saturday sunday january february march
    april june july august september october november december hour hours minute minutes first second next new old
    big small little long short right left back around away home place people person man woman guy someone somebody
    everyone everybody anyone help work works working worked try tried trying start started starting stop look looks
    looking looked find found feel feels feeling felt give gave given take took taken put keep kept let see saw seen
    hear heard ask asked call called show showed told mean means meant seem seems maybe probably later early late
    soon always never often sometimes usually again though almost enough quite pretty bit lots every several
    different same kind sort part end two three four five six seven eight nine ten hundred since without within
    however because ever else nothing full gets last leave done gone half hard easy able
    """
)


CHARS_MAX: Final = 200_000
"""Characters that are looked at, of the messages that come first."""
_MESSAGE_CHARS_MAX: Final = 4_000
_LINKS: Final = regex.compile(r"\S+@\S+|https?://\S+|\S*\d\S*")
_RUN: Final = regex.compile(r"\p{Han}+|[\p{Latin}][\p{Latin}\p{M}'-]*")
_HAN: Final = regex.compile(r"\p{Han}")
_LONGEST: Final = 4
_COHESION_MIN: Final = 1.5
"""In nats: the parts stand together four times as often as chance."""
_VARIETY_MIN: Final = 2
_SAME_SHARE: Final = 0.8
"""A part that stands mostly within a longer term is no term of its own."""
_MESSAGES_LEAST: Final = 2
_CANDIDATES_MAX: Final = 600
_LONGER_MAX: Final = 4
_SHORTEST_WORD: Final = 3


@dataclass(frozen=True, slots=True)
class Term:
    """A term, the longer terms that have it in them, and how many messages have it."""

    text: str
    longer: tuple[str, ...]
    messages: int


def domain_terms(messages: Iterable[str], limit: int = 24) -> tuple[Term, ...]:
    """Return the terms of one user's messages, the most frequent first.

    Numbers, links, addresses and everything with a digit in it are left out.

    Args:
        messages: what the user said.
        limit: how many terms at most.
    """
    chinese, english = _Chinese(), _English()
    left = CHARS_MAX
    for message in messages:
        runs = _RUN.findall(_LINKS.sub(" \n ", plain(message[: min(left, _MESSAGE_CHARS_MAX)])))
        chinese.add([run for run in runs if _HAN.match(run)])
        english.add(["" if _HAN.match(run) else run.split("'")[0].strip("-") for run in runs])
        left -= len(message)
        if left <= 0:
            break
    return tuple(_grouped({**chinese.terms(), **english.terms()}, limit))


class _Chinese:
    """Counts the Chinese of messages, and what stands around what is frequent."""

    def __init__(self) -> None:
        self._runs: list[str] = []
        self._messages: Counter[str] = Counter()
        self._grams: Counter[str] = Counter()
        self._characters = 0

    def add(self, runs: Sequence[str]) -> None:
        """Count the runs of one message."""
        found = [gram for run in runs for _, gram in _grams(run)]
        self._grams.update(found)
        self._grams.update("".join(runs))
        self._characters += sum(map(len, runs))
        self._messages.update(set(found))
        self._runs.extend(runs)

    def terms(self) -> dict[str, int]:
        """Return what qualifies, with the number of messages that have it."""
        candidates = _frequent({gram: count for gram, count in self._messages.items() if self._coheres(gram, count)})
        beside: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
        for run in self._runs:
            for start, gram in _grams(run):
                if gram in candidates:
                    beside[gram][0].add(run[max(0, start - 1) : start])
                    beside[gram][1].add(run[start + len(gram) :][:1])
        free = {gram for gram, sides in beside.items() if min(map(_variety, sides)) >= _VARIETY_MIN}
        return _without_parts({gram: candidates[gram] for gram in free})

    def _coheres(self, gram: str, messages: int) -> bool:
        if messages < _MESSAGES_LEAST or gram[0] in EDGES or gram[-1] in EDGES or _is_common(gram):
            return False
        splits = ((gram[:at], gram[at:]) for at in range(1, len(gram)))
        return min(self._information(gram, *parts) for parts in splits) >= _COHESION_MIN

    def _information(self, whole: str, left: str, right: str) -> float:
        return math.log(self._grams[whole] * self._characters / (self._grams[left] * self._grams[right]))


class _English:
    """Counts the words of messages that are written in an alphabet, and pairs of them."""

    def __init__(self) -> None:
        self._messages: Counter[str] = Counter()
        self._spelled: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, words: Sequence[str]) -> None:
        """Count the words of one message, in order."""
        kept = [word if len(word) >= _SHORTEST_WORD and word not in COMMON_ENGLISH else "" for word in words]
        pairs = [(first, second) for first, second in pairwise(kept) if first and second]
        self._messages.update({self._known(*one) for one in (*((word,) for word in kept if word), *pairs)})

    def terms(self) -> dict[str, int]:
        """Return what qualifies, as it is mostly spelled, with the number of messages that have it."""
        frequent = _frequent({key: count for key, count in self._messages.items() if count >= _MESSAGES_LEAST})
        return _without_parts({self._spelling(key): count for key, count in frequent.items()})

    def _known(self, *words: str) -> str:
        key = " ".join(map(stem, words))
        self._spelled[key][" ".join(words)] += 1
        return key

    def _spelling(self, key: str) -> str:
        return max(self._spelled[key].items(), key=lambda one: (one[1], one[0]))[0]


def _grams(run: str) -> Iterator[tuple[int, str]]:
    """Return what stands in a run, of two characters or more, and where."""
    for length in range(2, _LONGEST + 1):
        for start in range(len(run) - length + 1):
            yield start, run[start : start + length]


def _is_common(gram: str) -> bool:
    parts = (part for _, part in _grams(gram))
    return any(part in COMMON_CHINESE for part in parts)


def _frequent(counts: dict[str, int]) -> dict[str, int]:
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return {text: counts[text] for text in ranked[:_CANDIDATES_MAX]}


def _variety(neighbours: set[str]) -> int:
    """Count what stands beside a term; the end of a run is as good as two characters."""
    return len(neighbours) + ("" in neighbours)


def _without_parts(counts: dict[str, int]) -> dict[str, int]:
    """Drop what stands mostly within something longer."""
    kept = {}
    for text, count in counts.items():
        within = max((other for long, other in counts.items() if text != long and text in long), default=0)
        if within < _SAME_SHARE * count:
            kept[text] = count
    return kept


def _grouped(counts: dict[str, int], limit: int) -> Iterator[Term]:
    """Put longer terms to the one that they hold: `demo` to `product demo`."""
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    holders = {text: [other for other in ranked if other != text and _holds(other, text)] for text in ranked}
    held = {longer for found in holders.values() for longer in found}
    for text in [one for one in ranked if one not in held][:limit]:
        yield Term(text, tuple(holders[text][:_LONGER_MAX]), counts[text])


def _holds(longer: str, text: str) -> bool:
    return text in longer if _HAN.match(text) else f" {text} " in f" {longer} "
