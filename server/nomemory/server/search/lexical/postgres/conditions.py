"""A parsed query as conditions of PostgreSQL on the table `messages`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, SpeakerBoost, requires_leaf
from nomemory.server.search.lexical.postgres.token_columns import TermPredicate, boost_predicates, leaf_predicate
from nomemory.server.store.conditions import Clause
from nomemory.server.store.postgres.rows import POSTGRES

_EVERY_ROW: Final = "true"


class Statement(NamedTuple):
    """A statement, and the values that it binds."""

    text: str
    values: Sequence[object]


class Values:
    """The values of a statement, in the order of their placeholders."""

    def __init__(self) -> None:
        self.all = list[object]()
        self._known = dict[tuple[object, str], str]()

    def once(self, value: Hashable, kind: str) -> str:
        """Return the placeholder of a value that may have one already."""
        if (value, kind) not in self._known:
            self._known[value, kind] = self.bind(value, kind)
        return self._known[value, kind]

    def bind(self, value: object, kind: str) -> str:
        """Return the placeholder of a further value, as one of a type of PostgreSQL."""
        self.all.append(value)
        return f"${len(self.all)}::{kind}"

    def of(self, clause: Clause) -> str:
        """Return a condition of the log's, with placeholders."""
        condition = clause.condition
        for value in clause.values:
            self.all.append(value)
            condition = condition.replace("?", f"${len(self.all)}", 1)
        return condition


class Conditions:
    """Writes conditions on the messages of one user.

    A lookup by keys needs no condition on the user, because a key is of one user; with one, the planner would read all
    messages of the user. So the user is compared, against collisions, in an order that no index has.

    Args:
        user_id: the user.
        values: takes what the conditions bind.
    """

    def __init__(self, user_id: str, values: Values) -> None:
        self._user_id = user_id
        self._values = values

    def lookup(self, node: Node) -> str:
        """Return an indexed condition that holds for all matches of a node, and for more. The node requires a leaf."""
        match node:
            case Leaf():
                return self._has_all(leaf_predicate(self._user_id, node).keys)
            case AllOf(wanted):
                return self._lookup_all(wanted)
            case AnyOf(parts):
                return self.lookup_any(parts)

    def lookup_any(self, parts: Sequence[Node]) -> str:
        """Return an indexed condition that holds for all matches of any of the nodes. All of them require a leaf."""
        single, others = list[int](), list[str]()
        for part in parts:
            keys = leaf_predicate(self._user_id, part).keys if isinstance(part, Leaf) else []
            if len(keys) == 1:
                single += keys
            else:
                others.append(self.lookup(part))
        if single:
            others.append(f"keys && {self._values.bind(single, 'bigint[]')}")
        return any_holds(others)

    def matches(self, node: Node) -> str:
        """Return a condition that holds exactly for the matches of a node."""
        match node:
            case Leaf():
                return self._has(leaf_predicate(self._user_id, node))
            case AllOf(wanted, unwanted):
                return all_hold([*map(self.matches, wanted), *(f"NOT {self.matches(child)}" for child in unwanted)])
            case AnyOf(parts):
                return any_holds(map(self.matches, parts))

    def boosted(self, boost: SpeakerBoost) -> str:
        """Return a condition that holds for the messages that get a speaker boost."""
        if not boost.names:
            return f"role = {Role.USER.value}"
        return any_holds([self._has(predicate) for predicate in boost_predicates(self._user_id, boost)])

    def of_user(self) -> str:
        """Return a condition that holds for the messages of the user, and that no index answers."""
        return f'user_id COLLATE "POSIX" = {self._values.once(self._user_id, "text")}'

    def in_time(self, message_filter: Filter = EVERYTHING, until_us: int | None = None) -> str:
        """Return an indexed condition for the user's messages within a filter's time, up to `until_us` included."""
        ends = (message_filter.until_us, None if until_us is None else until_us + 1)
        until = min((end for end in ends if end is not None), default=None)
        times = Filter(since_us=message_filter.since_us, until_us=until)
        return all_hold(map(self._values.of, POSTGRES.matching(self._user_id, times)))

    def admitted(self, message_filter: Filter) -> list[str]:
        """Return conditions that hold for the messages that a filter admits."""
        clauses = [*POSTGRES.filter_clauses(message_filter), *POSTGRES.metadata_clauses(message_filter)]
        return list(map(self._values.of, clauses))

    def _has(self, predicate: TermPredicate) -> str:
        return f"position({self._values.once(predicate.needle, 'bytea')} IN tokens) > 0"

    def _lookup_all(self, wanted: Sequence[Node]) -> str:
        leaves = [part for part in wanted if isinstance(part, Leaf)]
        lookups = [self.lookup(part) for part in wanted if requires_leaf(part) and not isinstance(part, Leaf)]
        if leaves:
            keys = chain.from_iterable(leaf_predicate(self._user_id, leaf).keys for leaf in leaves)
            lookups.append(self._has_all(list(dict.fromkeys(keys))))
        return all_hold(lookups)

    def _has_all(self, keys: list[int]) -> str:
        return f"keys @> {self._values.bind(keys, 'bigint[]')}"


def all_hold(conditions: Iterable[str]) -> str:
    """Return one condition that holds where all of them hold."""
    return _joined(" AND ", list(conditions))


def any_holds(conditions: Iterable[str]) -> str:
    """Return one condition that holds where at least one of them holds."""
    return _joined(" OR ", list(conditions))


def _joined(operator: str, conditions: Sequence[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    return f"({operator.join(conditions)})" if conditions else _EVERY_ROW
