"""The words of a text by which it is compared with another, in Chinese and English."""

from __future__ import annotations

import threading
import unicodedata
from itertools import pairwise

import opencc
import regex  # type: ignore[import-untyped]  # it ships without types
import Stemmer

_RUN = regex.compile(r"(?P<han>\p{Han}+)|(?P<word>[\p{L}\p{N}]+(?:'[a-z]+)?)")
_NUMBER = regex.compile(r"\d+(?:[.:]\d+)*")
_QUOTES = str.maketrans({"’": "'", "‘": "'"})


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as a text."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
a an the this that these those i me my mine myself we us our ours you your yours yourself he him his she her hers it
its they them their am is are was were be been being have has had having do does did doing done will would shall should
can could may might must ought and or but nor if then else because as until while although though so than too very just
only of at by for with about against between into through during before after above below to from up down in out on off
over under again further once here there when where why how what which who whom whose all any both each few more most
other another some such no not own same also ever even still yet already now then really actually please let lets get
got go going goes went come came say says said tell tells told talk talked know known remember think thought thing
things something anything much many lot one way make made want wants like likes prefer
don doesn didn isn aren wasn weren won wouldn shouldn couldn can't don't s t d m re ve ll user
"""
)
"""English words that say nothing of what a text is about. What somebody likes is what follows `like`."""

_IRREGULAR = {
    form: verb
    for verb, forms in {
        "break": "broke broken", "eat": "ate eaten", "drink": "drank drunk", "buy": "bought", "lose": "lost",
        "teach": "taught", "grow": "grew grown", "fly": "flew flown", "run": "ran", "swim": "swam swum",
        "drive": "drove driven", "write": "wrote written", "sing": "sang sung", "sleep": "slept", "leave": "left",
        "meet": "met", "win": "won", "choose": "chose chosen", "sell": "sold", "build": "built", "draw": "drew drawn",
        "speak": "spoke spoken", "wear": "wore worn", "give": "gave given", "take": "took taken", "see": "saw seen",
        "feel": "felt", "forget": "forgot forgotten", "begin": "began begun", "ride": "rode ridden", "spend": "spent",
        "hide": "hid hidden", "fall": "fell fallen", "catch": "caught", "find": "found", "pay": "paid", "quit": "quits",
    }.items()
    for form in forms.split()
}  # fmt: skip
"""Forms of common English verbs that a stemmer does not know."""

_IDLE_HAN = frozenset(
    "的了着过吗呢吧啊呀嘛么啦哦地得我你您他她它们这那哪是在有和与跟及或也都就还又很太最更把被给让向从到对于"
)
"""Chinese characters of grammar: a pair of two of them is no word."""


class _Tools(threading.local):
    """The stemmer and the converter keep state while they work, so each thread has its own."""

    def __init__(self) -> None:
        self.stemmer = Stemmer.Stemmer("english")
        self.simplified = opencc.OpenCC("t2s")


_tools = _Tools()


def plain(text: str) -> str:
    """Return a text as it is compared: compatible forms, lower case, simplified Chinese. Its length may change.

    Lone surrogates, which no converter takes, become question marks.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    if folded.isascii():
        return folded
    return str(_tools.simplified.convert(folded.encode("utf-8", "replace").decode("utf-8")))


def stem(word: str) -> str:
    """Return the stem of a lower-case English word."""
    return str(_tools.stemmer.stemWord(_IRREGULAR.get(word, word)))


def stems(text: str) -> frozenset[str]:
    """Return the stems of all the words of a plain text that are not Chinese, stop words too."""
    return frozenset(stem(match["word"].split("'")[0]) for match in _RUN.finditer(text) if match["word"])


def pairs(run: str) -> list[str]:
    """Return the overlapping pairs of a run of Chinese characters; one character alone is itself."""
    return [left + right for left, right in pairwise(run)] or [run]


def terms(text: str) -> frozenset[str]:
    """Return the content words of a text: stems without stop words, and pairs of Chinese characters."""
    found: set[str] = set()
    for match in _RUN.finditer(plain(text)):
        if match["han"]:
            found.update(pair for pair in pairs(match["han"]) if not _IDLE_HAN.issuperset(pair))
        elif (word := match["word"].split("'")[0]) not in STOP_WORDS:
            found.add(stem(word))
    return frozenset(found)


def numbers(text: str) -> frozenset[str]:
    """Return the numbers that a text spells in digits."""
    return frozenset(_NUMBER.findall(unicodedata.normalize("NFKC", text)))
