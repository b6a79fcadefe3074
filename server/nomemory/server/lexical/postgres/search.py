"""A search as one statement of PostgreSQL, in the order that LexicalIndex.search promises.

Where a user said much, the statement has several steps. Each looks at few messages, and either has the page, and then
the later steps are not executed, or is in vain. The last one looks at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nomemory.server.lexical.form import FORMS, worth
from nomemory.server.lexical.postgres.condition import Conditions, Statement, Values, all_hold, leads
from nomemory.server.lexical.postgres.essential import essential_sets
from nomemory.server.lexical.protocol import WordSearch
from nomemory.server.lexical.query.tree import Leaf, Sign, all_of
from nomemory.server.lexical.rarity import expected, expected_all
from nomemory.server.log.conditions import Expiry
from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.postgres.rows import POSTGRES

FEW: Final = 256
"""Messages of a user that are read one after the other sooner than looked up."""

READ: Final = 8192
"""Most of the latest messages that are read in one step: fewer, as soon as there is a page."""

OF_LATELY: Final = 1.0
"""How many times more matches than are wanted are to be expected among them."""

LATE: Final = 2048
"""How many of the latest messages are ranked beside those that may be better than any other."""

WORTHWHILE: Final = 6000
"""Matches that are looked at sooner than in steps."""

_SELDOM: Final = 4
"""How many times less is read for such a page: what only may be there is looked up sooner."""

_PERFECT: Final = 0.2
"""About what share of messages is a short statement of the right speaker."""

_LIKELY: Final = 100_000
"""Messages of a user of whom nothing is known."""

_NEVER: Final = 2**63 - 1
_COLUMNS: Final = "ts_us, sequence, message_id, wire, checksum"
_SCORE: Final = "(found + borne) * worth"
_FORM: Final = "get_byte(tokens, 0)"
_WORTH: Final = f"('{{{','.join(str(worth(form)) for form in FORMS)}}}'::float8[])[{_FORM} + 1]"


class _Source(NamedTuple):
    """Where messages are read, and what holds for those that are."""

    table: str
    conditions: str


class PostgresSearch:
    """Writes the statement of one search.

    Args:
        wanted: what is asked for.
        lifetimes: what has expired is not found.
        messages: about how many the user has; None: nobody knows.
    """

    def __init__(self, wanted: WordSearch, lifetimes: Lifetimes, messages: int | None) -> None:
        self._wanted = wanted
        self._messages = messages
        self._query = wanted.query
        self._best = sum(wanted.weights, start=0.0)
        self._values = Values()
        self._conditions = Conditions(wanted.user_id, self._values)
        self._limit = self._values.bind(wanted.limit, "bigint")
        self._expiry = Expiry(POSTGRES, lifetimes)
        self._admitted = all_hold(self._admitting())
        self._named = list[str]()
        self._done = list[str]()

    def statement(self) -> Statement | None:
        """Return what gives score, `ts_us`, sequence, id, wire and checksum of each hit, and what took it back.

        They come in any order. None if there is nothing to be found.
        """
        after = self._wanted.after
        if self._query.is_uniform and after is not None and after.score < self._best:
            return None
        last = self._by_time() if self._query.is_uniform else self._by_rank()
        taker = self._values.of(self._expiry.retracted_by(self._wanted.user_id, self._expiry.living()))
        return Statement(f"SELECT messages.*, {taker} FROM ({self._assembled(last)}) AS messages", self._values.all)

    def _by_time(self) -> str:
        """Add steps to a search of which all hits have one score; return the last."""
        matches = self._conditions.matches(self._query.root)
        if self._has_few() or not leads(self._query.root):
            return self._dated(self._said(self._until_us()), matches)
        likely, messages = self._likely(), self._messages or _LIKELY
        if self._is_lately(likely) and likely * likely * messages > self._wanted.limit:  # that is, fewer are read
            self._add(self._dated(self._lately(), matches))
        return self._dated(self._found_by(self._conditions.look_up(self._query.root)), matches)

    def _by_rank(self) -> str:
        """Add steps to a search of which hits differ in score; return the last."""
        if self._has_few() or not leads(self._query.root):
            return self._ranked(self._said())
        if self._expected() > WORTHWHILE:
            self._add_perfect()
            self._add_telling()
        return self._ranked(self._found_by(self._conditions.look_up(self._query.root)))

    def _add_perfect(self) -> None:
        """Look for a page of nothing but perfect matches among the latest messages."""
        after = self._wanted.after
        if not self._is_lately(self._likely() * _PERFECT / _SELDOM) or (after and after.score < self._best):
            return
        perfect = [self._conditions.matches(self._query.root), *map(self._conditions.matches, self._query.leaves)]
        perfect += [self._conditions.bears(sign) for sign, _ in self._signs()]
        if self._query.by_form:
            perfect.append(f"{_FORM} = 0")
        self._add(self._dated(self._lately(), all_hold(dict.fromkeys(perfect))))

    def _add_telling(self) -> None:
        """Look at the latest messages, and at what has leaves enough for a better score than all others can have.

        So all is seen that scores more than the rest can. Of what scores just as much, the latest is.
        """
        beside = sum(weight for _, weight in self._signs())
        after, messages = self._wanted.after, self._messages or _LIKELY
        levels = list(essential_sets(self._query, self._wanted.weights, beside, messages))
        levels = [level for level in levels if after is None or after.score > level.rest]
        if not levels:
            return
        self._name_lately()
        if self._query.by_form and (after is None or after.score > self._rest_of_perfect()):
            self._add_told(self._conditions.best_look_up(self._query.leaves), self._rest_of_perfect())
        for level in levels:
            nodes = [all_of(leaves) for leaves in level.sets]
            self._add_told(self._conditions.any_look_up(nodes), level.rest)

    def _rest_of_perfect(self) -> float:
        """Return the most that a message scores that has not all leaves, or is not of the best form."""
        least = min(weight for _, weight in self._leaves())
        return max(self._best - least, self._best * worth(FORMS[1]))

    def _name_lately(self) -> None:
        said = self._said()
        begin = f"SELECT ts_us FROM messages WHERE {said.conditions} ORDER BY ts_us DESC OFFSET {LATE} LIMIT 1"
        self._named.append(f"late AS MATERIALIZED (SELECT coalesce(({begin}), {-_NEVER}) AS since)")
        late = all_hold([said.conditions, "ts_us >= (SELECT since FROM late)"])
        self._named.append(f"lately AS MATERIALIZED ({self._scored(_Source('messages', late))})")

    def _add_told(self, looked_up: str, most: float) -> None:
        """Add a step that sees the latest, and what is looked up, where nothing else scores more than `most`."""
        told = self._found_by(looked_up)
        early = told._replace(conditions=all_hold([told.conditions, "ts_us < (SELECT since FROM late)"]))
        rest = self._values.bind(most, "float8")
        seen = f"({_SCORE} > {rest} OR {_SCORE} = {rest} AND ts_us >= (SELECT since FROM late))"
        self._add(self._best_of(f"SELECT * FROM lately UNION ALL {self._scored(early)}", seen))

    def _add(self, text: str) -> None:
        """Add a step. It is in vain if it does not fill the page."""
        name = f"step{len(self._done)}"
        self._named.append(f"{name} AS MATERIALIZED ({text})")
        self._done.append(f"(SELECT count(*) FROM {name}) >= {self._limit}")

    def _assembled(self, last: str) -> str:
        if not self._done:
            return last
        pages = [f"SELECT * FROM step{place} WHERE {done}" for place, done in enumerate(self._done)]
        return f"WITH {', '.join(self._named)} {' UNION ALL '.join(pages)} UNION ALL ({last})"

    def _dated(self, source: _Source, matches: str) -> str:
        """Return the latest of a source that match; all have the best score."""
        bounds = [f"ts_us <= {self._values.bind(until, 'bigint')}"] if (until := self._until_us()) is not None else []
        conditions = all_hold([source.conditions, matches, self._admitted, *bounds, *self._in_vain()])
        return (
            f"SELECT {self._values.bind(self._best, 'float8')} AS score, {_COLUMNS} FROM {source.table} "
            f"WHERE {conditions} ORDER BY ts_us DESC FETCH FIRST ({self._limit}) ROWS WITH TIES"
        )

    def _ranked(self, source: _Source) -> str:
        """Return the best of a source."""
        return self._best_of(self._scored(source))

    def _scored(self, source: _Source) -> str:
        """Return what matches of a source, with what its score is made of."""
        found = ((self._conditions.matches(leaf), weight) for leaf, weight in self._leaves())
        borne = ((self._conditions.bears(sign), weight) for sign, weight in self._signs())
        matches = [] if self._query.is_union else [self._conditions.matches(self._query.root)]
        conditions = all_hold([source.conditions, *matches, self._admitted])
        return (
            f"(SELECT {_COLUMNS}, {self._sum(found)} AS found, {self._sum(borne)} AS borne,"
            f" {_WORTH if self._query.by_form else '1::float8'} AS worth"
            f" FROM {source.table} WHERE {conditions} OFFSET 0)"
        )

    def _best_of(self, scored: str, *seen: str) -> str:
        """Return the best of what is scored, as far as a condition holds."""
        page = ["found > 0"] if self._query.is_union else []
        if after := self._wanted.after:
            score, ts_us = self._values.bind(after.score, "float8"), self._values.bind(after.ts_us, "bigint")
            page.append(f"({_SCORE}, ts_us) <= ({score}, {ts_us})")
        conditions = all_hold([*page, *seen, *self._in_vain()])
        return (
            f"SELECT {_SCORE} AS score, {_COLUMNS} FROM ({scored}) AS scored WHERE {conditions}"
            f" ORDER BY score DESC, ts_us DESC FETCH FIRST ({self._limit}) ROWS WITH TIES"
        )

    def _said(self, until_us: int | None = None) -> _Source:
        """Return all that the user said in the time that is asked for."""
        return _Source("messages", self._conditions.said(self._wanted.narrowed, until_us))

    def _lately(self) -> _Source:
        """Return the latest of what the user said in the time that is asked for, and no instant cut apart."""
        said = self._said(self._until_us()).conditions
        most = self._values.bind(READ, "bigint")
        latest = f"SELECT * FROM messages WHERE {said} ORDER BY ts_us DESC FETCH FIRST ({most}) ROWS WITH TIES"
        return _Source(f"({latest}) AS messages", "true")

    def _found_by(self, looked_up: str) -> _Source:
        """Return what the index leads to."""
        return _Source("messages", all_hold([looked_up, self._conditions.own()]))

    def _in_vain(self) -> Iterator[str]:
        """Return what holds if all steps so far were in vain."""
        return (f"NOT {done}" for done in self._done)

    def _admitting(self) -> Iterator[str]:
        yield from self._conditions.admits(self._wanted.narrowed)
        yield f"sequence <= {self._values.bind(self._wanted.pinned, 'bigint')}"
        yield self._values.of(self._expiry.living())

    def _sum(self, parts: Iterable[tuple[str, float]]) -> str:
        cases = (f"CASE WHEN {holds} THEN {self._values.bind(weight, 'float8')} ELSE 0 END" for holds, weight in parts)
        return " + ".join(["0::float8", *cases])

    def _leaves(self) -> Iterator[tuple[Leaf, float]]:
        return zip(self._query.leaves, self._wanted.weights, strict=False)

    def _signs(self) -> list[tuple[Sign, float]]:
        """Return the signs that weigh."""
        weights = self._wanted.weights[len(self._query.leaves) :]
        return [(sign, weight) for sign, weight in zip(self._query.signs, weights, strict=True) if weight]

    def _until_us(self) -> int | None:
        """Return the time after which nothing can be any more, where all hits have the best score."""
        after = self._wanted.after
        return after.ts_us if after and after.score == self._best else None

    def _has_few(self) -> bool:
        return self._messages is not None and self._messages <= FEW

    def _expected(self) -> float:
        """Return about how many messages have a leaf, at most."""
        return sum(expected(self._messages or _LIKELY, self._query, self._wanted.weights).values())

    def _likely(self) -> float:
        """Return about which share of the messages has all leaves."""
        return expected_all(1, self._query, self._wanted.weights)

    def _is_lately(self, likely: float) -> bool:
        """Return whether the latest messages are likely to have a page of what so large a share is."""
        return likely * READ > OF_LATELY * self._wanted.limit
