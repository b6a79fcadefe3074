"""A skill's defaults: where a search starts, and how much it asks for, unless the caller or the question says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from nomemory.recall.model.question import Role


class AnyTime(Enum):
    """A window that is explicitly without bounds."""

    ANY = "any"


@dataclass(frozen=True, slots=True)
class Defaults:
    """A skill's defaults; None: it has none.

    `window` reaches back from the time of the question. `top_k` is how many messages a search asks for. `lines` are the
    lines of SKILL.md where they stand, by their keys: `time_range_default`, `role_default`, `top_k_default`.
    """

    window: timedelta | AnyTime | None = None
    role: Role | None = None
    top_k: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
