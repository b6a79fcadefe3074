"""Map the namespaces of a LangGraph store to a user's conversations."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.store.base import (
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
)

Namespace = tuple[str, ...]


class ConversationNamespaces:
    """Maps conversations to LangGraph namespaces.

    A namespace is the root namespace, followed by the conversation id if there is one.
    """

    def __init__(self, root: Namespace) -> None:
        self._root = root

    def build_namespace(self, conversation_id: str) -> Namespace:
        """Return the namespace of a conversation; the root namespace if the id is empty."""
        return (*self._root, conversation_id) if conversation_id else self._root

    def parse_conversation_id(self, namespace: Namespace) -> str:
        """Return the conversation id in a namespace; empty for the root namespace.

        Raises:
            InvalidNamespaceError: the namespace is neither the root namespace nor the root namespace with one more
                label.
        """
        below = namespace[len(self._root) :]
        if namespace[: len(self._root)] != self._root or len(below) > 1:
            raise InvalidNamespaceError(
                f"namespace must be {self._root}, optionally with one more label, got {namespace}"
            )
        return below[0] if below else ""

    def find_searched_conversation(self, prefix: Namespace) -> str:
        """Return the id of the conversation that a search with a namespace prefix reads; empty for all conversations.

        Raises:
            InvalidNamespaceError: no namespace of the store begins with the prefix.
        """
        return "" if prefix == self._root[: len(prefix)] else self.parse_conversation_id(prefix)

    def list_matching_namespaces(self, conversation_ids: Iterable[str], op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces that match the conditions of a listing, in sorted order."""
        all_namespaces = map(self.build_namespace, conversation_ids)
        namespaces = {
            item[: op.max_depth]
            for item in all_namespaces
            if all(_matches_condition(item, condition) for condition in op.match_conditions or ())
        }
        return sorted(namespaces)[op.offset : op.offset + op.limit]


def _matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(label in {"*", item} for label, item in zip(path, part, strict=True))
