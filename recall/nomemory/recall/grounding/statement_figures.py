"""Check that the quotes of a model-written statement support its figures and names.

A figure is supported if a quote contains it, or if it can be computed from figures in the quotes. A quote also supports
the date on which its message was sent, and dates relative to this date. A number is also supported if it equals the
number of quotes. If a figure or name of a statement is not supported, the quotes replace the statement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time, tzinfo
from decimal import Decimal
from functools import cached_property
from typing import Final

from nomemory.recall.grounding.computation import Computation, Operand, QuantityKind, verify_equation
from nomemory.recall.model.evidence import RetrievedMessages
from nomemory.recall.model.local_time import to_local_time
from nomemory.recall.model.memory_view import Citation, DraftStatement
from nomemory.recall.model.question import Question
from nomemory.text.calendar_names import MONTHS, WEEKDAYS
from nomemory.text.figures import Figure, PartialDate, find_digit_runs, find_figures, find_numbers, remove_digit_runs
from nomemory.text.relative_dates import complete_dates, find_relative_dates
from nomemory.text.sentences import find_quotations, split_sentence_texts
from nomemory.text.stop_words import STOP_WORDS

_UNIT_FACTORS: Final = frozenset(map(Decimal, (1, 2, 7, 10, 12, 24, 30, 52, 60, 100, 365, 1_000)))
"""Constants that an equation may contain: unit conversions and small offsets."""
_HALF_DAY: Final = 12
_MINUTES: Final = 60
_PREFIX_CHARS: Final = 3
"""Minimum number of characters in a shortened name. Names are usually shortened at the end."""
_LATIN_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LIST_MARK: Final = re.compile(r"[,，、;；\n]|\band\b|和|\+|&")
_ENDING: Final = re.compile(r"['’]s?$")
_GAP: Final = " … "


class FigureChecker:
    """Checks the figures and names in the statements of one answer.

    Args:
        question: the question. Its names are always supported, and dates are computed in its time zone.
        retrieval: the messages that statements may cite.
    """

    def __init__(self, question: Question, retrieval: RetrievedMessages) -> None:
        self._question = question
        self._retrieval = retrieval

    def select_supported_text(self, draft: DraftStatement, text: str, citations: Sequence[Citation]) -> str:
        """Return the text of a statement if its quotes support all figures and names, otherwise the joined quotes."""
        support = _SupportedValues.from_citations(citations, self._question)
        if self._is_text_supported(text, support.add_equation_results(draft.equations)) and self._are_names_known(
            text, citations
        ):
            return text
        return _GAP.join(dict.fromkeys(citation.quote.strip() for citation in citations))

    def _is_text_supported(self, text: str, support: _SupportedValues) -> bool:
        text_without_runs = remove_digit_runs(text, support.digit_runs)
        return all(support.supports_figure(figure) for figure in find_figures(text_without_runs))

    def _are_names_known(self, text: str, citations: Sequence[Citation]) -> bool:
        quotes = [citation.quote for citation in citations]
        senders = [
            message.name for citation in citations if (message := self._retrieval.get_message(citation.message_id))
        ]
        known_names = _fold_words(
            [*quotes, *senders, self._question.text, *(turn.text for turn in self._question.turns)]
        )
        if not _are_titles_quoted(text, quotes):
            return False
        if not _fold_words(quotes):
            return True  # The quotes are in another script, in which names are spelled differently.
        return all(_is_known_name(name, known_names) for name in self._find_names(text))

    def _find_names(self, text: str) -> Iterator[str]:
        """Yield the capitalized words that are names.

        The first word of a sentence counts as a name only if it is one of `_capitalized_words`.
        """
        for sentence in split_sentence_texts(text):
            for index, match in enumerate(_LATIN_WORD.finditer(sentence)):
                word = _ENDING.sub("", match[0])
                if not word[:1].isupper() or len(word) < _PREFIX_CHARS or _fold_word(word) in STOP_WORDS | _NO_NAMES:
                    continue
                if index or _fold_word(word) in self._capitalized_words:
                    yield word

    @cached_property
    def _capitalized_words(self) -> frozenset[str]:
        """The names of senders, and the words that the retrieved messages always capitalize inside sentences."""
        capitalized, lower_case = set[str](), set[str]()
        for message in self._retrieval:
            capitalized.update(map(_fold_word, _LATIN_WORD.findall(message.name)))
            for sentence in split_sentence_texts(message.content):
                for index, word in enumerate(_LATIN_WORD.findall(sentence)):
                    if not word[:1].isupper():
                        lower_case.add(_fold_word(word))
                    elif index:
                        capitalized.add(_fold_word(_ENDING.sub("", word)))
        return frozenset(capitalized - lower_case)


@dataclass(frozen=True)
class _SupportedValues:
    """Values that the quotes of a statement support.

    Attributes:
        numbers: all possible values of the numbers in the quotes.
        standalone_numbers: numbers outside dates and times.
        dates: today's date, dates on which the messages were sent, and dates in the quotes.
        times: times of day at which the messages were sent, and times in the quotes.
        weekdays: weekdays in the quotes and weekdays of `dates`; 0 is Monday.
        digit_runs: long digit sequences in the quotes, such as phone numbers.
        list_item_count: number of quotes plus number of list markers in the quotes.
    """

    numbers: frozenset[Decimal]
    standalone_numbers: frozenset[Decimal]
    dates: frozenset[PartialDate]
    times: frozenset[time]
    weekdays: frozenset[int]
    digit_runs: frozenset[str]
    quote_count: int
    list_item_count: int

    @classmethod
    def from_citations(cls, citations: Sequence[Citation], question: Question) -> _SupportedValues:
        """Collect the supported values from quotes."""
        zone = question.now.tzinfo
        quoted = [
            (citation.quote, find_figures(citation.quote), _to_local_date(citation, zone)) for citation in citations
        ]
        send_dates = {PartialDate(day.year, day.month, day.day) for _, _, day in quoted}
        today = question.now.date()
        named_dates = {
            complete_date
            for _, quoted_figures, day in quoted
            for figure in quoted_figures
            for partial in figure.dates
            for complete_date in complete_dates(partial, day)
        }
        resolved_dates = {item for quote, _, day in quoted for item in find_relative_dates(quote, day)}
        dates = send_dates | named_dates | resolved_dates | {PartialDate(today.year, today.month, today.day)}
        all_figures = [figure for _, quoted_figures, _ in quoted for figure in quoted_figures]
        weekdays = {figure.weekday for figure in all_figures if figure.weekday is not None}
        send_times = {
            to_local_time(citation.ts, zone).time().replace(second=0, microsecond=0, tzinfo=None)
            for citation in citations
        }
        quotes = {(citation.message_id, citation.quote) for citation in citations}
        return cls(
            numbers=frozenset().union(
                *(find_numbers(quote) | collect_numbers(quoted_figures) for quote, quoted_figures, _ in quoted)
            ),
            standalone_numbers=frozenset(number for figure in all_figures for number in figure.numbers),
            dates=frozenset(dates),
            times=frozenset(time_of_day for figure in all_figures for time_of_day in figure.times) | send_times,
            weekdays=frozenset(weekdays | {day.weekday() for item in dates if (day := item.to_calendar_day())}),
            digit_runs=frozenset().union(*(find_digit_runs(quote) for quote, _, _ in quoted)),
            quote_count=len(quotes),
            list_item_count=len(quotes) + sum(len(_LIST_MARK.findall(quote)) for _, quote in quotes),
        )

    def add_equation_results(self, equations: Iterable[str]) -> _SupportedValues:
        """Return a copy that also supports the results of correct equations whose operands are supported."""
        support = self
        for equation in equations:
            computation = verify_equation(equation)
            if computation is not None and support._supports_computation(computation):
                support = support._add_results(computation.results)
        return support

    def supports_figure(self, figure: Figure) -> bool:
        """Return whether the quotes support a figure of the statement."""
        if figure.weekday is not None:
            return figure.weekday in self.weekdays
        by_number = bool(figure.numbers & self.numbers) or (
            self.quote_count > 1 and Decimal(self.quote_count) in figure.numbers
        )
        by_date = any(supported.covers(claimed) for claimed in figure.dates for supported in self.dates)
        return by_number or by_date or self._supports_date_part(figure) or self._supports_time(figure.times)

    def _supports_date_part(self, figure: Figure) -> bool:
        """Return whether a figure is a standalone day or year that occurs in the quotes as a number."""
        return any(
            day.month is None
            and (day.day is None or day.year is None)
            and Decimal(day.day or day.year or 0) in self.numbers
            for day in figure.dates
        )

    def _supports_time(self, claimed: frozenset[time]) -> bool:
        hours = {
            number
            for time_of_day in claimed
            if not time_of_day.minute
            for number in (time_of_day.hour, time_of_day.hour % _HALF_DAY or _HALF_DAY)
        }
        return bool(claimed & self.times) or any(Decimal(hour) in self.standalone_numbers for hour in hours)

    def _supports_computation(self, computation: Computation) -> bool:
        """Return whether the quotes support all operands of an equation.

        The operand 1 may occur as often as the quotes have list items, because an equation may count them by adding 1s.
        """
        ones = sum(operand.number == 1 for operand in computation.operands)
        return ones <= max(self.list_item_count, 1) and all(map(self._supports_operand, computation.operands))

    def _supports_operand(self, operand: Operand) -> bool:
        quantity = operand.quantity
        if quantity.kind is QuantityKind.DATE:
            day = date.fromordinal(int(quantity.value))
            return any(supported.covers(PartialDate(day.year, day.month, day.day)) for supported in self.dates)
        if quantity.kind is QuantityKind.TIME:
            return self._supports_time(frozenset({_to_time_of_day(quantity.value)}))
        number = operand.number or Decimal(0)
        years = {Decimal(item.year) for item in self.dates if item.year is not None}
        return number in self.numbers or number in _UNIT_FACTORS or number in years

    def _add_results(self, results: Sequence[Operand]) -> _SupportedValues:
        numbers = {result.number for result in results if result.number is not None}
        days = {
            date.fromordinal(int(result.quantity.value))
            for result in results
            if result.quantity.kind is QuantityKind.DATE
        }
        times = {
            _to_time_of_day(result.quantity.value) for result in results if result.quantity.kind is QuantityKind.TIME
        }
        return _SupportedValues(
            self.numbers | numbers,
            self.standalone_numbers | numbers,
            self.dates | {PartialDate(day.year, day.month, day.day) for day in days},
            self.times | times,
            self.weekdays | {day.weekday() for day in days},
            self.digit_runs,
            self.quote_count,
            self.list_item_count,
        )


def collect_numbers(quoted_figures: Iterable[Figure]) -> frozenset[Decimal]:
    """Return all possible values of the numbers in the figures."""
    return frozenset(number for figure in quoted_figures for number in figure.numbers)


def _to_time_of_day(minutes: Decimal) -> time:
    return time(int(minutes) // _MINUTES % (2 * _HALF_DAY), int(minutes) % _MINUTES)


def _to_local_date(citation: Citation, zone: tzinfo | None) -> date:
    return to_local_time(citation.ts, zone).date()


def _fold_word(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char)).replace("’", "'")


def _fold_words(texts: Iterable[str]) -> frozenset[str]:
    words = (_ENDING.sub("", _fold_word(word)) for text in texts for word in _LATIN_WORD.findall(text))
    return frozenset(word for word in words if word.isascii())


def _is_known_name(name: str, known_names: frozenset[str]) -> bool:
    """Return whether a name equals a known name, is a prefix of a known name, or begins with a known name.

    Names with non-ASCII characters are always accepted.
    """
    folded = _fold_word(name)
    if not folded.isascii() or folded in known_names:
        return True
    return any(
        len(word) >= _PREFIX_CHARS and (word.startswith(folded) or folded.startswith(word)) for word in known_names
    )


def _are_titles_quoted(text: str, quotes: Sequence[str]) -> bool:
    """Return whether the titles that a statement puts in quotation marks occur in its quotes.

    Titles in another script than the quotes are not checked.
    """
    quoted_text = _keep_letters(" ".join(quotes))
    comparable = (
        title for title in map(_keep_letters, find_quotations(text)) if title.isascii() is quoted_text.isascii()
    )
    return all(title in quoted_text for title in comparable)


def _keep_letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", _fold_word(text))


_NO_NAMES: Final = frozenset({"user", "assistant"}) | frozenset(
    form for name in (*MONTHS, *WEEKDAYS) for form in (name, name[:3])
)
"""Capitalized words that are not names. Months and weekdays are checked as dates."""
