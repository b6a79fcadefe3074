"""Reads the fields of one JSON object, and collects everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from nomemory.cli.importing.draft import metadata_text
from nomemory.cli.importing.instant import instant


class Fields:
    """A view of one JSON object. A bad field gives an empty value and a reason.

    `reasons` has what was wrong so far, as "field: what is wrong".
    """

    def __init__(self, value: Mapping[str, object]) -> None:
        self._value = value
        self._read: set[str] = set()
        self.reasons: list[str] = []

    def text(self, key: str, *, required: bool = False) -> str:
        """Read a text; a missing one and null are empty."""
        value = self._get(key)
        if isinstance(value, str) and (value or not required):
            return value
        if value is not None and not isinstance(value, str):
            self.reasons.append(f"{key}: must be text")
        elif required:
            self.reasons.append(f"{key}: is required")
        return ""

    def moment(self, *keys: str, required: bool = False) -> datetime | None:
        """Read a time from the first of the keys that is there; None if there is none, or a bad one."""
        for key in keys:
            value = self._get(key)
            if value is None:
                continue
            try:
                return instant(value)
            except ValueError as error:
                self.reasons.append(f"{key}: {error}")
                return None
        if required:
            self.reasons.append(f"{keys[0]}: is required")
        return None

    def metadata(self, key: str) -> dict[str, str]:
        """Read an object; its values become text. Nulls are left out."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.reasons.append(f"{key}: must be an object")
            return {}
        try:
            return {name: metadata_text(item) for name, item in value.items() if item is not None}
        except RecursionError:
            self.reasons.append(f"{key}: is nested too deeply")
            return {}

    def ignored(self) -> tuple[str, ...]:
        """Return the fields that nothing was done with."""
        return tuple(sorted(self._value.keys() - self._read))

    def _get(self, key: str) -> object:
        self._read.add(key)
        return self._value.get(key)
