"""Verify equations of a chat model that compute with numbers, dates, times and durations.

Equations are parsed, never evaluated as code. An equation may have the operators `+ - * / ( )`. The operands of an
equation are numbers, dates (`2025-05-21`), times (`15:30`), and durations (`3 days`, `2 weeks`, `90 minutes`, 3天).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from enum import Enum
from typing import Final

from nomemory.recall.errors import RecallError

_MAX_CHARS: Final = 200
_MAX_DEPTH: Final = 20
_MINUTES_OF_DAY: Final = 24 * 60
_EQUALS: Final = re.compile(r"\s*[=＝]\s*")
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<date>\d{4}-\d{1,2}-\d{1,2})(?!\d)|(?P<time>\d{1,2}:\d\d)(?!\d)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<percent>\s*%)?"
    r"(?:\s*(?P<unit>minutes?|min|hours?|h|days?|weeks?|months?|years?|分钟|小时|天|日|周|星期|个月|月|年)(?![a-z]))?"
    r"|(?P<operator>[-+*/()×÷−–]))",
    re.IGNORECASE,
)
_SIGNS: Final = {"×": "*", "÷": "/", "−": "-", "–": "-"}
_UNIT_MINUTES: Final = {"m": 1, "分": 1, "h": 60, "小": 60, "d": 1_440, "天": 1_440, "日": 1_440, "w": 10_080}
_CHINESE_WEEK_MINUTES: Final = {"周": 10_080, "星": 10_080}


class QuantityKind(Enum):
    """Kind of a quantity: a plain number, a duration, a date or a time of day."""

    NUMBER = "number"
    DATE = "date"
    """Ordinal of the date, as returned by `date.toordinal`."""
    TIME = "time"
    """Minutes since midnight."""
    DURATION = "span"
    """Duration in minutes."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, duration, date or time in an equation.

    Months and years have no fixed number of days, so `months` counts them separately.
    """

    kind: QuantityKind
    value: Decimal
    months: int = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand or result of an equation. `number` is the number as written; None for a date or time of day."""

    quantity: Quantity
    number: Decimal | None = None
    is_percentage: bool = False


@dataclass(frozen=True, slots=True)
class Computation:
    """A verified equation with its operands and result."""

    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]


class _UnsupportedEquationError(RecallError, ValueError):
    """A text is not an equation that the parser supports."""


def verify_equation(equation: str) -> Computation | None:
    """Return the parsed equation if it is correct, otherwise None. The stated result may be rounded."""
    sides = _EQUALS.split(equation.strip())
    if len(equation) > _MAX_CHARS or len(sides) != 2:  # noqa: PLR2004 - an equation has two sides
        return None
    try:
        with localcontext(prec=30):
            left, right = _ExpressionParser(sides[0]), _ExpressionParser(sides[1])
            is_correct = len(right.operands) == 1 and _is_equal(left.value, right.value, right.operands[0])
    except (_UnsupportedEquationError, ArithmeticError, InvalidOperation, ValueError):
        return None
    return Computation(tuple(left.operands), tuple(right.operands)) if is_correct else None


class _ExpressionParser:
    """Parses and evaluates one side of an equation.

    Raises:
        _UnsupportedEquationError: the text is not a supported expression.
    """

    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._position = 0
        self.operands: list[Operand] = []
        self.value = self._parse_sum(0)
        if self._position != len(self._tokens):
            raise _UnsupportedEquationError

    def _parse_sum(self, depth: int) -> Quantity:
        total = self._parse_product(depth)
        while (sign := self._peek_operator()) in {"+", "-"}:
            self._position += 1
            total = _add_quantities(total, self._parse_product(depth), -1 if sign == "-" else 1)
        return total

    def _parse_product(self, depth: int) -> Quantity:
        total = self._parse_factor(depth)
        while (sign := self._peek_operator()) in {"*", "/"}:
            self._position += 1
            total = _multiply_quantities(total, self._parse_factor(depth), divide=sign == "/")
        return total

    def _parse_factor(self, depth: int) -> Quantity:
        if depth > _MAX_DEPTH or self._position >= len(self._tokens):
            raise _UnsupportedEquationError
        token = self._tokens[self._position]
        self._position += 1
        if token == "(":  # noqa: S105 - a parenthesis
            inner = self._parse_sum(depth + 1)
            if self._peek_operator() != ")":
                raise _UnsupportedEquationError
            self._position += 1
            return inner
        if isinstance(token, str):
            raise _UnsupportedEquationError
        self.operands.append(token)
        return token.quantity

    def _peek_operator(self) -> str:
        token = self._tokens[self._position] if self._position < len(self._tokens) else ""
        return token if isinstance(token, str) else ""


def _tokenize(text: str) -> list[str | Operand]:
    tokens: list[str | Operand] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _UnsupportedEquationError
        position = match.end()
        tokens.append(_SIGNS.get(match["operator"], match["operator"]) if match["operator"] else _parse_operand(match))
    return tokens


def _parse_operand(match: re.Match[str]) -> Operand:
    if match["date"]:
        return Operand(
            Quantity(QuantityKind.DATE, Decimal(date.fromisoformat(_to_iso_date(match["date"])).toordinal()))
        )
    if match["time"]:
        hours, minutes = match["time"].split(":")
        return Operand(Quantity(QuantityKind.TIME, Decimal(int(hours) * 60 + int(minutes))))
    number = Decimal(match["number"].replace(",", ""))
    if match["percent"]:
        return Operand(Quantity(QuantityKind.NUMBER, number / 100), number, is_percentage=True)
    return Operand(_to_quantity(number, (match["unit"] or "").lower()), number)


def _to_iso_date(text: str) -> str:
    year, month, day = text.split("-")
    return f"{year}-{int(month):02}-{int(day):02}"


def _to_quantity(number: Decimal, unit: str) -> Quantity:
    if not unit:
        return Quantity(QuantityKind.NUMBER, number)
    if unit.startswith(("month", "个月", "月", "year", "年")):
        months = number * (12 if unit.startswith(("year", "年")) else 1)
        return Quantity(QuantityKind.DURATION, Decimal(0), int(months))
    return Quantity(QuantityKind.DURATION, number * (_UNIT_MINUTES | _CHINESE_WEEK_MINUTES)[unit[0]])


def _add_quantities(left: Quantity, right: Quantity, sign: int) -> Quantity:
    kinds = (left.kind, right.kind)
    if kinds == (QuantityKind.DATE, QuantityKind.DURATION):
        return Quantity(
            QuantityKind.DATE, _add_months(left.value, sign * right.months) + sign * right.value / _MINUTES_OF_DAY
        )
    if kinds == (QuantityKind.TIME, QuantityKind.DURATION) and not right.months:
        return Quantity(QuantityKind.TIME, (left.value + sign * right.value) % _MINUTES_OF_DAY)
    if kinds in {(QuantityKind.DATE, QuantityKind.DATE), (QuantityKind.TIME, QuantityKind.TIME)} and sign < 0:
        unit = _MINUTES_OF_DAY if left.kind is QuantityKind.DATE else 1
        return Quantity(QuantityKind.DURATION, (left.value - right.value) * unit)
    if kinds in {(QuantityKind.NUMBER, QuantityKind.NUMBER), (QuantityKind.DURATION, QuantityKind.DURATION)}:
        return Quantity(left.kind, left.value + sign * right.value, left.months + sign * right.months)
    raise _UnsupportedEquationError


def _add_months(ordinal: Decimal, months: int) -> Decimal:
    """Add months to a date. If the resulting month does not have the day, use the last day of that month."""
    if not months:
        return ordinal
    day = date.fromordinal(int(ordinal))
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last_day = (date(years + (month == 11), (month + 1) % 12 + 1, 1) - timedelta(days=1)).day  # noqa: PLR2004 - December
    return Decimal(date(years, month + 1, min(day.day, last_day)).toordinal())


def _multiply_quantities(left: Quantity, right: Quantity, *, divide: bool) -> Quantity:
    if (
        right.kind is QuantityKind.NUMBER
        and left.kind in {QuantityKind.NUMBER, QuantityKind.DURATION}
        and not left.months
    ):
        return Quantity(left.kind, left.value / right.value if divide else left.value * right.value)
    if left.kind is QuantityKind.NUMBER and right.kind is QuantityKind.DURATION and not divide and not right.months:
        return Quantity(QuantityKind.DURATION, left.value * right.value)
    if left.kind is right.kind is QuantityKind.DURATION and divide and not left.months and not right.months:
        return Quantity(QuantityKind.NUMBER, left.value / right.value)
    raise _UnsupportedEquationError


def _is_equal(computed: Quantity, stated: Quantity, literal: Operand) -> bool:
    # Example: 2025-06-12 - 2025-06-01 = 11.
    if computed.kind is QuantityKind.DURATION and stated.kind is QuantityKind.NUMBER and not computed.months:
        return computed.value == stated.value * _MINUTES_OF_DAY
    if computed.kind is QuantityKind.DURATION and stated.kind is QuantityKind.TIME:  # Example: 17:30 - 09:00 = 8:30.
        return computed.value == stated.value and not computed.months
    if computed.kind is not stated.kind or computed.months != stated.months:
        return False
    exponent = int(literal.number.as_tuple().exponent) if literal.number is not None else 0
    step = Decimal(1).scaleb(exponent - 2 * literal.is_percentage) if stated.kind is QuantityKind.NUMBER else Decimal(0)
    return abs(computed.value - stated.value) <= step / 2
