"""What a query says of a message, as conditions of PostgreSQL on the table `messages`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server.lexical.postgres.words import BEST_FORM, Sought, keys_of, sought_leaf, sought_names
from nomemory.server.lexical.query.tree import AllOf, AnyOf, Leaf, Node, Sign
from nomemory.server.log.conditions import Clause
from nomemory.server.log.postgres.rows import POSTGRES
from nomemory.server.message import EVERYTHING, Filter, Role

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

    A look-up by keys needs no condition on the user, because a key is of one user; the planner would read all that
    the user ever said for it. So the user is compared, against collisions, in an order that no index has.

    Args:
        user_id: the user.
        values: takes what the conditions bind.
    """

    def __init__(self, user_id: str, values: Values) -> None:
        self._user_id = user_id
        self._values = values

    def look_up(self, node: Node) -> str:
        """Return what leads the index to whatever a node matches, and to more. The node has to lead."""
        match node:
            case Leaf():
                return self._has_all(sought_leaf(self._user_id, node).keys)
            case AllOf(wanted):
                return self._all_look_up(wanted)
            case AnyOf(parts):
                return self.any_look_up(parts)

    def any_look_up(self, parts: Sequence[Node]) -> str:
        """Return what leads the index to whatever one of the nodes matches, and to more. All have to lead."""
        single, others = list[int](), list[str]()
        for part in parts:
            keys = sought_leaf(self._user_id, part).keys if isinstance(part, Leaf) else []
            if len(keys) == 1:
                single += keys
            else:
                others.append(self.look_up(part))
        if single:
            others.append(f"keys && {self._values.bind(single, 'bigint[]')}")
        return _joined(" OR ", others)

    def best_look_up(self, leaves: Iterable[Leaf]) -> str:
        """Return what leads the index to messages of the best form that have all leaves, and to more."""
        keys = chain.from_iterable(sought_leaf(self._user_id, leaf).keys for leaf in leaves)
        return self._has_all([*dict.fromkeys(keys), *keys_of(self._user_id, [BEST_FORM])])

    def matches(self, node: Node) -> str:
        """Return what holds where a node matches."""
        match node:
            case Leaf():
                return self._stands(sought_leaf(self._user_id, node))
            case AllOf(wanted, unwanted):
                return _joined(" AND ", [*map(self.matches, wanted), *(f"NOT {self.matches(one)}" for one in unwanted)])
            case AnyOf(parts):
                return _joined(" OR ", [self.matches(part) for part in parts])

    def bears(self, sign: Sign) -> str:
        """Return what holds where a message bears a sign."""
        if not sign.names:
            return f"role = {Role.USER.value}"
        return _joined(" OR ", [self._stands(sought) for sought in sought_names(self._user_id, sign)])

    def own(self) -> str:
        """Return what holds for the messages of the user, and is no reason to look for them."""
        return f'user_id COLLATE "POSIX" = {self._values.once(self._user_id, "text")}'

    def said(self, narrowed: Filter = EVERYTHING, until_us: int | None = None) -> str:
        """Return what the messages of the user are read by in their order, within a filter's time; the end included."""
        until = [end for end in (narrowed.until_us, None if until_us is None else until_us + 1) if end is not None]
        times = Filter(since_us=narrowed.since_us, until_us=min(until, default=None))
        return all_hold(map(self._values.of, POSTGRES.admitted(self._user_id, times)))

    def admits(self, narrowed: Filter) -> list[str]:
        """Return what holds where a filter admits a message."""
        return list(map(self._values.of, [*POSTGRES.of_filter(narrowed), *POSTGRES.of_metadata(narrowed)]))

    def _stands(self, sought: Sought) -> str:
        return f"position({self._values.once(sought.needle, 'bytea')} IN tokens) > 0"

    def _all_look_up(self, wanted: Sequence[Node]) -> str:
        leaves = [part for part in wanted if isinstance(part, Leaf)]
        found = [self.look_up(part) for part in wanted if leads(part) and not isinstance(part, Leaf)]
        if leaves:
            keys = chain.from_iterable(sought_leaf(self._user_id, leaf).keys for leaf in leaves)
            found.append(self._has_all(list(dict.fromkeys(keys))))
        return _joined(" AND ", found)

    def _has_all(self, keys: list[int]) -> str:
        return f"keys @> {self._values.bind(keys, 'bigint[]')}"


def leads(node: Node) -> bool:
    """Return whether keys lead to whatever a node matches: what only negates may match any message."""
    match node:
        case Leaf():
            return True
        case AllOf(wanted):
            return any(map(leads, wanted))
        case AnyOf(parts):
            return all(map(leads, parts))


def all_hold(conditions: Iterable[str]) -> str:
    """Return one condition that holds where all of them hold."""
    return _joined(" AND ", list(conditions))


def _joined(operator: str, parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"({operator.join(parts)})" if parts else _EVERY_ROW
