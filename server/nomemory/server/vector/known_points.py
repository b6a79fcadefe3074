"""A cache of points' facts: the engine takes longer to look a point up than to compare it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

Identity = int | UUID | str
"""As the engine has it."""
Facts = tuple[int, int]
"""A point's `ts` and the sequence of its version."""
LookUp = Callable[[list[Identity]], Mapping[Identity, Facts]]

_KNOWN_MAX = 65_536
"""Points that are remembered: about 20 MB."""


class KnownPoints:
    """The facts of points that were found lately. Whoever changes points has to say so.

    Args:
        look_up: asks the engine.
        most: how many are remembered; beyond, all are forgotten at once.
    """

    def __init__(self, look_up: LookUp, most: int = _KNOWN_MAX) -> None:
        self._look_up = look_up
        self._most = most
        self._known: dict[Identity, Facts] = {}

    def facts(self, identities: Sequence[Identity]) -> list[Facts]:
        """Return the facts of points that exist."""
        found = [self._known.get(identity) for identity in identities]
        if None in found:
            known = dict(zip(identities, found, strict=True))
            known |= self._looked_up([identity for identity, facts in known.items() if facts is None])
            found = list(known.values())
        return [facts for facts in found if facts is not None]

    def forget(self, identities: Iterable[Identity]) -> None:
        """Forget points that are about to change."""
        for identity in identities:
            self._known.pop(identity, None)

    def _looked_up(self, identities: list[Identity]) -> Mapping[Identity, Facts]:
        facts = self._look_up(identities)
        if len(self._known) + len(facts) > self._most:
            self._known.clear()
        self._known |= facts
        return facts
