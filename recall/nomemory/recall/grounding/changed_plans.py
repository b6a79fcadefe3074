"""Plans that change: put off to another day, called off, or given up."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.grounding.quoted import Said
from nomemory.text.dates import days_from, names_moment
from nomemory.text.terms import stem, terms

_PUT_OFF = regex.compile(
    r"(?:推|推迟|改|延|延期|延后|提前|挪|换|顺延)(?:到|至|成|在|为)|改期"
    r"|\b(?:moved?|postponed?|deferred|rescheduled?|pushed|put off|brought forward|delayed|changed"
    r"|shifted)\b|\bnew (?:date|deadline)\b"
)
_CALLED_OFF = regex.compile(
    r"取消|不去了|去不成|去不了|退掉|退了|作罢|泡汤|黄了|不办了|不参加了"
    r"|\bcancel\w*|\bcalled off\b|\b(?:is|are|'s) off\b|\bnot going (?:to|after all|any ?more)\b|\bfell through\b"
)
_PLANNED = regex.compile(
    r"计划|打算|准备|想去|要去|订了|约了|报名|出发|将要|要在"
    r"|\bwill\b|\b(?:'m|are|'re|am) (?:going|flying|running|planning)\b|\bflying\b|\bplan\w*"
    r"|\bbooked\b|\bvisa\b|\bwant to\b|\btrip\b|\bsigned up\b|\bentered\b"
)
_GIVEN_UP = regex.compile(
    r"(?:不再|再也不|戒了?|不用再)(?P<han>\p{Han}{1,6})"
    r"|\bno more (?P<more>(?:[\p{L}-]+ ?){1,2})|\bno longer (?P<longer>(?:[\p{L}-]+ ?){1,3})"
    r"|\b(?:stopped|gave up|quit|given up) (?P<quit>(?:[\p{L}-]+ ?){1,2})"
)
_DENIES = regex.compile(r"不|没|别|\b(?:never|not|no|none|cannot|avoid)\b|n't\b")
_PERIODS = frozenset(map(stem, ("day", "week", "month", "year", "time", "hour")))
_HALF = 0.5


def overtakes(later: Said, earlier: Said) -> bool:
    """Return whether what was said later changes a plan or a habit that was told earlier."""
    return _puts_off(later, earlier) or _calls_off(later, earlier) or _gives_up(later, earlier)


def _puts_off(later: Said, earlier: Said) -> bool:
    """It names a new day, and somewhere in the message the old one."""
    if not _PUT_OFF.search(later.text):
        return False
    told = days_from(earlier.text, earlier.ts)
    named = days_from(later.whole, later.ts)
    new = [day for day in days_from(later.text, later.ts) if not any(day.may_be(other) for other in told)]
    return bool(new) and any(day.may_be(other) for day in told for other in named)


def _calls_off(later: Said, earlier: Said) -> bool:
    """It takes back something of which the earlier one was a plan."""
    if not _CALLED_OFF.search(later.text) or _CALLED_OFF.search(earlier.text):
        return False
    if not (_PLANNED.search(earlier.text) or names_moment(earlier.text)):
        return False
    what = terms(_CALLED_OFF.sub(" ", later.text))
    return bool(what & terms(earlier.text))


def _gives_up(later: Said, earlier: Said) -> bool:
    """It ends something that the earlier one told of: most of the words for it are there."""
    if _DENIES.search(earlier.text):
        return False
    told = terms(earlier.text)
    return any(_mostly_in(terms(match[match.lastgroup]) - _PERIODS, told) for match in _GIVEN_UP.finditer(later.text))


def _mostly_in(what: frozenset[str], told: frozenset[str]) -> bool:
    return bool(what) and len(what & told) >= _HALF * len(what)
