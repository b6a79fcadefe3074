"""What a query says of a message, as conditions of PostgreSQL on the table `messages`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server.lexical.postgres.words import Sought, key_of_best_form, sought_leaf, sought_names
from nomemory.server.lexical.query.tree import AllOf, AnyOf, Leaf, Node, Query, Sign, any_of
from nomemory.server.log.position import bucket_of
from nomemory.server.message import EVERYTHING, Filter, Role, mark_of

_EVERY_ROW: Final = "true"

_HAS_ENTRY: Final = (
    "EXISTS (SELECT FROM metadata_entries AS e WHERE (e.bucket, e.user_id, e.mark, e.ts_us, e.message_id)"
    " = (messages.bucket, messages.user_id, {mark}, messages.ts_us, messages.message_id))"
)


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
        return self._has_all([*dict.fromkeys(keys), key_of_best_form(self._user_id)])

    def matches(self, node: Node) -> str:
        """Return what holds where a node matches."""
        match node:
            case Leaf():
                return self._has(node)
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
        ends = [narrowed.since_us, None if narrowed.until_us is None else narrowed.until_us - 1, until_us]
        bounds = zip(("ts_us >= {}", "ts_us <= {}", "ts_us <= {}"), ends, strict=True)
        some = (bound.format(self._values.bind(end, "bigint")) for bound, end in bounds if end is not None)
        bucket = self._values.once(bucket_of(self._user_id), "smallint")
        return all_hold([f"bucket = {bucket}", f"user_id = {self._values.once(self._user_id, 'text')}", *some])

    def admits(self, narrowed: Filter) -> Iterator[str]:
        """Return what holds where a filter admits a message."""
        bounds: list[tuple[str, object, str]] = [
            ("ts_us >= {}", narrowed.since_us, "bigint"),
            ("ts_us < {}", narrowed.until_us, "bigint"),
            ("role = {}", narrowed.role and narrowed.role.value, "smallint"),
            ("conversation_id = {}", narrowed.conversation_id or None, "text"),
        ]
        for condition, value, kind in bounds:
            if value is not None:
                yield condition.format(self._values.bind(value, kind))
        for entry in narrowed.metadata:
            yield _HAS_ENTRY.format(mark=self._values.bind(bytes.fromhex(mark_of(entry)), "bytea"))

    def _has(self, leaf: Leaf) -> str:
        return self._stands(sought_leaf(self._user_id, leaf))

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


def is_union(query: Query) -> bool:
    """Return whether every message with a leaf matches."""
    return query.root == any_of(query.leaves)


def all_hold(conditions: Iterable[str]) -> str:
    """Return one condition that holds where all of them hold."""
    return _joined(" AND ", list(conditions))


def _joined(operator: str, parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"({operator.join(parts)})" if parts else _EVERY_ROW
