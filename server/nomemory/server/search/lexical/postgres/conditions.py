"""SQL conditions on the table `messages` for a parsed query."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, SpeakerBoost, requires_leaf
from nomemory.server.search.lexical.postgres.token_columns import (
    TermPredicate,
    build_boost_predicates,
    build_leaf_predicate,
)
from nomemory.server.store.conditions import Clause
from nomemory.server.store.postgres.rows import POSTGRES

_TRUE: Final = "true"


class Statement(NamedTuple):
    """An SQL statement with its bound values."""

    text: str
    values: Sequence[object]


class BoundValues:
    """Bound values of a statement, in the order of their placeholders."""

    def __init__(self) -> None:
        self.all = list[object]()
        self._placeholders = dict[tuple[object, str], str]()

    def bind_once(self, value: Hashable, kind: str) -> str:
        """Return the placeholder of a value. Equal values share a placeholder."""
        if (value, kind) not in self._placeholders:
            self._placeholders[value, kind] = self.bind(value, kind)
        return self._placeholders[value, kind]

    def bind(self, value: object, kind: str) -> str:
        """Bind a value and return its placeholder, cast to a PostgreSQL type."""
        self.all.append(value)
        return f"${len(self.all)}::{kind}"

    def bind_clause(self, clause: Clause) -> str:
        """Bind the values of a clause, and return the clause's condition with placeholders."""
        condition = clause.condition
        for value in clause.values:
            self.all.append(value)
            condition = condition.replace("?", f"${len(self.all)}", 1)
        return condition


class ConditionBuilder:
    """Builds SQL conditions on the messages of one user.

    Keys are hashes that include the user, so an index lookup by keys needs no condition on the user. With an indexable
    condition on the user, the query planner would read all messages of the user. The condition that excludes hash
    collisions therefore uses a collation that no index has.

    Args:
        values: the collection to which bound values are added.
    """

    def __init__(self, user_id: str, values: BoundValues) -> None:
        self._user_id = user_id
        self._values = values

    def build_candidate_condition(self, node: Node) -> str:
        """Return an index-supported condition that every match of a node satisfies. The node must require a term."""
        match node:
            case Leaf():
                return self._build_keys_condition(build_leaf_predicate(self._user_id, node).keys)
            case AllOf(required):
                return self._build_joint_candidate_condition(required)
            case AnyOf(parts):
                return self.build_any_candidate_condition(parts)

    def build_any_candidate_condition(self, parts: Sequence[Node]) -> str:
        """Return an index-supported condition that the matches of each node satisfy. Each node must require a term."""
        single_keys, lookups = list[int](), list[str]()
        for part in parts:
            keys = build_leaf_predicate(self._user_id, part).keys if isinstance(part, Leaf) else []
            if len(keys) == 1:
                single_keys += keys
            else:
                lookups.append(self.build_candidate_condition(part))
        if single_keys:
            lookups.append(f"keys && {self._values.bind(single_keys, 'bigint[]')}")
        return build_disjunction(lookups)

    def build_match_condition(self, node: Node) -> str:
        """Return a condition that is true exactly for the matches of a node."""
        match node:
            case Leaf():
                return self._build_predicate_condition(build_leaf_predicate(self._user_id, node))
            case AllOf(required, excluded):
                return build_conjunction(
                    [
                        *map(self.build_match_condition, required),
                        *(f"NOT {self.build_match_condition(child)}" for child in excluded),
                    ]
                )
            case AnyOf(parts):
                return build_disjunction(map(self.build_match_condition, parts))

    def build_boost_condition(self, boost: SpeakerBoost) -> str:
        """Return a condition that is true for the messages to which a speaker boost applies."""
        if not boost.names:
            return f"role = {Role.USER.value}"
        return build_disjunction(
            [self._build_predicate_condition(predicate) for predicate in build_boost_predicates(self._user_id, boost)]
        )

    def build_user_condition(self) -> str:
        """Return a condition, without index support, that is true for the messages of the user."""
        return f'user_id COLLATE "POSIX" = {self._values.bind_once(self._user_id, "text")}'

    def build_time_range_condition(self, message_filter: Filter = EVERYTHING, until_us: int | None = None) -> str:
        """Return an index-supported condition on the user and a filter's time range, up to and including `until_us`."""
        ends = (message_filter.until_us, None if until_us is None else until_us + 1)
        until = min((end for end in ends if end is not None), default=None)
        times = Filter(since_us=message_filter.since_us, until_us=until)
        return build_conjunction(map(self._values.bind_clause, POSTGRES.build_match_clauses(self._user_id, times)))

    def build_filter_conditions(self, message_filter: Filter) -> list[str]:
        """Return the conditions that a message must meet to pass a filter."""
        clauses = [*POSTGRES.build_filter_clauses(message_filter), *POSTGRES.build_metadata_clauses(message_filter)]
        return list(map(self._values.bind_clause, clauses))

    def _build_predicate_condition(self, predicate: TermPredicate) -> str:
        return f"position({self._values.bind_once(predicate.needle, 'bytea')} IN tokens) > 0"

    def _build_joint_candidate_condition(self, required: Sequence[Node]) -> str:
        leaves = [part for part in required if isinstance(part, Leaf)]
        lookups = [
            self.build_candidate_condition(part)
            for part in required
            if requires_leaf(part) and not isinstance(part, Leaf)
        ]
        if leaves:
            keys = chain.from_iterable(build_leaf_predicate(self._user_id, leaf).keys for leaf in leaves)
            lookups.append(self._build_keys_condition(list(dict.fromkeys(keys))))
        return build_conjunction(lookups)

    def _build_keys_condition(self, keys: list[int]) -> str:
        return f"keys @> {self._values.bind(keys, 'bigint[]')}"


def build_conjunction(conditions: Iterable[str]) -> str:
    """Return an SQL condition that requires all of the conditions."""
    return _join_conditions(" AND ", list(conditions))


def build_disjunction(conditions: Iterable[str]) -> str:
    """Return an SQL condition that requires at least one of the conditions."""
    return _join_conditions(" OR ", list(conditions))


def _join_conditions(operator: str, conditions: Sequence[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    return f"({operator.join(conditions)})" if conditions else _TRUE
